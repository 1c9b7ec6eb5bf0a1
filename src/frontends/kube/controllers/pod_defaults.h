// What the cluster fills in of a new pod beyond the defaults of its fields: its service account with the token that its
// containers find, how long it bears a node that is lost, its priority.
// Source: kubernetes.io/docs/reference/access-authn-authz/admission-controllers (ServiceAccount,
// DefaultTolerationSeconds, Priority).
#pragma once

#include <boost/json/object.hpp>
#include <optional>

#include "frontends/kube/machinery/status.h"
#include "model/tables.h"

namespace lockstep::kube {

// tree: with its name, namespace and the defaults of its fields. A Status: the pod is refused.
std::optional<Status> default_pod(const Tables& tables, json::object& tree);

inline constexpr const char* kTokenFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

}  // namespace lockstep::kube
