// All controllers that Lockstep runs for Kubernetes' API.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "frontends/kube/controllers/pod_use.h"
#include "frontends/kube/controllers/reconciler.h"
#include "model/object_share.h"

namespace lockstep::kube {

// The finalizer of a namespace: it goes when nothing is left inside. Shown in spec.finalizers.
inline constexpr std::string_view kNamespaceFinalizer = "kubernetes";

// What each namespace may hold, with shares of their own for what comes by itself: of events the newest are kept.
ObjectShares shares_of_kinds(ObjectShares shares = {});

std::shared_ptr<const Reconciler> namespace_controller();
// What every cluster has: the namespaces default, kube-system, kube-public and kube-node-lease, the roles that
// Kubernetes documents, and the Service "kubernetes".
std::shared_ptr<const Reconciler> bootstrap_controller();
// What is behind the Service "kubernetes". address: where the API server is reached, "10.77.0.1:6820"; "" = not known.
std::shared_ptr<const Reconciler> api_endpoints_controller(std::function<std::string()> address);
// The ServiceAccount "default" and the ConfigMap "kube-root-ca.crt" of each namespace.
std::shared_ptr<const Reconciler> namespace_defaults(std::string ca_pem);

std::shared_ptr<const Reconciler> quota_controller();
std::shared_ptr<const Reconciler> node_controller();
std::shared_ptr<const Reconciler> service_address_controller();
std::shared_ptr<const Reconciler> service_range_controller();
std::shared_ptr<const Reconciler> definition_controller();
std::shared_ptr<const Reconciler> endpoint_controller();
std::shared_ptr<const Reconciler> not_programmed_controller();
std::shared_ptr<const Reconciler> disruption_controller();
std::shared_ptr<const Reconciler> pod_controller();
std::shared_ptr<const Reconciler> claim_controller();

std::shared_ptr<const Reconciler> replica_set_controller();
std::shared_ptr<const Reconciler> replication_controller();
std::shared_ptr<const Reconciler> deployment_controller();
std::shared_ptr<const Reconciler> job_controller();
std::shared_ptr<const Reconciler> daemon_set_controller();
std::shared_ptr<const Reconciler> stateful_set_controller();
std::shared_ptr<const Reconciler> cron_job_controller();
std::shared_ptr<const Reconciler> expiry_controller();
std::shared_ptr<const Reconciler> foreign_owner_controller();
std::shared_ptr<const Reconciler> taint_eviction_controller();
// uses: what the pods of a node that runs short are ranked by; empty: nothing is measured.
std::shared_ptr<const Reconciler> pressure_eviction_controller(UseSource uses);

// Who signs certificate requests that were approved.
struct RequestSigner {
  struct Subject {
    std::string name;
    std::vector<std::string> groups;
  };
  std::function<Result<Subject>(const std::string& request_pem)> subject;
  // A certificate as PEM, with which who has the request's key is known as `subject` here.
  std::function<Result<std::string>(const std::string& request_pem, const Subject& subject, Duration valid)> sign;
};
// Approved requests for the signer kubernetes.io/kube-apiserver-client get their certificate, old ones go. Signs
// nothing where `signer` is empty.
std::shared_ptr<const Reconciler> certificate_controller(RequestSigner signer);

// Tells in a ValidatingAdmissionPolicy's status what is wrong with its expressions' types.
std::shared_ptr<const Reconciler> policy_type_controller();

// uses: what autoscalers go by; empty: nothing is measured.
std::shared_ptr<const Reconciler> autoscaler_controller(UseSource uses);

// api_address: "10.0.0.1:6820", at which pods reach the API; empty: not known.
std::vector<std::shared_ptr<const Reconciler>> all_controllers(std::string ca_pem, UseSource uses = {},
                                                               std::function<std::string()> api_address = {},
                                                               RequestSigner signer = {});

}  // namespace lockstep::kube
