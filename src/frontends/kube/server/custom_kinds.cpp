#include "frontends/kube/server/custom_kinds.h"

#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/schema_reader.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

std::string text_in(const json::value& value, std::string_view name) {
  const json::value* text = member(value, name);
  return text ? std::string(text_of(*text)) : std::string();
}

bool truth(const json::value& value, std::string_view name) {
  const json::value* found = member(value, name);
  return found && found->is_bool() && found->get_bool();
}

const json::value& part(const json::value& value, std::string_view name) {
  static const json::value none;
  const json::value* found = member(value, name);
  return found ? *found : none;
}

std::vector<std::string> texts_in(const json::value& value, std::string_view name) {
  std::vector<std::string> out;
  if (const json::array* list = member_array(value, name))
    for (const json::value& one : *list) out.emplace_back(text_of(one));
  return out;
}

bool is_established(const json::value& body) {
  if (const json::array* conditions = member_array(part(body, "status"), "conditions"))
    for (const json::value& one : *conditions)
      if (text_in(one, "type") == "Established" && text_in(one, "status") == "True")
        return true;
  return false;
}

std::string bytes_of_hex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

constexpr int kSchemaDepthMax = 64;

bool has_defaults(const Schema& schema, int depth) {
  if (depth == 0)
    return false;
  for (const Field& field : schema.fields)
    if (field.name != "metadata" && (field.standard || has_defaults(*field.schema, depth - 1)))
      return true;
  return schema.element && has_defaults(*schema.element, depth - 1);
}

Subresource status_of_kind(const Kind& kind) {
  return {"status", kind.group, kind.version, kind.kind, {"get", "patch", "update"}, kind.schema};
}

}  // namespace

void CustomKinds::begin(const Tables& tables) {
  for (auto at = tables.objects.lower_bound({std::string(kDefinitions), "", ""});
       at != tables.objects.end() && std::get<0>(at->first) == kDefinitions; ++at)
    take(*at->second, true);
}

void CustomKinds::change(const Tables&, const Change& change) {
  const auto* object = std::get_if<Ref<Object>>(&change.record);
  if (object && (*object)->type == kDefinitions)
    take(**object, !change.removed);
}

void CustomKinds::take(const Object& definition, bool there) {
  const std::string& type = definition.meta.name;
  kinds_.remove_type(type);
  const json::value body = json::parse(definition.body);
  if (!there || !is_established(body))
    return;
  const json::value& spec = part(body, "spec");
  const json::value& names = part(part(body, "status"), "acceptedNames");
  const json::array* versions = member_array(spec, "versions");
  if (!versions)
    return;
  std::string stored;
  for (const json::value& version : *versions)
    if (truth(version, "storage"))
      stored = text_in(version, "name");
  for (const json::value& version : *versions) {
    if (!truth(version, "served"))
      continue;
    Kind kind;
    kind.group = text_in(spec, "group");
    kind.version = text_in(version, "name");
    kind.kind = text_in(names, "kind");
    kind.plural = text_in(names, "plural");
    kind.singular = text_in(names, "singular");
    kind.list_kind = text_in(names, "listKind");
    kind.short_names = texts_in(names, "shortNames");
    kind.categories = texts_in(names, "categories");
    kind.namespaced = text_in(spec, "scope") == "Namespaced";
    kind.verbs = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"};
    kind.type = type;
    kind.storage_hash =
        base64_text(bytes_of_hex(sha256_hex_(format("{}/{}/{}", kind.group, stored, kind.kind)).substr(0, 16)));
    auto parts = std::make_shared<CustomParts>();
    const json::value& schema = part(part(version, "schema"), "openAPIV3Schema");
    if (const auto read = read_root_schema({parts->schemas, builtin_schema(kObjectMetaName)}, schema); read.ok()) {
      Schema& named = parts->schemas.make();
      named = **read;
      named.name = kind.group + "." + kind.version + "." + kind.kind;
      kind.schema = &named;
    }
    if (!kind.schema)
      kind.schema = &parts->schemas.make();
    add_patterns(*kind.schema, parts->patterns);
    parts->has_defaults = has_defaults(*kind.schema, kSchemaDepthMax);
    if (auto columns = read_custom_columns(version); columns.ok())
      parts->columns = std::move(*columns);
    const json::value& subresources = part(version, "subresources");
    if (subresources.is_object() && subresources.get_object().contains("status"))
      kind.subresources.push_back(status_of_kind(kind));
    if (const json::value& scale = part(subresources, "scale"); scale.is_object()) {
      parts->scale = scale.get_object();
      kind.subresources.push_back({"scale", "autoscaling", "v1", "Scale", {"get", "patch", "update"}, builtin_kind_schema("autoscaling", "v1", "Scale")});
    }
    if (const json::array* fields = member_array(version, "selectableFields"))
      for (const json::value& one : *fields)
        if (const std::string path = text_in(one, "jsonPath"); path.starts_with('.'))
          kind.selectable.push_back(path.substr(1));
    parts->version = version;
    kind.custom = std::move(parts);
    kinds_.put(std::move(kind));
  }
}

}  // namespace lockstep::kube
