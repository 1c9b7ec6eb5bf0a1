#include "frontends/kube/kinds/rules.h"

#include <map>
#include <string>

#include "frontends/kube/kinds/families.h"

namespace lockstep::kube {

const KindRules& rules_of(std::string_view type) {
  using Of = const KindRules& (*)();
  static const std::map<std::string_view, Of> known{
      {"namespaces", namespace_rules},
      {"secrets", data_rules},
      {"configmaps", data_rules},
      {"pods", pod_rules},
      {"services", service_rules},
      {"replicationcontrollers", replication_controller_rules},
      {"persistentvolumeclaims", claim_rules},
      {"nodes", node_rules},
      {"persistentvolumes", volume_rules},
      {"resourcequotas", quota_rules},
      {"limitranges", limit_range_rules},
      {"certificatesigningrequests.certificates.k8s.io", certificate_request_rules},
      {"leases.coordination.k8s.io", lease_rules},
      {"storageclasses.storage.k8s.io", storage_class_rules},
      {"deployments.apps", deployment_rules},
      {"replicasets.apps", replica_set_rules},
      {"daemonsets.apps", daemon_set_rules},
      {"statefulsets.apps", stateful_set_rules},
      {"jobs.batch", job_rules},
      {"cronjobs.batch", cron_job_rules},
      {"ingresses.networking.k8s.io", ingress_rules},
      {"networkpolicies.networking.k8s.io", network_policy_rules},
      {"horizontalpodautoscalers.autoscaling", autoscaler_rules},
      {"poddisruptionbudgets.policy", disruption_budget_rules},
      {"roles.rbac.authorization.k8s.io", role_rules},
      {"clusterroles.rbac.authorization.k8s.io", cluster_role_rules},
      {"rolebindings.rbac.authorization.k8s.io", role_binding_rules},
      {"clusterrolebindings.rbac.authorization.k8s.io", cluster_role_binding_rules},
      {"customresourcedefinitions.apiextensions.k8s.io", definition_rules},
      {"priorityclasses.scheduling.k8s.io", priority_class_rules},
      {"validatingadmissionpolicies.admissionregistration.k8s.io", policy_rules},
      {"validatingadmissionpolicybindings.admissionregistration.k8s.io", policy_binding_rules},
      {"deviceclasses.resource.k8s.io", device_class_rules},
      {"resourceclaims.resource.k8s.io", device_claim_rules},
      {"resourceclaimtemplates.resource.k8s.io", device_claim_template_rules},
  };
  static const KindRules plain;
  const auto at = known.find(type);
  return at == known.end() ? plain : at->second();
}

}  // namespace lockstep::kube
