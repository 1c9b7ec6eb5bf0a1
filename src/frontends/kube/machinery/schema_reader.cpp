#include "frontends/kube/machinery/schema_reader.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {
namespace {

// Said in Schema or Field, so not repeated in `rules`.
constexpr std::string_view kElsewhere[] = {"properties",
                                           "additionalProperties",
                                           "items",
                                           "default",
                                           "description",
                                           "title",
                                           "example",
                                           "externalDocs",
                                           "required",
                                           "nullable",
                                           "x-kubernetes-preserve-unknown-fields",
                                           "x-kubernetes-embedded-resource",
                                           "x-kubernetes-list-type",
                                           "x-kubernetes-list-map-keys",
                                           "x-kubernetes-map-type",
                                           "x-kubernetes-patch-strategy",
                                           "x-kubernetes-patch-merge-key"};

class SchemaReader {
 public:
  explicit SchemaReader(const SchemaReading& reading) : reading_(reading) {}

  Result<const Schema*> read(const json::value& definition, bool root);

 private:
  const Schema* simple(Schema::Type type) {
    Schema& schema = reading_.set.make();
    schema.type = type;
    return &schema;
  }
  void add_resource_fields(Schema& schema);
  Result<std::monostate> read_fields(const json::value& definition, Schema& schema);

  const SchemaReading& reading_;
  std::size_t nodes_ = 0;
};

bool said(const json::value& definition, std::string_view key) {
  const json::value* value = member(definition, key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

std::string said_text(const json::value& definition, std::string_view key) {
  const json::value* value = member(definition, key);
  return value == nullptr ? std::string() : std::string(text_of(*value));
}

Schema::Type type_of(const json::value& definition, bool root) {
  using Type = Schema::Type;
  if (said(definition, "x-kubernetes-int-or-string"))
    return Type::kIntOrString;
  const std::string type = said_text(definition, "type");
  if (type == "boolean")
    return Type::kBoolean;
  if (type == "integer")
    return Type::kInteger;
  if (type == "number")
    return Type::kNumber;
  if (type == "string")
    return Type::kString;
  if (type == "array")
    return Type::kList;
  const json::value* additional = member(definition, "additionalProperties");
  const bool map =
      additional != nullptr && (additional->is_object() || (additional->is_bool() && additional->get_bool()));
  if (map && !root)
    return Type::kMap;
  return type == "object" || root || member_object(definition, "properties") != nullptr ? Type::kObject : Type::kAny;
}

void SchemaReader::add_resource_fields(Schema& schema) {
  for (const char* name : {"apiVersion", "kind", "metadata"}) {
    const bool metadata = std::string_view(name) == "metadata";
    const auto known = std::ranges::find(schema.fields, std::string_view(name), &Field::name);
    const Schema* standard = metadata ? reading_.object_meta : nullptr;
    if (known != schema.fields.end()) {
      if (standard != nullptr)
        known->schema = standard;
      continue;
    }
    if (metadata && standard == nullptr) {
      Schema& any = reading_.set.make();
      any.type = Schema::Type::kObject;
      any.keep_unknown = true;
      standard = &any;
    }
    schema.fields.push_back({.name = name, .schema = metadata ? standard : simple(Schema::Type::kString)});
  }
}

Result<std::monostate> SchemaReader::read_fields(const json::value& definition, Schema& schema) {
  const json::object* properties = member_object(definition, "properties");
  if (properties == nullptr)
    return std::monostate{};
  const json::array* required = member_array(definition, "required");
  for (const auto& entry : *properties) {
    Field field;
    field.name = entry.key();
    field.schema = TRY(read(entry.value(), false));
    if (const json::value* standard = member(entry.value(), "default"))
      field.standard = *standard;
    field.required = required != nullptr && std::ranges::any_of(*required, [&](const json::value& each) {
                       return text_of(each) == field.name;
                     });
    schema.fields.push_back(std::move(field));
  }
  return std::monostate{};
}

Result<const Schema*> SchemaReader::read(const json::value& definition, bool root) {
  if (!definition.is_object())
    return invalid("a schema is an object");
  if (++nodes_ > kSchemaNodesMax)
    return invalid(format("a schema may have {} parts at most", kSchemaNodesMax));
  Schema& schema = reading_.set.make();
  schema.type = type_of(definition, root);
  schema.format = said_text(definition, "format");
  schema.description = said_text(definition, "description");
  schema.nullable = said(definition, "nullable");
  schema.keep_unknown = said(definition, "x-kubernetes-preserve-unknown-fields");
  schema.embedded = said(definition, "x-kubernetes-embedded-resource");
  schema.atomic = said_text(definition, "x-kubernetes-map-type") == "atomic";
  if (schema.type == Schema::Type::kAny)
    schema.keep_unknown = true;
  if (schema.type == Schema::Type::kList) {
    const std::string kind = said_text(definition, "x-kubernetes-list-type");
    schema.list = kind == "map" ? ListKind::kMap : kind == "set" ? ListKind::kSet : ListKind::kAtomic;
    if (const json::array* keys = member_array(definition, "x-kubernetes-list-map-keys"))
      for (const json::value& key : *keys) schema.keys.emplace_back(text_of(key));
    const json::value* items = member(definition, "items");
    schema.element = items == nullptr ? simple(Schema::Type::kAny) : TRY(read(*items, false));
  }
  if (schema.type == Schema::Type::kMap) {
    const json::value& additional = *member(definition, "additionalProperties");
    schema.element = additional.is_object() ? TRY(read(additional, false)) : simple(Schema::Type::kAny);
  }
  if (schema.type == Schema::Type::kObject) {
    TRY(read_fields(definition, schema));
    if (root || schema.embedded)
      add_resource_fields(schema);
    std::ranges::sort(schema.fields, {}, &Field::name);
  }
  for (const std::string& strategy : split(said_text(definition, "x-kubernetes-patch-strategy"), ',')) {
    schema.patch_merge = schema.patch_merge || strategy == "merge";
    schema.patch_retain_keys = schema.patch_retain_keys || strategy == "retainKeys";
  }
  schema.patch_key = said_text(definition, "x-kubernetes-patch-merge-key");
  json::object rules;
  for (const auto& entry : definition.get_object())
    if (std::ranges::find(kElsewhere, std::string_view(entry.key())) == std::end(kElsewhere) && entry.key() != "type" &&
        entry.key() != "format")
      rules[entry.key()] = entry.value();
  if (!rules.empty())
    schema.rules = std::move(rules);
  return &schema;
}

}  // namespace

Result<const Schema*> read_schema(const SchemaReading& reading, const json::value& definition) {
  return SchemaReader(reading).read(definition, false);
}

Result<const Schema*> read_root_schema(const SchemaReading& reading, const json::value& definition) {
  return SchemaReader(reading).read(definition, true);
}

}  // namespace lockstep::kube
