// Custom resource definitions: names that follow from others, and schemas that say what they must.
// Source: kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions.
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/structural.h"

namespace lockstep::kube {

namespace {

std::string text_in(const json::value& value, std::string_view name) {
  const json::value* text = member(value, name);
  return text ? std::string(text_of(*text)) : std::string();
}

json::object& object_at(json::object& tree, std::string_view name) {
  json::value& value = tree[name];
  return value.is_object() ? value.get_object() : value.emplace_object();
}

class DefinitionRules final : public KindRules {
 public:
  void prepare_create(json::object& tree) const override {
    fill(tree);
    tree["status"] = {{"conditions", json::array()}, {"acceptedNames", {{"plural", ""}, {"kind", ""}}}, {"storedVersions", json::array()}};
    for (const json::value& version : versions_of(tree))
      if (const json::value* storage = member(version, "storage"); storage && storage->is_bool() && storage->get_bool())
        tree["status"].as_object()["storedVersions"].as_array().emplace_back(text_in(version, "name"));
  }
  void prepare_update(json::object& tree, const json::object&, std::string_view) const override { fill(tree); }

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const json::value* found = tree.if_contains("spec");
    if (!found)
      return;
    const json::value& spec = *found;
    const json::value* names = member(spec, "names");
    const std::string plural = names ? text_in(*names, "plural") : "", group = text_in(spec, "group");
    const json::value* metadata = tree.if_contains("metadata");
    const std::string name = metadata ? text_in(*metadata, "name") : "";
    if (name != plural + "." + group)
      out.push_back(field_invalid("metadata.name", json::value(json::string_view(name)), "must be spec.names.plural+\".\"+spec.group"));
    std::size_t stored = 0, i = 0;
    for (const json::value& version : versions_of(tree)) {
      const std::string path = format("spec.versions[{}].schema.openAPIV3Schema", i++);
      const json::value* storage = member(version, "storage");
      stored += storage && storage->is_bool() && storage->get_bool();
      const json::value* schema = member(version, "schema");
      const json::value* definition = schema ? member(*schema, "openAPIV3Schema") : nullptr;
      if (!definition) {
        out.push_back(field_required(path, "schemas are required"));
        continue;
      }
      const FieldErrors faults = structural_faults(*definition, path);
      out.insert(out.end(), faults.begin(), faults.end());
    }
    if (stored != 1)
      out.push_back(field_invalid("spec.versions", spec.get_object().contains("versions") ? spec.get_object().at("versions") : json::value(),
                                  "must have exactly one version marked as storage version"));
    if (old && !old->contains("spec"))
      return;
    for (const char* fixed : {"group", "scope"})
      if (old && text_in(old->at("spec"), fixed) != text_in(spec, fixed))
        out.push_back(field_invalid(format("spec.{}", fixed), json::value(json::string_view(text_in(spec, fixed))), "field is immutable"));
  }

 private:
  static json::array versions_of(const json::object& tree) {
    const json::value* spec = tree.if_contains("spec");
    const json::array* versions = spec ? member_array(*spec, "versions") : nullptr;
    return versions ? *versions : json::array();
  }

  static void fill(json::object& tree) {
    json::object& spec = object_at(tree, "spec");
    json::object& names = object_at(spec, "names");
    const std::string kind = text_in(names, "kind");
    if (text_in(names, "singular").empty())
      names["singular"] = lower(kind);
    if (text_in(names, "listKind").empty())
      names["listKind"] = kind + "List";
    if (text_in(object_at(spec, "conversion"), "strategy").empty())
      object_at(spec, "conversion")["strategy"] = "None";
  }
};

}  // namespace

const KindRules& definition_rules() {
  static const DefinitionRules rules;
  return rules;
}

}  // namespace lockstep::kube
