// Kinds: every resource that the API serves: those that are built in, and those that custom resource definitions bring.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/machinery/resource.h"

namespace lockstep::kube {

// A resource as it is served: how its objects are stored, and by which fields they are found.
struct Kind : Resource {
  std::string type;                     // of its records: the plural, and the group of those outside the core
  bool custom = false;                  // of a definition, not of tables
  std::vector<std::string> selectable;  // fields of field selectors, besides metadata.name and metadata.namespace

  std::string api_version() const { return group_version_text(group, version); }
  bool serves(std::string_view name) const { return subresource(name) != nullptr; }
  bool stored() const { return has_verb("get"); }  // else it is answered and forgotten: reviews, bindings
};

std::vector<Kind> built_in_kinds();

class Kinds {
 public:
  // Null: nothing of that name is served.
  const Kind* find(std::string_view group, std::string_view version, std::string_view plural) const;
  const Kind* of_kind(std::string_view api_version, std::string_view kind) const;
  // In the order of discovery.
  const std::vector<std::shared_ptr<const Kind>>& all() const { return all_; }
  void put(Kind kind);
  void remove(std::string_view group, std::string_view version, std::string_view plural);

 private:
  std::vector<std::shared_ptr<const Kind>> all_;
};

}  // namespace lockstep::kube
