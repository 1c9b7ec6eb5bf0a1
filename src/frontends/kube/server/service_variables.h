// Variables by which containers find Services, in both of the forms that Kubernetes gives.
// Source: kubernetes.io/docs/concepts/services-networking/service ("Environment variables").
#pragma once

#include <string>

#include "frontends/kube/kinds/pod_env.h"
#include "model/tables.h"

namespace lockstep::kube {

// Of the Services of the namespace, where all is true, and in any case of the API server's. Where api_address
// ("https://10.77.0.1:6820") is not empty, that one is named at its own address: a node need not lead to Services.
Variables service_variables(const Tables& tables, const std::string& ns, bool all, const std::string& api_address);

}  // namespace lockstep::kube
