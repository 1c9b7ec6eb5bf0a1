// What every cluster has from its first start on. Whoever changes it keeps the change; what is deleted comes back.
// Source: kubernetes.io/docs/concepts/overview/working-with-objects/namespaces ("Initial namespaces") and
// docs/reference/access-authn-authz/rbac ("Default roles and role bindings").
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/kinds/types.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kRoles = "clusterroles.rbac.authorization.k8s.io";
constexpr std::string_view kBindings = "clusterrolebindings.rbac.authorization.k8s.io";
constexpr const char* kRbac = "rbac.authorization.k8s.io";

constexpr const char* kFirstNamespaces[] = {"default", "kube-node-lease", "kube-public", "kube-system"};

json::object namespace_tree(const std::string& name) {
  return {{"metadata",
           {{"name", name},
            {"labels", {{"kubernetes.io/metadata.name", name}}},
            {"finalizers", json::array{json::string_view(kNamespaceFinalizer)}}}},
          {"spec", {{"finalizers", json::array{json::string_view(kNamespaceFinalizer)}}}},
          {"status", {{"phase", "Active"}}}};
}

json::object rule(json::array groups, json::array resources, json::array verbs) {
  return {{"apiGroups", std::move(groups)}, {"resources", std::move(resources)}, {"verbs", std::move(verbs)}};
}

// A role's rules, or the label by which it gathers those of others.
struct FirstRole {
  const char* name;
  json::array rules;
  const char* gathers = nullptr;   // "rbac.authorization.k8s.io/aggregate-to-edit"
  const char* given_to = nullptr;  // the label that this one's rules go by
};

std::vector<FirstRole> first_roles() {
  const json::array all{"*"}, read{"get", "list", "watch"};
  const json::array write{"create", "delete", "deletecollection", "patch", "update"};
  const json::array core{"configmaps",
                         "endpoints",
                         "persistentvolumeclaims",
                         "persistentvolumeclaims/status",
                         "pods",
                         "replicationcontrollers",
                         "replicationcontrollers/scale",
                         "serviceaccounts",
                         "services",
                         "services/status",
                         "bindings",
                         "events",
                         "limitranges",
                         "namespaces/status",
                         "pods/log",
                         "pods/status",
                         "replicationcontrollers/status",
                         "resourcequotas",
                         "resourcequotas/status",
                         "namespaces"};
  const json::array apps{"controllerrevisions", "daemonsets",         "daemonsets/status",  "deployments",
                         "deployments/scale",   "deployments/status", "replicasets",        "replicasets/scale",
                         "replicasets/status",  "statefulsets",       "statefulsets/scale", "statefulsets/status"};
  const json::array batch{"cronjobs", "cronjobs/status", "jobs", "jobs/status"};
  std::vector<FirstRole> out;
  out.push_back({"cluster-admin", {rule(all, all, all), json::object{{"nonResourceURLs", all}, {"verbs", all}}}});
  out.push_back({"admin", {}, "rbac.authorization.k8s.io/aggregate-to-admin"});
  out.push_back(
      {"edit", {}, "rbac.authorization.k8s.io/aggregate-to-edit", "rbac.authorization.k8s.io/aggregate-to-admin"});
  out.push_back(
      {"view", {}, "rbac.authorization.k8s.io/aggregate-to-view", "rbac.authorization.k8s.io/aggregate-to-edit"});
  out.push_back({"system:aggregate-to-view",
                 {rule({""}, core, read), rule({"apps"}, apps, read), rule({"batch"}, batch, read),
                  rule({"autoscaling"}, {"horizontalpodautoscalers", "horizontalpodautoscalers/status"}, read),
                  rule({"policy"}, {"poddisruptionbudgets", "poddisruptionbudgets/status"}, read),
                  rule({"networking.k8s.io"}, {"ingresses", "ingresses/status", "networkpolicies"}, read),
                  rule({"discovery.k8s.io"}, {"endpointslices"}, read)},
                 nullptr,
                 "rbac.authorization.k8s.io/aggregate-to-view"});
  out.push_back({"system:aggregated-metrics-reader",
                 {rule({"metrics.k8s.io"}, {"pods", "nodes"}, {"get", "list", "watch"})},
                 nullptr,
                 "rbac.authorization.k8s.io/aggregate-to-view"});
  out.push_back(
      {"system:aggregate-to-edit",
       {rule({""}, {"pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"}, read),
        rule({""}, {"serviceaccounts"}, {"impersonate"}),
        rule({""},
             {"pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "configmaps", "events",
              "persistentvolumeclaims", "replicationcontrollers", "replicationcontrollers/scale", "secrets",
              "serviceaccounts", "services", "services/proxy"},
             write),
        rule({""}, {"pods/eviction", "serviceaccounts/token"}, {"create"}),
        rule({"apps"},
             {"daemonsets", "deployments", "deployments/rollback", "deployments/scale", "replicasets",
              "replicasets/scale", "statefulsets", "statefulsets/scale"},
             write),
        rule({"batch"}, {"cronjobs", "jobs"}, write), rule({"autoscaling"}, {"horizontalpodautoscalers"}, write),
        rule({"policy"}, {"poddisruptionbudgets"}, write),
        rule({"networking.k8s.io"}, {"ingresses", "networkpolicies"}, write),
        rule({"coordination.k8s.io"}, {"leases"},
             {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})},
       nullptr,
       "rbac.authorization.k8s.io/aggregate-to-edit"});
  out.push_back({"system:aggregate-to-admin",
                 {rule({"authorization.k8s.io"}, {"localsubjectaccessreviews"}, {"create"}),
                  rule({kRbac}, {"roles", "rolebindings"},
                       {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})},
                 nullptr,
                 "rbac.authorization.k8s.io/aggregate-to-admin"});
  out.push_back({"system:basic-user",
                 {rule({"authorization.k8s.io"}, {"selfsubjectaccessreviews", "selfsubjectrulesreviews"}, {"create"}),
                  rule({"authentication.k8s.io"}, {"selfsubjectreviews"}, {"create"})}});
  const json::array discovery{"/api",     "/api/*",     "/apis",   "/apis/*",  "/healthz", "/livez",
                              "/openapi", "/openapi/*", "/readyz", "/version", "/version/"};
  out.push_back({"system:discovery", {json::object{{"nonResourceURLs", discovery}, {"verbs", json::array{"get"}}}}});
  out.push_back(
      {"system:public-info-viewer",
       {json::object{{"nonResourceURLs", json::array{"/healthz", "/livez", "/readyz", "/version", "/version/"}},
                     {"verbs", json::array{"get"}}}}});
  out.push_back({"system:service-account-issuer-discovery",
                 {json::object{{"nonResourceURLs",
                                json::array{"/.well-known/openid-configuration", "/.well-known/openid-configuration/",
                                            "/openid/v1/jwks", "/openid/v1/jwks/"}},
                               {"verbs", json::array{"get"}}}}});
  out.push_back({"system:auth-delegator",
                 {rule({"authentication.k8s.io"}, {"tokenreviews"}, {"create"}),
                  rule({"authorization.k8s.io"}, {"subjectaccessreviews"}, {"create"})}});
  return out;
}

json::object role_tree(const FirstRole& role) {
  json::object labels{{"kubernetes.io/bootstrapping", "rbac-defaults"}};
  if (role.given_to)
    labels[role.given_to] = "true";
  json::object tree{{"metadata",
                     {{"name", role.name},
                      {"labels", labels},
                      {"annotations", {{"rbac.authorization.kubernetes.io/autoupdate", "true"}}}}},
                    {"rules", role.rules}};
  if (role.gathers)
    tree["aggregationRule"] = {
        {"clusterRoleSelectors", json::array{json::object{{"matchLabels", {{role.gathers, "true"}}}}}}};
  return tree;
}

struct FirstBinding {
  const char* name;
  const char* role;
  std::vector<const char*> groups;
};

const FirstBinding kFirstBindings[] = {
    {"cluster-admin", "cluster-admin", {"system:masters"}},
    {"system:basic-user", "system:basic-user", {"system:authenticated"}},
    {"system:discovery", "system:discovery", {"system:authenticated"}},
    {"system:public-info-viewer", "system:public-info-viewer", {"system:authenticated", "system:unauthenticated"}},
    {"system:service-account-issuer-discovery", "system:service-account-issuer-discovery", {"system:serviceaccounts"}},
};

json::object binding_tree(const FirstBinding& binding) {
  json::array subjects;
  for (const char* group : binding.groups)
    subjects.push_back({{"kind", "Group"}, {"apiGroup", kRbac}, {"name", group}});
  return {{"metadata",
           {{"name", binding.name},
            {"labels", {{"kubernetes.io/bootstrapping", "rbac-defaults"}}},
            {"annotations", {{"rbac.authorization.kubernetes.io/autoupdate", "true"}}}}},
          {"roleRef", {{"apiGroup", kRbac}, {"kind", "ClusterRole"}, {"name", binding.role}}},
          {"subjects", subjects}};
}

// What else there is: the API's own Service, and the classes of priority that Kubernetes' own pods have.
struct FirstObject {
  const char* type;
  const char* ns;
  const char* name;
  json::object parts;
};

json::object healthy() {
  return {{"conditions", json::array{json::object{{"type", "Healthy"}, {"status", "True"}, {"message", "ok"}}}}};
}

const std::vector<FirstObject>& first_objects() {
  static const std::vector<FirstObject> all = {
      {"services",
       "default",
       "kubernetes",
       {{"spec",
         {{"clusterIP", "10.96.0.1"},
          {"clusterIPs", json::array{"10.96.0.1"}},
          {"internalTrafficPolicy", "Cluster"},
          {"ipFamilies", json::array{"IPv4"}},
          {"ipFamilyPolicy", "SingleStack"},
          {"ports",
           json::array{json::object{{"name", "https"}, {"port", 443}, {"protocol", "TCP"}, {"targetPort", 6443}}}},
          {"sessionAffinity", "None"},
          {"type", "ClusterIP"}}},
        {"status", {{"loadBalancer", json::object()}}}}},
      {"storageclasses.storage.k8s.io",
       "",
       "standard",
       {{"metadata", {{"annotations", {{"storageclass.kubernetes.io/is-default-class", "true"}}}}},
        {"provisioner", "lockstep.io/local"},
        {"reclaimPolicy", "Delete"},
        {"volumeBindingMode", "WaitForFirstConsumer"}}},
      {"services",
       "kube-system",
       "kube-dns",
       {{"spec",
         {{"clusterIP", "10.96.0.10"},
          {"clusterIPs", json::array{"10.96.0.10"}},
          {"internalTrafficPolicy", "Cluster"},
          {"ipFamilies", json::array{"IPv4"}},
          {"ipFamilyPolicy", "SingleStack"},
          {"ports",
           json::array{json::object{{"name", "dns"}, {"port", 53}, {"protocol", "UDP"}, {"targetPort", 53}},
                       json::object{{"name", "dns-tcp"}, {"port", 53}, {"protocol", "TCP"}, {"targetPort", 53}}}},
          {"sessionAffinity", "None"},
          {"type", "ClusterIP"}}},
        {"status", {{"loadBalancer", json::object()}}}}},
      {"roles.rbac.authorization.k8s.io",
       "kube-system",
       "extension-apiserver-authentication-reader",
       {{"rules", json::array{json::object{{"apiGroups", json::array{""}},
                                           {"resources", json::array{"configmaps"}},
                                           {"resourceNames", json::array{"extension-apiserver-authentication"}},
                                           {"verbs", json::array{"get", "list", "watch"}}}}}}},
      // What these programs are elsewhere are parts of the one that answers.
      {"componentstatuses", "", "controller-manager", healthy()},
      {"componentstatuses", "", "etcd-0", healthy()},
      {"componentstatuses", "", "scheduler", healthy()},
      {"servicecidrs.networking.k8s.io", "", "kubernetes", {{"spec", {{"cidrs", json::array{"10.96.0.0/16"}}}}}},
      {"priorityclasses.scheduling.k8s.io",
       "",
       "system-cluster-critical",
       {{"value", 2'000'000'000},
        {"preemptionPolicy", "PreemptLowerPriority"},
        {"description", "Of pods that the cluster needs, on any of its nodes."}}},
      {"priorityclasses.scheduling.k8s.io",
       "",
       "system-node-critical",
       {{"value", 2'000'001'000},
        {"preemptionPolicy", "PreemptLowerPriority"},
        {"description", "Of pods that their node needs."}}},
  };
  return all;
}

class Bootstrap final : public Reconciler {
 public:
  std::string_view name() const override { return "bootstrap"; }

  std::vector<ObjectKey> first_keys() const override {
    std::vector<ObjectKey> out;
    for (const char* ns : kFirstNamespaces) out.push_back({std::string(kNamespaces), "", ns});
    for (const FirstRole& role : first_roles()) out.push_back({std::string(kRoles), "", role.name});
    for (const FirstBinding& binding : kFirstBindings) out.push_back({std::string(kBindings), "", binding.name});
    for (const FirstObject& one : first_objects()) out.push_back({one.type, one.ns, one.name});
    return out;
  }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kNamespaces || changed.type == kRoles || changed.type == kBindings)
      return out.push_back(key_of(changed));
    for (const FirstObject& one : first_objects())
      if (changed.type == one.type && changed.meta.name == one.name)
        out.push_back(key_of(changed));
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto& [type, ns, name] = key;
    if (view.find(type, ns, name))
      return;
    if (type == kNamespaces) {
      for (const char* first : kFirstNamespaces)
        if (name == first)
          wish_new(out, view, now, type, namespace_tree(name));
    } else if (type == kRoles) {
      for (const FirstRole& role : first_roles())
        if (name == role.name)
          wish_new(out, view, now, type, role_tree(role));
    } else if (type != kBindings) {
      for (const FirstObject& one : first_objects())
        if (type == one.type && ns == one.ns && name == one.name) {
          json::object tree = one.parts;
          json::value& metadata = tree["metadata"];
          if (!metadata.is_object())
            metadata.emplace_object();
          metadata.as_object()["name"] = name;
          if (!ns.empty())
            tree["metadata"].as_object()["namespace"] = ns;
          wish_new(out, view, now, type, std::move(tree));
        }
    } else {
      for (const FirstBinding& binding : kFirstBindings)
        if (name == binding.name)
          wish_new(out, view, now, type, binding_tree(binding));
    }
  }
};

}  // namespace

std::shared_ptr<const Reconciler> bootstrap_controller() { return std::make_shared<Bootstrap>(); }

}  // namespace lockstep::kube
