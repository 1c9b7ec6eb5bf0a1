// Roles and bindings: rules that grant something, subjects that can be named.
// Source: kubernetes.io/docs/reference/access-authn-authz/rbac; messages are those of k8s.io/kubernetes
// pkg/apis/rbac/validation.
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr const char* kGroup = "rbac.authorization.k8s.io";

void check_rule(const Place& rule, bool namespaced) {
  const Place urls = rule["nonResourceURLs"];
  if (rule["verbs"].empty())
    rule["verbs"].required("verbs must contain at least one value");
  if (!urls.empty()) {
    if (namespaced)
      urls.invalid("namespaced rules cannot apply to non-resource URLs");
    if (!rule["apiGroups"].empty() || !rule["resources"].empty() || !rule["resourceNames"].empty())
      urls.invalid("rules cannot apply to both regular resources and non-resource URLs");
    return;
  }
  if (rule["apiGroups"].empty())
    rule["apiGroups"].required("resource rules must supply at least one api group");
  if (rule["resources"].empty())
    rule["resources"].required("resource rules must supply at least one resource");
}

class RoleRules final : public KindRules {
 public:
  explicit RoleRules(bool namespaced) : namespaced_(namespaced) {}

  void validate(const json::object& tree, const json::object*, FieldErrors& out) const override {
    const Place rules(part(tree, "rules"), "rules", out);
    for (const Place& rule : rules.each()) check_rule(rule, namespaced_);
    const Place aggregated(part(tree, "aggregationRule"), "aggregationRule", out);
    if (!aggregated.there())
      return;
    if (aggregated["clusterRoleSelectors"].empty())
      aggregated["clusterRoleSelectors"].required(
          "at least one clusterRoleSelector required if aggregationRule is non-nil");
    for (const Place& selector : aggregated["clusterRoleSelectors"].each()) check_selector(selector);
  }

 private:
  bool namespaced_;
};

class BindingRules final : public KindRules {
 public:
  explicit BindingRules(bool namespaced) : namespaced_(namespaced) {}

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place role(part(tree, "roleRef"), "roleRef", out);
    if (old && !same_json(role.value(), part(*old, "roleRef")))
      role.invalid("cannot change roleRef");
    role["apiGroup"].one_of({kGroup});
    if (namespaced_)
      role["kind"].one_of({"Role", "ClusterRole"});
    else
      role["kind"].one_of({"ClusterRole"});
    role["name"].needed();
    const Place subjects(part(tree, "subjects"), "subjects", out);
    for (const Place& one : subjects.each()) check_subject(one);
  }

 private:
  void check_subject(const Place& one) const {
    const Place name = one["name"], kind = one["kind"], group = one["apiGroup"];
    if (name.empty())
      name.required();
    if (kind.is("ServiceAccount")) {
      if (!name.empty())
        name.dns_subdomain();
      if (!group.empty())
        group.not_supported({""});
      if (!namespaced_ && one["namespace"].empty())
        one["namespace"].required();
    } else if (kind.is("User") || kind.is("Group")) {
      if (!group.is(kGroup))
        group.not_supported({kGroup});
    } else {
      kind.not_supported({"ServiceAccount", "User", "Group"});
    }
  }

  bool namespaced_;
};

}  // namespace

const KindRules& role_rules() {
  static const RoleRules rules(true);
  return rules;
}
const KindRules& cluster_role_rules() {
  static const RoleRules rules(false);
  return rules;
}
const KindRules& role_binding_rules() {
  static const BindingRules rules(true);
  return rules;
}
const KindRules& cluster_role_binding_rules() {
  static const BindingRules rules(false);
  return rules;
}

}  // namespace lockstep::kube
