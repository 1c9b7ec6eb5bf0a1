#include "frontends/kube/machinery/structural.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/custom_validation.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/schema_reader.h"

namespace lockstep::kube {
namespace {

enum class Level : unsigned char { kRoot, kItem, kField };

bool flag(const json::value& definition, std::string_view key) {
  const json::value* value = member(definition, key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

bool present(const json::value& definition, std::string_view key) {
  const json::value* value = member(definition, key);
  if (value == nullptr || value->is_null() || (value->is_bool() && !value->get_bool()))
    return false;
  return !(value->is_string() && value->get_string().empty()) && !(value->is_array() && value->get_array().empty());
}

class StructuralWalk {
 public:
  void walk(const json::value& definition, Level level, const std::string& path);
  FieldErrors errors;

 private:
  void say(FieldError error) {
    if (errors.size() < kCustomErrorsMax)
      errors.push_back(std::move(error));
  }
  void check_type(const json::value& definition, Level level, const std::string& path);
  void check_extensions(const json::value& definition, const std::string& path);
  void check_lists(const json::value& definition, const std::string& path);
  void check_metadata(const json::value& metadata, bool is_resource, Level level, const std::string& path);
  void check_values(const json::value& definition, bool skip_any_of, const std::string& path);
  void walk_nested(const json::value& definition, bool skip_any_of, const std::string& path);

  std::size_t nodes_ = 0;
  Patterns patterns_;
};

std::string under(const std::string& path, std::string_view child) { return format("{}.{}", path, child); }
std::string property(const std::string& path, std::string_view name) { return format("{}.properties[{}]", path, name); }

std::string type_in(const json::value& definition) {
  const json::value* type = member(definition, "type");
  return type == nullptr ? std::string() : std::string(text_of(*type));
}

// anyOf: [{type: integer}, {type: string}] is how a schema may spell out x-kubernetes-int-or-string.
bool spells_int_or_string(const json::value& definition) {
  const json::array* any = member_array(definition, "anyOf");
  const auto only_type = [](const json::value& each, std::string_view type) {
    return each.is_object() && each.get_object().size() == 1 && type_in(each) == type;
  };
  return any != nullptr && any->size() == 2 && only_type((*any)[0], "integer") && only_type((*any)[1], "string");
}

void StructuralWalk::check_type(const json::value& definition, Level level, const std::string& path) {
  const std::string type = type_in(definition);
  const bool embedded = flag(definition, "x-kubernetes-embedded-resource");
  const bool open =
      flag(definition, "x-kubernetes-int-or-string") || flag(definition, "x-kubernetes-preserve-unknown-fields");
  if (embedded && type.empty())
    say(field_required(under(path, "type"), "must be object if x-kubernetes-embedded-resource is true"));
  else if (embedded && type != "object")
    say(field_invalid(under(path, "type"), json::value(type),
                      "must be object if x-kubernetes-embedded-resource is true"));
  else if (type.empty() && !open)
    say(field_required(under(path, "type"), level == Level::kRoot   ? "must not be empty at the root"
                                            : level == Level::kItem ? "must not be empty for specified array items"
                                                                    : "must not be empty for specified object fields"));
  if (level == Level::kRoot && !type.empty() && type != "object")
    say(field_invalid(under(path, "type"), json::value(type), "must be object at the root"));
  constexpr std::string_view kTypes[] = {"", "array", "boolean", "integer", "number", "object", "string"};
  if (std::ranges::find(kTypes, std::string_view(type)) == std::end(kTypes)) {
    const std::vector<std::string> known(std::begin(kTypes) + 1, std::end(kTypes));
    say(field_not_supported(under(path, "type"), json::value(type), known));
  }
}

void StructuralWalk::check_extensions(const json::value& definition, const std::string& path) {
  if (flag(definition, "x-kubernetes-int-or-string"))
    for (const char* other : {"x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"})
      if (flag(definition, other))
        say(field_invalid(under(path, other), true, "must be false if x-kubernetes-int-or-string is true"));
  if (!flag(definition, "x-kubernetes-embedded-resource"))
    return;
  if (present(definition, "additionalProperties"))
    say(field_forbidden(under(path, "additionalProperties"),
                        "must not be used if x-kubernetes-embedded-resource is set"));
  const json::object* properties = member_object(definition, "properties");
  if (!flag(definition, "x-kubernetes-preserve-unknown-fields") && (properties == nullptr || properties->empty()))
    say(field_required(under(path, "properties"),
                       "must not be empty if x-kubernetes-embedded-resource is true without "
                       "x-kubernetes-preserve-unknown-fields"));
}

// Keys of a list of objects are required or have a default, so that every element has an identity.
void StructuralWalk::check_lists(const json::value& definition, const std::string& path) {
  const json::value* said = member(definition, "x-kubernetes-list-type");
  const std::string kind = said == nullptr ? std::string() : std::string(text_of(*said));
  const std::string type = type_in(definition);
  if (said != nullptr) {
    if (type != "array")
      say(field_invalid(under(path, "type"), json::value(type),
                        "must be array if x-kubernetes-list-type is specified"));
    if (kind != "atomic" && kind != "set" && kind != "map")
      say(field_not_supported(under(path, "x-kubernetes-list-type"), *said,
                              std::vector<std::string>{"atomic", "map", "set"}));
  }
  const json::array* keys = member_array(definition, "x-kubernetes-list-map-keys");
  if (keys != nullptr && !keys->empty() && kind != "map")
    say(field_invalid(under(path, "x-kubernetes-list-type"), json::value(kind),
                      "must be map if x-kubernetes-list-map-keys is non-empty"));
  if (kind != "map")
    return;
  if (keys == nullptr || keys->empty())
    return say(field_required(under(path, "x-kubernetes-list-map-keys"),
                              "must not be empty if x-kubernetes-list-type is map"));
  const json::value* items = member(definition, "items");
  const json::object* properties = items == nullptr ? nullptr : member_object(*items, "properties");
  const json::array* required = items == nullptr ? nullptr : member_array(*items, "required");
  std::size_t at = 0;
  for (const json::value& key : *keys) {
    const std::string name(text_of(key));
    const json::value* field = properties == nullptr ? nullptr : properties->if_contains(name);
    const std::string here = format("{}[{}]", under(path, "x-kubernetes-list-map-keys"), at++);
    const bool demanded = required != nullptr && std::ranges::any_of(*required, [&](const json::value& each) {
                            return text_of(each) == name;
                          });
    if (field == nullptr)
      say(field_invalid(here, key, "entries must all be names of item properties"));
    else if (!demanded && member(*field, "default") == nullptr)
      say(field_required(
          property(under(path, "items"), name) + ".default",
          "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"));
  }
}

void StructuralWalk::check_metadata(const json::value& metadata, bool is_resource, Level level,
                                    const std::string& path) {
  if (is_resource && type_in(metadata) != "object")
    say(field_invalid(under(path, "type"), json::value(type_in(metadata)), "must be object"));
  if (level != Level::kRoot || !metadata.is_object())
    return;
  bool more = false;
  for (const auto& entry : metadata.get_object())
    if (entry.key() != "type" && entry.key() != "properties")
      more = true;
  if (const json::object* properties = member_object(metadata, "properties"))
    for (const auto& entry : *properties) more = more || (entry.key() != "name" && entry.key() != "generateName");
  if (more)
    say(field_forbidden(
        path, "must not specify anything other than name and generateName, but metadata is implicitly specified"));
}

void StructuralWalk::check_values(const json::value& definition, bool skip_any_of, const std::string& path) {
  for (const char* which : {"anyOf", "allOf", "oneOf"}) {
    const json::array* list = member_array(definition, which);
    if (list == nullptr || (skip_any_of && std::string_view(which) == "anyOf"))
      continue;
    std::size_t at = 0;
    for (const json::value& each : *list) {
      const bool spelled = std::string_view(which) == "allOf" && at == 0 && spells_int_or_string(each);
      walk_nested(each, spelled, format("{}.{}[{}]", path, which, at++));
    }
  }
  if (const json::value* none = member(definition, "not"))
    walk_nested(*none, false, under(path, "not"));
  if (const json::value* pattern = member(definition, "pattern"); pattern != nullptr && pattern->is_string())
    if (const std::string fault = patterns_.add(std::string(text_of(*pattern))); !fault.empty())
      say(field_invalid(under(path, "pattern"), *pattern, "must be a valid regular expression, but isn't: " + fault));
}

void StructuralWalk::walk_nested(const json::value& definition, bool skip_any_of, const std::string& path) {
  if (!definition.is_object() || ++nodes_ > kSchemaNodesMax)
    return;
  check_values(definition, skip_any_of, path);
  if (const json::value* items = member(definition, "items"))
    walk_nested(*items, false, under(path, "items"));
  if (const json::object* properties = member_object(definition, "properties"))
    for (const auto& entry : *properties) {
      walk_nested(entry.value(), false, property(path, entry.key()));
      if (entry.key() == "metadata")
        say(field_forbidden(property(path, "metadata"), "must not be specified in a nested context"));
    }
  constexpr std::pair<const char*, const char*> kElsewhere[] = {
      {"type", "must be empty to be structural"},
      {"additionalProperties", "must be undefined to be structural"},
      {"default", "must be undefined to be structural"},
      {"title", "must be empty to be structural"},
      {"description", "must be empty to be structural"},
      {"nullable", "must be false to be structural"},
      {"x-kubernetes-preserve-unknown-fields", "must be false to be structural"},
      {"x-kubernetes-embedded-resource", "must be false to be structural"},
      {"x-kubernetes-int-or-string", "must be false to be structural"},
      {"x-kubernetes-list-map-keys", "must be empty to be structural"},
      {"x-kubernetes-list-type", "must be undefined to be structural"},
      {"x-kubernetes-map-type", "must be undefined to be structural"},
      {"x-kubernetes-validations", "must be empty to be structural"}};
  for (const auto& [key, why] : kElsewhere)
    if (present(definition, key))
      say(field_forbidden(under(path, key), why));
}

void StructuralWalk::walk(const json::value& definition, Level level, const std::string& path) {
  if (!definition.is_object())
    return say(field_required(path, "must be an object"));
  if (++nodes_ > kSchemaNodesMax)
    return;
  check_type(definition, level, path);
  check_extensions(definition, path);
  check_lists(definition, path);
  check_values(definition, spells_int_or_string(definition), path);
  const json::object* properties = member_object(definition, "properties");
  const json::value* additional = member(definition, "additionalProperties");
  if (properties != nullptr && present(definition, "additionalProperties"))
    say(field_forbidden(under(path, "additionalProperties"),
                        "additionalProperties and properties are mutual exclusive"));
  if (level == Level::kRoot && present(definition, "additionalProperties"))
    say(field_forbidden(under(path, "additionalProperties"), "must not be used at the root"));
  const bool is_resource = level == Level::kRoot || flag(definition, "x-kubernetes-embedded-resource");
  if (properties != nullptr)
    for (const auto& entry : *properties) {
      const std::string here = property(path, entry.key());
      if (is_resource && (entry.key() == "kind" || entry.key() == "apiVersion") && type_in(entry.value()) != "string")
        say(field_invalid(here + ".type", json::value(type_in(entry.value())), "must be string"));
      if (entry.key() == "metadata")
        check_metadata(entry.value(), is_resource, level, here);
      walk(entry.value(), Level::kField, here);
    }
  if (additional != nullptr && additional->is_object())
    walk(*additional, Level::kField, under(path, "additionalProperties"));
  const json::value* items = member(definition, "items");
  if (items != nullptr)
    walk(*items, Level::kItem, under(path, "items"));
  else if (type_in(definition) == "array")
    say(field_required(under(path, "items"), "must be specified"));
  if (flag(definition, "uniqueItems"))
    say(field_forbidden(under(path, "uniqueItems"),
                        "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"));
}

}  // namespace

FieldErrors structural_faults(const json::value& definition, const std::string& path) {
  StructuralWalk walk;
  walk.walk(definition, Level::kRoot, path);
  return std::move(walk.errors);
}

}  // namespace lockstep::kube
