#include "frontends/kube/machinery/openapi_schema.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/openapi.h"

namespace lockstep::kube {
namespace {

// What of JSON schema a document of version 2 has. Others are left out there, as the real server does.
constexpr std::array kPlainRules = {
    "enum",          "exclusiveMaximum", "exclusiveMinimum", "maxItems",  "maxLength",
    "maxProperties", "maximum",          "minItems",         "minLength", "minProperties",
    "minimum",       "multipleOf",       "pattern",          "title",     "uniqueItems"};

void put_rules(const json::value& rules, OpenApiVersion version, json::object& out) {
  if (!rules.is_object())
    return;
  for (const auto& rule : rules.get_object()) {
    const std::string_view key = rule.key();
    const bool plain = std::ranges::find(kPlainRules, key) != kPlainRules.end() || key.starts_with("x-kubernetes-");
    if ((version == OpenApiVersion::kV3 || plain) && !out.contains(key))
      out[key] = rule.value();
  }
}

void put_merging(const Schema& schema, json::object& out) {
  if (schema.type == Schema::Type::kList) {
    if (schema.list == ListKind::kMap) {
      json::array keys;
      for (const std::string& key : schema.keys) keys.emplace_back(key);
      out["x-kubernetes-list-map-keys"] = std::move(keys);
    }
    if (schema.list != ListKind::kAtomic)  // which lists are where nothing is said
      out["x-kubernetes-list-type"] = schema.list == ListKind::kMap ? "map" : "set";
    if (!schema.patch_key.empty())
      out["x-kubernetes-patch-merge-key"] = schema.patch_key;
  } else if (schema.atomic) {
    out["x-kubernetes-map-type"] = "atomic";
  }
  if (schema.patch_merge)
    out["x-kubernetes-patch-strategy"] = schema.patch_retain_keys ? "merge,retainKeys" : "merge";
  else if (schema.patch_retain_keys)
    out["x-kubernetes-patch-strategy"] = "retainKeys";
}

json::object one_of(std::string_view a, std::string_view b) {
  return {{"oneOf", json::array{json::object{{"type", a}}, json::object{{"type", b}}}}};
}

json::object text_schema(std::string_view format) {
  json::object out{{"type", "string"}};
  if (!format.empty() && format != "duration")
    out["format"] = format == "micro-time" ? "date-time" : format;
  return out;
}

bool has_definition(const Schema& schema) { return !schema.name.empty() && schema.type != Schema::Type::kList; }

}  // namespace

// Version 3 allows nothing beside a reference.
json::object Definitions::with(json::object schema, json::object more) const {
  if (!more.empty() && schema.contains("$ref") && version_ == OpenApiVersion::kV3)
    schema = json::object{{"allOf", json::array{std::move(schema)}}};
  for (auto& entry : more) schema[entry.key()] = std::move(entry.value());
  return schema;
}

json::object Definitions::reference(std::string_view name) const {
  return {{"$ref", (version_ == OpenApiVersion::kV2 ? "#/definitions/" : "#/components/schemas/") + std::string(name)}};
}

void Definitions::need(const Schema& schema) {
  if (done_.contains(schema.name))
    return;
  done_[schema.name] = nullptr;
  // Of a type whose attributes one field changes, the type itself is defined.
  const Schema* own = builtin_schema(schema.name);
  needed_.push_back(own ? own : &schema);
}

void Definitions::work() {
  while (!needed_.empty()) {
    const Schema* next = needed_.back();
    needed_.pop_back();
    json::object defined = content(*next);
    done_[next->name] = std::move(defined);
  }
}

json::object Definitions::schema(const Schema& schema) {
  if (!has_definition(schema))
    return content(schema);
  need(schema);
  return reference(schema.name);
}

json::object Definitions::field(const Field& field) {
  const Schema& type = *field.schema;
  json::object out = has_definition(type) ? schema(type) : content(type, field.description);
  json::object more;
  if (has_definition(type)) {
    const Schema* own = builtin_schema(type.name);
    if (!own || type.atomic != own->atomic || type.patch_retain_keys)
      put_merging(type, more);
    if (!field.description.empty())
      more["description"] = field.description;
  }
  if (field.standard)
    more["default"] = *field.standard;
  return with(std::move(out), std::move(more));
}

json::object Definitions::content(const Schema& schema, std::string_view said) {
  using enum Schema::Type;
  json::object out;
  if (said.empty())
    said = schema.description;
  if (!said.empty())
    out["description"] = said;
  const auto put = [&](json::object more) {
    for (auto& entry : more) out[entry.key()] = std::move(entry.value());
  };
  switch (schema.type) {
    case kAny:
      if (schema.name == kRawExtensionName || schema.name == kFieldsName)
        out["type"] = "object";
      break;
    case kBoolean: out["type"] = "boolean"; break;
    case kInteger: put({{"type", "integer"}, {"format", schema.format.empty() ? "int64" : schema.format}}); break;
    case kNumber: put({{"type", "number"}, {"format", schema.format.empty() ? "double" : schema.format}}); break;
    case kString: put(text_schema(schema.format)); break;
    case kIntOrString:
      put(version_ == OpenApiVersion::kV2 ? json::object{{"type", "string"}} : one_of("integer", "string"));
      out["format"] = "int-or-string";
      break;
    case kQuantity:
      put(version_ == OpenApiVersion::kV2 ? json::object{{"type", "string"}} : one_of("string", "number"));
      break;
    case kList:
      out["type"] = "array";
      out["items"] = schema.element ? this->schema(*schema.element) : json::object();
      put_merging(schema, out);
      break;
    case kMap:
      out["type"] = "object";
      out["additionalProperties"] = schema.element ? this->schema(*schema.element) : json::object();
      put_merging(schema, out);
      break;
    case kObject: {
      out["type"] = "object";
      json::object properties;
      json::array required;
      for (const Field& field : schema.fields) {
        properties[field.name] = this->field(field);
        if (field.required)
          required.emplace_back(field.name);
      }
      if (!required.empty())
        out["required"] = std::move(required);
      if (!properties.empty())
        out["properties"] = std::move(properties);
      put_merging(schema, out);
      break;
    }
  }
  if (schema.nullable && version_ == OpenApiVersion::kV3)
    out["nullable"] = true;
  if (schema.keep_unknown)
    out["x-kubernetes-preserve-unknown-fields"] = true;
  if (schema.embedded)
    out["x-kubernetes-embedded-resource"] = true;
  put_rules(schema.rules, version_, out);
  return out;
}

void Definitions::mark(std::string_view name, const Kind& kind) {
  json::value& definition = done_[name];
  if (!definition.is_object())
    return;
  json::value& kinds = definition.get_object()["x-kubernetes-group-version-kind"];
  json::array& list = kinds.is_array() ? kinds.get_array() : kinds.emplace_array();
  json::object entry{{"group", kind.group}, {"kind", kind.kind}, {"version", kind.version}};
  if (std::ranges::find(list, json::value(entry)) == list.end())
    list.push_back(std::move(entry));
}

json::object Definitions::kind_of(const Schema& schema, std::string_view group, std::string_view version,
                                  std::string_view kind) {
  need(schema);
  work();
  mark(schema.name, {std::string(group), std::string(version), std::string(kind)});
  return reference(schema.name);
}

void Definitions::custom(const Resource& resource, const std::string& name) {
  if (done_.contains(name))
    return;
  done_[name] = nullptr;
  json::object defined{{"type", "object"}};
  // Clients of version 2 take properties for all that there may be.
  if (resource.schema && !(version_ == OpenApiVersion::kV2 && resource.schema->keep_unknown)) {
    defined = content(*resource.schema);
    json::value& value = defined["properties"];
    json::object& properties = value.is_object() ? value.get_object() : value.emplace_object();
    properties["apiVersion"] = {{"type", "string"}, {"description", kVersionSaid}};
    properties["kind"] = {{"type", "string"}, {"description", kKindSaid}};
    const Schema& metadata = *builtin_schema(kObjectMetaName);
    need(metadata);
    properties["metadata"] = with(reference(metadata.name), {{"description", kMetadataSaid}});
  }
  done_[name] = std::move(defined);
  work();
  mark(name, {resource.group, resource.version, resource.kind});
}

void Definitions::custom_list(const Resource& resource, const std::string& name, const std::string& element) {
  if (done_.contains(name))
    return;
  const Schema& metadata = *builtin_schema(kListMetaName);
  need(metadata);
  const json::object text{{"type", "string"}};
  done_[name] = json::object{
      {"type", "object"},
      {"required", json::array{"items"}},
      {"properties", json::object{{"apiVersion", text},
                                  {"items", json::object{{"type", "array"}, {"items", reference(element)}}},
                                  {"kind", text},
                                  {"metadata", reference(metadata.name)}}}};
  work();
  mark(name, {resource.group, resource.version, resource.list_kind});
}

json::object Definitions::object_of(const Resource& resource) {
  if (resource.schema && builtin_schema(resource.schema->name) == resource.schema)
    return kind_of(*resource.schema, resource.group, resource.version, resource.kind);
  const std::string name = custom_schema_name(resource.group, resource.version, resource.kind);
  custom(resource, name);
  return reference(name);
}

json::object Definitions::list_of(const Resource& resource) {
  if (resource.list_schema && builtin_schema(resource.list_schema->name) == resource.list_schema)
    return kind_of(*resource.list_schema, resource.group, resource.version, resource.list_kind);
  const std::string name = custom_schema_name(resource.group, resource.version, resource.list_kind);
  (void)object_of(resource);
  custom_list(resource, name, custom_schema_name(resource.group, resource.version, resource.kind));
  return reference(name);
}

json::object Definitions::take() {
  work();
  std::vector<std::string> names;
  for (const auto& entry : done_) names.emplace_back(entry.key());
  std::ranges::sort(names);
  json::object out;
  out.reserve(names.size());
  for (const std::string& name : names) out[name] = std::move(done_[name]);
  return out;
}

}  // namespace lockstep::kube
