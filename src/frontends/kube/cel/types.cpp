#include "frontends/kube/cel/types.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace lockstep::kube::cel {
namespace {

TypeRef make_type(std::string_view name, std::vector<TypeRef> parts, const Schema* schema) {
  return std::make_shared<const Type>(Type{std::string(name), std::move(parts), schema, {}});
}

bool is_parameter(const TypeRef& type) { return type->name == "A" || type->name == "B"; }

// Takes a type off the front of a signature.
TypeRef take_type(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_of("(),. "), text.size());
  const std::string name(text.substr(0, end));
  text.remove_prefix(end);
  std::vector<TypeRef> parts;
  if ((name == "list" || name == "map" || name == "optional") && text.starts_with("(")) {
    do {
      text.remove_prefix(1);
      while (text.starts_with(" ")) text.remove_prefix(1);
      parts.push_back(take_type(text));
    } while (text.starts_with(","));
    CHECK(text.starts_with(")"));
    text.remove_prefix(1);
  }
  return make_type(name, std::move(parts), nullptr);
}

}  // namespace

TypeRef simple_type(std::string_view name) {
  static std::map<std::string, TypeRef, std::less<>> known = [] {
    std::map<std::string, TypeRef, std::less<>> out;
    for (const char* each : {"dyn", "null", "bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration",
                             "type", "quantity", "ip", "cidr", "url", "format", "semver"})
      out.emplace(each, make_type(each, {}, nullptr));
    return out;
  }();
  const auto found = known.find(name);
  return found != known.end() ? found->second : make_type(name, {}, nullptr);
}

TypeRef composed_type(std::string_view name, std::vector<TypeRef> parts) {
  return make_type(name, std::move(parts), nullptr);
}

TypeRef fields_type(std::string_view name, std::map<std::string, TypeRef, std::less<>> fields) {
  return std::make_shared<const Type>(Type{std::string(name), {}, nullptr, std::move(fields)});
}

TypeRef type_of_schema(const Schema& schema) {
  switch (schema.type) {
    case Schema::Type::kAny: return nullptr;
    case Schema::Type::kBoolean: return simple_type("bool");
    case Schema::Type::kInteger: return simple_type("int");
    case Schema::Type::kNumber: return simple_type("double");
    case Schema::Type::kIntOrString:
    case Schema::Type::kQuantity: return simple_type("dyn");
    case Schema::Type::kString:
      if (schema.format == "byte")
        return simple_type("bytes");
      if (schema.format == "date-time" || schema.format == "date")
        return simple_type("timestamp");
      return simple_type(schema.format == "duration" ? "duration" : "string");
    case Schema::Type::kObject: return make_type("object", {}, &schema);
    case Schema::Type::kMap:
    case Schema::Type::kList: break;
  }
  TypeRef element = schema.element == nullptr ? nullptr : type_of_schema(*schema.element);
  if (element == nullptr)
    return nullptr;
  if (schema.type == Schema::Type::kMap)
    return composed_type("map", {simple_type("string"), std::move(element)});
  return composed_type("list", {std::move(element)});
}

std::string type_text(const TypeRef& type) {
  if (type->name == "object" && type->schema != nullptr && !type->schema->name.empty())
    return type->schema->name;
  constexpr std::pair<std::string_view, std::string_view> kLong[] = {
      {"timestamp", "google.protobuf.Timestamp"},
      {"duration", "google.protobuf.Duration"},
      {"quantity", "kubernetes.Quantity"},
      {"ip", "net.IP"},
      {"cidr", "net.CIDR"},
      {"url", "kubernetes.URL"},
      {"format", "kubernetes.NamedFormat"},
      {"semver", "kubernetes.Semver"},
      {"path_check", "kubernetes.authorization.PathCheck"},
      {"group_check", "kubernetes.authorization.GroupCheck"},
      {"resource_check", "kubernetes.authorization.ResourceCheck"},
      {"decision", "kubernetes.authorization.Decision"},
      {"authorizer", "kubernetes.authorization.Authorizer"},
      {"optional", "optional_type"}};
  std::string text = type->name;
  for (const auto& [name, long_name] : kLong)
    if (type->name == name)
      text = long_name;
  if (type->parts.empty())
    return text;
  std::vector<std::string> parts;
  for (const TypeRef& part : type->parts) parts.push_back(type_text(part));
  return format("{}({})", text, join(parts, ", "));
}

Signature parse_signature(std::string_view text) {
  Signature signature;
  const std::size_t open = text.find('(');
  std::string_view rest = text;
  const TypeRef target = take_type(rest);
  signature.method = rest.starts_with(".");
  if (signature.method) {
    signature.arguments.push_back(target);
    rest.remove_prefix(1);
    rest.remove_prefix(rest.find('('));
  } else {
    rest = text.substr(open);
  }
  rest.remove_prefix(1);
  while (!rest.starts_with(")")) {
    while (rest.starts_with(",") || rest.starts_with(" ")) rest.remove_prefix(1);
    signature.arguments.push_back(take_type(rest));
  }
  rest.remove_prefix(2);
  signature.result = take_type(rest);
  return signature;
}

bool assignable(const TypeRef& given, const TypeRef& wanted, Bindings& bindings) {
  if (is_parameter(wanted)) {
    const auto bound = bindings.find(wanted->name);
    if (bound == bindings.end()) {
      bindings.emplace(wanted->name, given);
      return true;
    }
    if (bound->second->name == "dyn") {
      return true;
    }
    Bindings none;
    if (assignable(given, bound->second, none))
      return true;
    // `null == x`: whichever comes first.
    return assignable(bound->second, given, none);
  }
  if (given->name == "dyn" || wanted->name == "dyn")
    return true;
  if (given->name == "null")
    return wanted->name == "null" ||
           (wanted->name != "bool" && wanted->name != "int" && wanted->name != "uint" && wanted->name != "double" &&
            wanted->name != "string" && wanted->name != "bytes" && wanted->name != "list" && wanted->name != "map");
  // An object is a map of its fields where an expression makes one to compare with it.
  if (given->name != wanted->name || given->parts.size() != wanted->parts.size())
    return false;
  if (given->name == "object" && given->schema != wanted->schema)
    return false;
  for (std::size_t at = 0; at < given->parts.size(); ++at)
    if (!assignable(given->parts[at], wanted->parts[at], bindings))
      return false;
  return true;
}

TypeRef substituted(const TypeRef& type, const Bindings& bindings) {
  if (is_parameter(type)) {
    const auto bound = bindings.find(type->name);
    return bound == bindings.end() ? simple_type("dyn") : bound->second;
  }
  if (type->parts.empty())
    return type;
  std::vector<TypeRef> parts;
  for (const TypeRef& part : type->parts) parts.push_back(substituted(part, bindings));
  return make_type(type->name, std::move(parts), type->schema);
}

TypeRef joined(const TypeRef& a, const TypeRef& b) {
  Bindings none;
  if (a->name == "dyn" || b->name == "dyn")
    return simple_type("dyn");
  if (assignable(a, b, none))
    return b;
  return assignable(b, a, none) ? a : simple_type("dyn");
}

}  // namespace lockstep::kube::cel
