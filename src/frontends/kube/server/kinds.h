// Kinds: every resource that the API serves: those that are built in, and those that custom resource definitions bring.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "frontends/kube/cel/rules.h"
#include "frontends/kube/machinery/custom_definition.h"
#include "frontends/kube/machinery/resource.h"

namespace lockstep::kube {

// What a custom resource's version has besides what every resource has.
struct CustomParts {
  std::shared_ptr<const CustomDefinition> definition;
  const CustomVersion* version = nullptr;  // of it
  cel::Rules rules;
  bool has_defaults = false;  // its schema has: objects that were stored before get them when they are read
  json::value conversion;     // of the definition, where a webhook makes one version of another; else null
  // Objects may note which version they are in: conversion.h. So their text is no longer what is shown.
  bool notes_version = false;

  // What the definition has against an object; old: what it replaces, null = it is new.
  FieldErrors faults(const json::object& tree, const json::object* old) const;
};

// A resource as it is served: how its objects are stored, and by which fields they are found.
struct Kind : Resource {
  std::string type;                           // of its records: the plural, and the group of those outside the core
  std::vector<std::string> selectable;        // fields of field selectors, besides metadata.name and metadata.namespace
  std::shared_ptr<const CustomParts> custom;  // null: it is built in

  std::string api_version() const { return group_version_text(group, version); }
  bool serves(std::string_view name) const { return subresource(name) != nullptr; }
  bool stored() const { return has_verb("get"); }  // else it is answered and forgotten: reviews, bindings
};

std::vector<Kind> built_in_kinds();

class Kinds {
 public:
  using Ref = std::shared_ptr<const Kind>;

  // Null: nothing of that name is served.
  Ref find(std::string_view group, std::string_view version, std::string_view plural) const;
  // In the order of discovery: the core, then group by group, a group's versions as version_before() says.
  const std::vector<Ref>& all() const { return all_; }
  void put(Kind kind);
  void remove_type(std::string_view type);  // in all its versions
  std::uint64_t changes() const { return changes_; }

 private:
  std::map<std::tuple<std::string, std::string, std::string>, Ref> by_name_;
  std::vector<Ref> all_;
  std::uint64_t changes_ = 1;
};

// Whether the first of two versions comes before the other in discovery: v2, v1, v2beta1, v1beta2, v1alpha1, others by
// name. Source: "Versions in CustomResourceDefinitions", version priority.
bool version_before(std::string_view a, std::string_view b);

}  // namespace lockstep::kube
