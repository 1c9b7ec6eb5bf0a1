// A resource: what an API path names, the kind of its objects, and what can be done with it. Built-in ones come from
// tables, others from CustomResourceDefinitions; discovery and OpenAPI are made from whatever list of them there is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube {

// "status", "scale", "exec": a part of a resource with a path of its own.
struct Subresource {
  std::string name;
  std::string group, version, kind;  // of what is sent and answered there: {"autoscaling", "v1", "Scale"}
  std::vector<std::string> verbs;
  const Schema* schema = nullptr;  // of that kind; null: not known
};

struct Resource {
  std::string group;    // "" = the core group
  std::string version;  // "v1"
  std::string kind;     // "Pod"
  std::string plural;   // "pods"
  std::string singular;
  std::vector<std::string> short_names, categories;
  bool namespaced = false;
  std::vector<std::string> verbs;  // ascending
  std::vector<Subresource> subresources;
  const Schema* schema = nullptr;
  std::string list_kind;                // "PodList"; empty: it cannot be listed
  const Schema* list_schema = nullptr;  // null: made from `schema`
  std::string storage_hash;  // discovery shows it, so that clients see when objects are stored in another version

  bool has_verb(std::string_view verb) const;
  const Subresource* subresource(std::string_view name) const;  // null: none of that name
};

// "v1", "apps/v1": apiVersion of objects.
std::string group_version_text(std::string_view group, std::string_view version);

struct GroupVersion {
  std::string group, version;
  bool operator==(const GroupVersion&) const = default;
};
GroupVersion split_group_version(std::string_view api_version);  // "apps/v1" -> {"apps","v1"}, "v1" -> {"","v1"}

}  // namespace lockstep::kube
