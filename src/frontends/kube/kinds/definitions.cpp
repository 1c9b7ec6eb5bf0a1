// Custom resource definitions: names that follow from others, and schemas that say what they must.
// Source: kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions.
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/cel/rules.h"
#include "frontends/kube/kinds/definition_checks.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/custom_definition.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

class DefinitionRules final : public KindRules {
 public:
  void prepare_create(json::object& tree) const override {
    fill(tree);
    tree["status"] = {{"conditions", json::array()},
                      {"acceptedNames", {{"plural", ""}, {"kind", ""}}},
                      {"storedVersions", json::array()}};
    for (const json::value& version : versions_of(tree))
      if (const json::value* storage = member(version, "storage"); storage && storage->is_bool() && storage->get_bool())
        tree["status"].as_object()["storedVersions"].as_array().emplace_back(text_in(version, "name"));
  }
  void prepare_update(json::object& tree, const json::object&, std::string_view) const override { fill(tree); }

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const json::value* found = tree.if_contains("spec");
    const json::value* before = old ? old->if_contains("spec") : nullptr;
    // What was stored is served, and its status is told, whatever would be refused by now.
    if (!found || !before || !same_json(*found, *before))
      check_versions(tree, out);
    if (!found)
      return;
    const json::value& spec = *found;
    if (old && !old->contains("spec"))
      return;
    for (const char* fixed : {"group", "scope"})
      if (old && text_in(old->at("spec"), fixed) != text_in(spec, fixed))
        out.push_back(field_invalid(format("spec.{}", fixed), json::value(json::string_view(text_in(spec, fixed))),
                                    "field is immutable"));
  }

 private:
  static void check_versions(const json::object& tree, FieldErrors& out) {
    const json::array versions = versions_of(tree);
    for (std::size_t i = 0; i < versions.size(); ++i) check_columns(versions[i], format("spec.versions[{}]", i), out);
    if (!out.empty())
      return;
    const ReadDefinition read = read_custom_definition(json::value(tree), builtin_schema(kObjectMetaName));
    out.insert(out.end(), read.errors.begin(), read.errors.end());
    if (!read.definition)
      return;
    for (std::size_t i = 0; i < read.definition->versions.size(); ++i) {
      const std::string path = format("spec.versions[{}]", i);
      const CustomVersion& version = read.definition->versions[i];
      const cel::CompiledRules compiled = cel::compile_rules(*version.schema, path + ".schema.openAPIV3Schema");
      out.insert(out.end(), compiled.errors.begin(), compiled.errors.end());
      check_defaults(version, read.definition->patterns, compiled.rules, path, out);
    }
  }

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
