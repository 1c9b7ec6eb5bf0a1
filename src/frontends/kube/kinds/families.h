// The rules of families of kinds, one file each.
#pragma once

#include "frontends/kube/kinds/place.h"
#include "frontends/kube/kinds/rules.h"

namespace lockstep::kube {

const KindRules& namespace_rules();       // namespaces.cpp
const KindRules& priority_class_rules();  // priority_classes.cpp
const KindRules& definition_rules();      // custom resource definitions: definitions.cpp
const KindRules& policy_rules();          // of admission, and their bindings: policies.cpp
const KindRules& policy_binding_rules();
const KindRules& device_class_rules();  // devices.cpp
const KindRules& device_claim_rules();
const KindRules& device_claim_template_rules();
const KindRules& volume_rules();  // persistent volumes, claims and their classes: volumes.cpp
const KindRules& claim_rules();
const KindRules& storage_class_rules();
void check_claim_spec(const Place& spec);  // of a claim, or of a template that makes some
const KindRules& deployment_rules();       // what keeps pods: workload_rules.cpp
const KindRules& replica_set_rules();
const KindRules& replication_controller_rules();
const KindRules& daemon_set_rules();
const KindRules& stateful_set_rules();
const KindRules& job_rules();  // jobs.cpp
const KindRules& cron_job_rules();
const KindRules& service_rules();  // services.cpp
const KindRules& ingress_rules();  // network_objects.cpp
const KindRules& network_policy_rules();
const KindRules& autoscaler_rules();  // scaling.cpp
const KindRules& disruption_budget_rules();
const KindRules& role_rules();  // roles.cpp
const KindRules& cluster_role_rules();
const KindRules& role_binding_rules();
const KindRules& cluster_role_binding_rules();
const KindRules& quota_rules();  // bounds.cpp
const KindRules& limit_range_rules();
const KindRules& certificate_request_rules();  // certificate_requests.cpp
const KindRules& lease_rules();                // leases.cpp
const KindRules& node_rules();                 // node_rules.cpp
const KindRules& pod_rules();                  // pods.cpp
const KindRules& data_rules();                 // secrets and config maps: data_kinds.cpp

}  // namespace lockstep::kube
