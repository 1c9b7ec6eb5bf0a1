// Pod Security: the levels that a namespace's labels set for its pods ("pod-security.kubernetes.io/enforce: baseline").
// Source: kubernetes.io/docs/concepts/security/pod-security-standards; checks and words of
// k8s.io/pod-security-admission.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/kube/machinery/status.h"
#include "model/tables.h"

namespace lockstep::kube {

enum class PodLevel : unsigned char { kPrivileged, kBaseline, kRestricted };

// What of the pod does not hold at the level, as of Kubernetes 1.MINOR: `privileged (container "a" must not set
// securityContext.privileged=true), hostPath volumes (volume "v")`; "" = it holds. pod: {metadata, spec}, a pod or a
// template of pods.
std::string level_faults(PodLevel level, std::uint32_t minor, const json::object& pod);

// Of a pod, and of whatever has a template of pods, as it is to be in its namespace. Warnings are added; a Status
// (403): a pod is refused.
std::optional<Status> check_pod_security(const Tables& tables, std::string_view type, const json::object& tree,
                                         std::vector<std::string>& warnings);

// Of a namespace whose labels change what its pods have to hold: which of those that are there do not.
std::vector<std::string> warnings_of_level(const Tables& tables, const Object& ns, const Object& before);

}  // namespace lockstep::kube
