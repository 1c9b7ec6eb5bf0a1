// A CustomResourceDefinition as the rest of the front end uses it: names, versions, schemas, columns, subresources.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/kube/machinery/custom_validation.h"
#include "frontends/kube/machinery/field_error.h"
#include "frontends/kube/machinery/json_path.h"
#include "frontends/kube/machinery/schema.h"
#include "frontends/kube/machinery/table.h"

namespace lockstep::kube {

struct ScalePaths {
  std::vector<std::string> spec_replicas;    // {"spec", "replicas"}
  std::vector<std::string> status_replicas;  // {"status", "replicas"}
  std::vector<std::string> selector;         // {"status", "selector"}; empty = none
};

struct SelectableField {
  std::string name;  // "spec.colour": what a field selector says
  JsonPath path;
};

struct CustomVersion {
  std::string name;  // "v1"
  bool served = false;
  bool storage = false;  // of one version: what is kept
  bool deprecated = false;
  std::string deprecation_warning;  // "" = the standard one
  const Schema* schema = nullptr;
  CustomColumns columns;
  bool has_status = false;
  std::optional<ScalePaths> scale;
  std::vector<SelectableField> selectable;
};

struct CustomDefinition {
  std::string group, plural, singular, kind, list_kind;
  std::vector<std::string> short_names, categories;
  bool namespaced = true;
  std::vector<CustomVersion> versions;  // in the definition's order
  Patterns patterns;                    // of all versions
  SchemaSet schemas;

  const CustomVersion* version(std::string_view name) const;
  const CustomVersion& storage() const;
};

struct ReadDefinition {
  std::shared_ptr<const CustomDefinition> definition;  // null where there are errors
  FieldErrors errors;
};

// `definition` is the whole object, with its defaults. `object_meta`: see SchemaReading. Rules (CEL) are compiled
// apart.
ReadDefinition read_custom_definition(const json::value& definition, const Schema* object_meta);

}  // namespace lockstep::kube
