// pods/proxy and services/proxy: a request goes on to a pod's port, and its answer comes back, with connections that
// are upgraded. nodes/proxy answers the little that nodes here say of themselves. Source:
// kubernetes.io/docs/tasks/access-application-cluster/access-cluster-services ("Manually constructing apiserver proxy
// URLs").
#pragma once

#include "frontends/kube/server/pod_streams.h"

namespace lockstep::kube {

bool is_proxy(const Request& request);
void proxy_request(const Asked& request, const StreamTools& tools);

// "[SCHEME:]NAME[:PORT]", as the path names a pod or a service.
struct ProxyName {
  std::string scheme, name, port;
};
// Nothing: it is no such name.
std::optional<ProxyName> parse_proxy_name(std::string_view text);

}  // namespace lockstep::kube
