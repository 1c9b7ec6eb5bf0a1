#include "frontends/kube/server/custom_kinds.h"

#include "base/log_line.h"
#include "base/text.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

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
  const json::value body = parse_own(definition.body.get());
  if (!there || !is_established(body))
    return;
  json::object whole = body.as_object();
  whole["metadata"].as_object()["name"] = type;
  const ReadDefinition read = read_custom_definition(whole, builtin_schema(kObjectMetaName));
  if (!read.definition)
    return log_line(LogLevel::kWarning, format("kube: {} is not served: {}", type, joined_text(read.errors)));
  const CustomDefinition& found = *read.definition;
  for (std::size_t i = 0; i < found.versions.size(); ++i) {
    const CustomVersion& version = found.versions[i];
    if (!version.served)
      continue;
    Kind kind;
    kind.group = found.group;
    kind.version = version.name;
    kind.kind = found.kind;
    kind.plural = found.plural;
    kind.singular = found.singular;
    kind.list_kind = found.list_kind;
    kind.short_names = found.short_names;
    kind.categories = found.categories;
    kind.namespaced = found.namespaced;
    kind.verbs = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"};
    kind.type = type;
    kind.schema = version.schema;
    kind.storage_hash = base64_text(
        bytes_of_hex(sha256_hex_(format("{}/{}/{}", kind.group, found.storage().name, kind.kind)).substr(0, 16)));
    auto parts = std::make_shared<CustomParts>();
    parts->definition = read.definition;
    parts->version = &version;
    parts->rules =
        std::move(cel::compile_rules(*version.schema, format("spec.versions[{}].schema.openAPIV3Schema", i)).rules);
    if (text_in(part(part(body, "spec"), "conversion"), "strategy") == "Webhook")
      parts->conversion = part(part(body, "spec"), "conversion");
    parts->notes_version = found.versions.size() > 1;
    parts->has_defaults = has_defaults(*version.schema, kSchemaDepthMax);
    if (version.has_status)
      kind.subresources.push_back(status_of_kind(kind));
    if (version.scale)
      kind.subresources.push_back({"scale",
                                   "autoscaling",
                                   "v1",
                                   "Scale",
                                   {"get", "patch", "update"},
                                   builtin_kind_schema("autoscaling", "v1", "Scale")});
    for (const SelectableField& field : version.selectable) kind.selectable.push_back(field.name);
    kind.custom = std::move(parts);
    kinds_.put(std::move(kind));
  }
}

}  // namespace lockstep::kube
