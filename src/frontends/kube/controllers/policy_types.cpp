// What is wrong with the expressions of a ValidatingAdmissionPolicy, told in its status: they are checked against the
// types of what the policy is for.
// Source: kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy, "Type checking" (not of
// wildcards, ten kinds at most).
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/cel/program.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/custom_definition.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kPolicies = "validatingadmissionpolicies.admissionregistration.k8s.io";
constexpr std::size_t kKindsMost = 10, kWarningsMost = 64, kWarningBytes = 4 << 10;

struct Typed {
  std::string words;  // "apps/v1, Kind=Deployment"
  const Schema* schema = nullptr;
  std::shared_ptr<const CustomDefinition> definition = nullptr;  // keeps the schema
};

std::optional<Typed> typed(const ObjectView& view, const std::string& group, const std::string& version,
                           const std::string& plural) {
  const std::string api_version = group.empty() ? version : group + "/" + version;
  if (const Resource* found = find_builtin(group, version, plural))
    return Typed{format("{}, Kind={}", api_version, found->kind), builtin_kind_schema(group, version, found->kind)};
  const auto stored = view.find(kDefinitions, "", plural + "." + group);
  if (!stored)
    return std::nullopt;
  const auto read = read_custom_definition(json::value(whole_tree(*stored)), builtin_schema(kObjectMetaName));
  const CustomVersion* found = read.definition ? read.definition->version(version) : nullptr;
  if (!found || !found->schema)
    return std::nullopt;
  return Typed{format("{}, Kind={}", api_version, read.definition->kind), found->schema, read.definition};
}

std::vector<Typed> kinds_of(const ObjectView& view, const json::value& spec) {
  std::vector<Typed> out;
  for (const json::value& rule : list_in(part(spec, "matchConstraints"), "resourceRules"))
    for (const json::value& group : list_in(rule, "apiGroups"))
      for (const json::value& version : list_in(rule, "apiVersions"))
        for (const json::value& resource : list_in(rule, "resources")) {
          const std::string g(text_of(group)), v(text_of(version)), r(text_of(resource));
          if (out.size() >= kKindsMost || (g + v + r).find('*') != std::string::npos ||
              r.find('/') != std::string::npos)
            continue;
          if (auto found = typed(view, g, v, r); found && found->schema)
            out.push_back(std::move(*found));
        }
  return out;
}

class TypeCheck {
 public:
  TypeCheck(std::vector<Typed> kinds) : kinds_(std::move(kinds)) {}

  void look(const std::string& field, const std::string& expression) {
    if (expression.empty() || warnings_.size() >= kWarningsMost)
      return;
    std::string words;
    for (const Typed& kind : kinds_) {
      const cel::TypeRef object = cel::type_of_schema(*kind.schema), any = cel::simple_type("dyn");
      const Schema* ns = builtin_kind_schema("", "v1", "Namespace");
      auto made = cel::compile(expression, {{"object", object ? object : any},
                                            {"oldObject", object ? object : any},
                                            {"request", any},
                                            {"params", any},
                                            {"namespaceObject", ns ? cel::type_of_schema(*ns) : any},
                                            {"authorizer", any},
                                            {"variables", any}});
      if (!made.ok())
        words += format("{}: {}\n", kind.words, made.error().message);
    }
    if (words.size() > kWarningBytes)
      words.resize(kWarningBytes);
    if (!words.empty())
      warnings_.push_back(json::object{{"fieldRef", field}, {"warning", words}});
  }
  json::array take() { return std::move(warnings_); }

 private:
  std::vector<Typed> kinds_;
  json::array warnings_;
};

class PolicyTypes final : public Reconciler {
 public:
  std::string_view name() const override { return "policy-types"; }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kPolicies)
      out.push_back(key_of(changed));
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant, Wishes& out) const override {
    const auto policy = view.find(kPolicies, "", std::get<2>(key));
    if (!policy || is_deleting(*policy))
      return;
    json::object body = body_of(*policy);
    json::object status = part(body, "status").is_object() ? part(body, "status").get_object() : json::object();
    if (status.contains("typeChecking") && whole_in(status, "observedGeneration", 0) == generation_of(body))
      return;
    const json::value& spec = part(body, "spec");
    TypeCheck check(kinds_of(view, spec));
    std::size_t at = 0;
    for (const json::value& one : list_in(spec, "validations")) {
      const std::string path = format("spec.validations[{}]", at++);
      check.look(path + ".expression", text_in(one, "expression"));
      check.look(path + ".messageExpression", text_in(one, "messageExpression"));
    }
    json::object told;
    if (json::array warnings = check.take(); !warnings.empty())
      told["expressionWarnings"] = std::move(warnings);
    status["typeChecking"] = std::move(told);
    status["observedGeneration"] = generation_of(body);
    wish_status(out, *policy, std::move(body), std::move(status));
  }
};

}  // namespace

std::shared_ptr<const Reconciler> policy_type_controller() { return std::make_shared<PolicyTypes>(); }

}  // namespace lockstep::kube
