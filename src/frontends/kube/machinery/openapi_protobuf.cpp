// An OpenAPI 2 document as the message openapi.v2.Document. Field numbers: github.com/google/gnostic-models v0.7.0,
// openapiv2/OpenAPIv2.proto. Written is what our own documents hold; the rest of the specification is left out.
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>

#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/openapi.h"
#include "frontends/kube/machinery/protobuf_wire.h"

namespace lockstep::kube {
namespace {

using Message = std::string;

void put_text(Message& out, std::uint32_t number, const json::object& object, std::string_view key) {
  if (const json::value* value = object.if_contains(key); value && value->is_string())
    put_bytes(out, number, value->get_string());
}

void put_texts(Message& out, std::uint32_t number, const json::object& object, std::string_view key) {
  if (const json::value* value = object.if_contains(key); value && value->is_array())
    for (const json::value& text : value->get_array()) put_bytes(out, number, text_of(text));
}

void put_flag(Message& out, std::uint32_t number, const json::object& object, std::string_view key) {
  if (const json::value* value = object.if_contains(key); value && value->is_bool() && value->get_bool())
    put_number(out, number, 1);
}

void put_double(Message& out, std::uint32_t number, const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (!value || !is_number(*value))
    return;
  put_tag(out, number, WireType::kFixed64);
  const double content = number_of(*value);
  std::uint64_t bits = 0;
  static_assert(sizeof bits == sizeof content);
  std::memcpy(&bits, &content, sizeof bits);
  for (int i = 0; i < 8; ++i) out += static_cast<char>(bits >> (8 * i));
}

void put_whole(Message& out, std::uint32_t number, const json::object& object, std::string_view key) {
  if (const json::value* value = object.if_contains(key); value && value->is_int64())
    put_number(out, number, static_cast<std::uint64_t>(value->get_int64()));
}

// Any{yaml}: JSON is YAML.
Message any_message(const json::value& value) {
  Message out;
  put_bytes(out, 2, json::serialize(value) + "\n");
  return out;
}

Message named(std::string_view name, std::string_view value) {
  Message out;
  put_bytes(out, 1, name);
  put_bytes(out, 2, value);
  return out;
}

void put_extensions(Message& out, std::uint32_t number, const json::object& object) {
  for (const auto& entry : object)
    if (std::string_view(entry.key()).starts_with("x-"))
      put_bytes(out, number, named(entry.key(), any_message(entry.value())));
}

Message schema_message(const json::object& schema) {
  Message out;
  put_text(out, 1, schema, "$ref");
  put_text(out, 2, schema, "format");
  put_text(out, 3, schema, "title");
  put_text(out, 4, schema, "description");
  if (const json::value* value = schema.if_contains("default"))
    put_bytes(out, 5, any_message(*value));
  put_double(out, 6, schema, "multipleOf");
  put_double(out, 7, schema, "maximum");
  put_flag(out, 8, schema, "exclusiveMaximum");
  put_double(out, 9, schema, "minimum");
  put_flag(out, 10, schema, "exclusiveMinimum");
  put_whole(out, 11, schema, "maxLength");
  put_whole(out, 12, schema, "minLength");
  put_text(out, 13, schema, "pattern");
  put_whole(out, 14, schema, "maxItems");
  put_whole(out, 15, schema, "minItems");
  put_flag(out, 16, schema, "uniqueItems");
  put_whole(out, 17, schema, "maxProperties");
  put_whole(out, 18, schema, "minProperties");
  put_texts(out, 19, schema, "required");
  const json::value whole(schema);
  if (const json::array* words = member_array(whole, "enum"))
    for (const json::value& word : *words) put_bytes(out, 20, any_message(word));
  if (const json::object* values = member_object(whole, "additionalProperties")) {
    Message item;
    put_bytes(item, 1, schema_message(*values));
    put_bytes(out, 21, item);
  }
  if (const json::value* type = schema.if_contains("type"); type && type->is_string()) {
    Message item;
    put_bytes(item, 1, type->get_string());
    put_bytes(out, 22, item);
  }
  if (const json::object* element = member_object(whole, "items")) {
    Message item;
    put_bytes(item, 1, schema_message(*element));
    put_bytes(out, 23, item);
  }
  if (const json::object* properties = member_object(whole, "properties")) {
    Message item;
    for (const auto& entry : *properties)
      if (entry.value().is_object())
        put_bytes(item, 1, named(entry.key(), schema_message(entry.value().get_object())));
    put_bytes(out, 25, item);
  }
  put_extensions(out, 31, schema);
  return out;
}

// ParametersItem{Parameter{BodyParameter | NonBodyParameter{…}}}
Message parameter_message(const json::object& parameter) {
  Message inner, choice, outer, item;
  const json::value whole(parameter);
  const std::string_view in = text_of(parameter.at("in"));
  if (in == "body") {
    put_text(inner, 2, parameter, "name");
    put_text(inner, 3, parameter, "in");
    put_flag(inner, 4, parameter, "required");
    if (const json::object* schema = member_object(whole, "schema"))
      put_bytes(inner, 5, schema_message(*schema));
    put_bytes(outer, 1, inner);
  } else {
    const bool query = in == "query";
    put_flag(inner, 1, parameter, "required");
    put_text(inner, 2, parameter, "in");
    put_text(inner, 4, parameter, "name");
    put_text(inner, query ? 6 : 5, parameter, "type");
    put_bytes(choice, query ? 3 : 4, inner);
    put_bytes(outer, 2, choice);
  }
  put_bytes(item, 1, outer);
  return item;
}

void put_parameters(Message& out, std::uint32_t number, const json::object& object) {
  if (const json::value* list = object.if_contains("parameters"); list && list->is_array())
    for (const json::value& each : list->get_array()) put_bytes(out, number, parameter_message(each.as_object()));
}

Message responses_message(const json::object& responses) {
  Message out;
  for (const auto& entry : responses) {
    Message response, value;
    put_text(response, 1, entry.value().as_object(), "description");
    if (const json::object* schema = member_object(entry.value(), "schema")) {
      Message item;
      put_bytes(item, 1, schema_message(*schema));
      put_bytes(response, 2, item);
    }
    put_bytes(value, 1, response);
    put_bytes(out, 1, named(entry.key(), value));
  }
  return out;
}

Message operation_message(const json::object& operation) {
  Message out;
  put_text(out, 3, operation, "description");
  put_text(out, 5, operation, "operationId");
  put_texts(out, 6, operation, "produces");
  put_texts(out, 7, operation, "consumes");
  put_parameters(out, 8, operation);
  put_bytes(out, 9, responses_message(operation.at("responses").as_object()));
  put_extensions(out, 13, operation);
  return out;
}

Message path_message(const json::object& item) {
  constexpr std::pair<std::string_view, std::uint32_t> kMethods[] = {
      {"get", 2}, {"put", 3}, {"post", 4}, {"delete", 5}, {"patch", 8}};
  Message out;
  for (const auto& [method, number] : kMethods)
    if (const json::value* operation = item.if_contains(method))
      put_bytes(out, number, operation_message(operation->as_object()));
  put_parameters(out, 9, item);
  return out;
}

}  // namespace

std::string openapi_v2_protobuf(const json::object& document) {
  Message out, info, paths, definitions;
  put_text(out, 1, document, "swagger");
  put_text(info, 1, document.at("info").as_object(), "title");
  put_text(info, 2, document.at("info").as_object(), "version");
  put_bytes(out, 2, info);
  for (const auto& entry : document.at("paths").as_object())
    put_bytes(paths, 2, named(entry.key(), path_message(entry.value().as_object())));
  put_bytes(out, 8, paths);
  for (const auto& entry : document.at("definitions").as_object())
    put_bytes(definitions, 1, named(entry.key(), schema_message(entry.value().as_object())));
  put_bytes(out, 9, definitions);
  return out;
}

}  // namespace lockstep::kube
