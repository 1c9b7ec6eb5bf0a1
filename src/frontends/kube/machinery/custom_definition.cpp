#include "frontends/kube/machinery/custom_definition.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/check.h"
#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/schema_reader.h"
#include "frontends/kube/machinery/structural.h"

namespace lockstep::kube {
namespace {

constexpr std::size_t kVersionsMax = 100;
constexpr std::size_t kSelectableMax = 8;

std::string string_in(const json::value& value, std::string_view key) {
  const json::value* found = member(value, key);
  return found == nullptr ? std::string() : std::string(text_of(*found));
}

bool bool_in(const json::value& value, std::string_view key) {
  const json::value* found = member(value, key);
  return found != nullptr && found->is_bool() && found->get_bool();
}

std::vector<std::string> strings_in(const json::value& value, std::string_view key) {
  std::vector<std::string> out;
  if (const json::array* list = member_array(value, key))
    for (const json::value& each : *list) out.emplace_back(text_of(each));
  return out;
}

class DefinitionReader {
 public:
  explicit DefinitionReader(const Schema* object_meta) : object_meta_(object_meta) {}

  void read(const json::value& object);
  CustomDefinition made;
  FieldErrors errors;

 private:
  void say(FieldError error) { errors.push_back(std::move(error)); }
  std::string required(const json::value& value, std::string_view key, const std::string& path) {
    std::string text = string_in(value, key);
    if (text.empty())
      say(field_required(format("{}.{}", path, key)));
    return text;
  }
  void read_names(const json::value& spec);
  void read_version(const json::value& said, const std::string& path);
  void read_subresources(const json::value& subresources, CustomVersion& version, const std::string& path);
  void read_selectable(const json::value& said, CustomVersion& version, const std::string& path);
  std::vector<std::string> path_below(const json::value& scale, std::string_view key, std::string_view root,
                                      const std::string& path);

  const Schema* object_meta_;
};

void DefinitionReader::read_names(const json::value& spec) {
  made.group = required(spec, "group", "spec");
  const json::value* names = member(spec, "names");
  if (names == nullptr || !names->is_object())
    return say(field_required("spec.names"));
  made.plural = required(*names, "plural", "spec.names");
  made.kind = required(*names, "kind", "spec.names");
  made.singular = string_in(*names, "singular");
  if (made.singular.empty())
    made.singular = lower(made.kind);
  made.list_kind = string_in(*names, "listKind");
  if (made.list_kind.empty())
    made.list_kind = made.kind + "List";
  if (made.list_kind == made.kind)
    say(field_invalid("spec.names.listKind", json::value(made.list_kind), "kind and listKind may not be the same"));
  made.short_names = strings_in(*names, "shortNames");
  made.categories = strings_in(*names, "categories");
  const std::string scope = string_in(spec, "scope");
  made.namespaced = scope == "Namespaced";
  if (scope.empty())
    say(field_required("spec.scope"));
  else if (scope != "Namespaced" && scope != "Cluster")
    say(field_not_supported("spec.scope", json::value(scope), std::vector<std::string>{"Cluster", "Namespaced"}));
}

std::vector<std::string> DefinitionReader::path_below(const json::value& scale, std::string_view key,
                                                      std::string_view root, const std::string& path) {
  const std::string text = string_in(scale, key);
  const std::string here = format("{}.{}", path, key);
  if (text.empty())
    return {};
  const auto parsed = parse_json_path(text);
  const auto names = parsed.ok() && text.starts_with('.') ? parsed->names() : std::nullopt;
  if (!names || names->size() < 2 || names->front() != root) {
    say(field_invalid(here, json::value(text), format("should be a json path under .{}", root)));
    return {};
  }
  return *names;
}

void DefinitionReader::read_subresources(const json::value& subresources, CustomVersion& version,
                                         const std::string& path) {
  version.has_status = member_object(subresources, "status") != nullptr;
  const json::value* said = member(subresources, "scale");
  if (said == nullptr || !said->is_object())
    return;
  ScalePaths scale;
  scale.spec_replicas = path_below(*said, "specReplicasPath", "spec", path + ".scale");
  scale.status_replicas = path_below(*said, "statusReplicasPath", "status", path + ".scale");
  const std::string selector = string_in(*said, "labelSelectorPath");
  scale.selector =
      path_below(*said, "labelSelectorPath", selector.starts_with(".spec") ? "spec" : "status", path + ".scale");
  for (const char* key : {"specReplicasPath", "statusReplicasPath"})
    if (string_in(*said, key).empty())
      say(field_required(format("{}.scale.{}", path, key)));
  version.scale = std::move(scale);
}

void DefinitionReader::read_selectable(const json::value& said, CustomVersion& version, const std::string& path) {
  const json::array* list = member_array(said, "selectableFields");
  if (list == nullptr)
    return;
  if (list->size() > kSelectableMax)
    return say(field_too_many(path + ".selectableFields", list->size(), kSelectableMax));
  std::size_t at = 0;
  for (const json::value& each : *list) {
    const std::string here = format("{}.selectableFields[{}].jsonPath", path, at++);
    const std::string text = string_in(each, "jsonPath");
    auto parsed = parse_json_path(text);
    const auto names = parsed.ok() && text.starts_with('.') ? parsed->names() : std::nullopt;
    const Schema* at_path = version.schema;
    if (names)
      for (const std::string& name : *names) {
        const Field* field = at_path == nullptr ? nullptr : at_path->field(name);
        at_path = field == nullptr ? nullptr : field->schema;
      }
    using Type = Schema::Type;
    if (!names || names->empty())
      say(field_invalid(here, json::value(text), "is an invalid path"));
    else if (names->front() == "metadata")
      say(field_invalid(here, json::value(text), "must not point to fields in metadata"));
    else if (at_path == nullptr)
      say(field_invalid(here, json::value(text), "does not refer to a valid field"));
    else if (at_path->type != Type::kString && at_path->type != Type::kInteger && at_path->type != Type::kBoolean)
      say(field_invalid(here, json::value(text), "must point to a field of type string, boolean or integer"));
    else
      version.selectable.push_back({text.substr(1), std::move(*parsed)});
  }
}

void DefinitionReader::read_version(const json::value& said, const std::string& path) {
  CustomVersion version;
  version.name = required(said, "name", path);
  version.served = bool_in(said, "served");
  version.storage = bool_in(said, "storage");
  version.deprecated = bool_in(said, "deprecated");
  version.deprecation_warning = string_in(said, "deprecationWarning");
  const json::value* outer = member(said, "schema");
  const json::value* schema = outer == nullptr ? nullptr : member(*outer, "openAPIV3Schema");
  const std::string schema_path = path + ".schema.openAPIV3Schema";
  if (schema == nullptr || !schema->is_object())
    return say(field_required(schema_path, "schemas are required"));
  FieldErrors faults = structural_faults(*schema, schema_path);
  if (!faults.empty()) {
    errors.insert(errors.end(), faults.begin(), faults.end());
    return;
  }
  auto read = read_root_schema({made.schemas, object_meta_}, *schema);
  if (!read)
    return say(field_invalid(schema_path, json::value(""), read.error().message));
  version.schema = *read;
  add_patterns(**read, made.patterns);
  auto columns = read_custom_columns(said);
  if (columns.ok())
    version.columns = std::move(*columns);
  else
    say(field_invalid(path + ".additionalPrinterColumns", json::value(""), columns.error().message));
  if (const json::value* subresources = member(said, "subresources"))
    read_subresources(*subresources, version, path + ".subresources");
  read_selectable(said, version, path);
  made.versions.push_back(std::move(version));
}

void DefinitionReader::read(const json::value& object) {
  const json::value* spec = member(object, "spec");
  if (spec == nullptr || !spec->is_object())
    return say(field_required("spec"));
  read_names(*spec);
  const json::value* metadata = member(object, "metadata");
  const std::string name = metadata == nullptr ? std::string() : string_in(*metadata, "name");
  if (name != made.plural + "." + made.group)
    say(field_invalid("metadata.name", json::value(name), R"(must be spec.names.plural+"."+spec.group)"));
  if (made.group.find('.') == made.group.npos)
    say(field_invalid("spec.group", json::value(made.group), "should be a domain with at least one dot"));
  const json::array* versions = member_array(*spec, "versions");
  if (versions == nullptr || versions->empty())
    return say(field_required("spec.versions", "must have at least one version"));
  if (versions->size() > kVersionsMax)
    return say(field_too_many("spec.versions", versions->size(), kVersionsMax));
  std::size_t at = 0;
  for (const json::value& each : *versions) read_version(each, format("spec.versions[{}]", at++));
  if (!errors.empty())
    return;
  for (std::size_t one = 0; one < made.versions.size(); ++one)
    for (std::size_t other = 0; other < one; ++other)
      if (made.versions[one].name == made.versions[other].name)
        return say(
            field_invalid("spec.versions", json::value(made.versions[one].name), "must contain unique version names"));
  if (std::ranges::count(made.versions, true, &CustomVersion::storage) != 1)
    say(field_invalid("spec.versions", json::value(""), "must have exactly one version marked as storage version"));
}

}  // namespace

const CustomVersion* CustomDefinition::version(std::string_view name) const {
  const auto found = std::ranges::find(versions, name, &CustomVersion::name);
  return found == versions.end() ? nullptr : &*found;
}

const CustomVersion& CustomDefinition::storage() const {
  const auto found = std::ranges::find(versions, true, &CustomVersion::storage);
  CHECK(found != versions.end());  // read_custom_definition() makes no other
  return *found;
}

ReadDefinition read_custom_definition(const json::value& definition, const Schema* object_meta) {
  DefinitionReader reader(object_meta);
  reader.read(definition);
  if (!reader.errors.empty())
    return {nullptr, std::move(reader.errors)};
  return {std::make_shared<const CustomDefinition>(std::move(reader.made)), {}};
}

}  // namespace lockstep::kube
