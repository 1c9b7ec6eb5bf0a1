// Settings of the kernel that pods ask for. Source: kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

namespace lockstep::kube {

namespace json = boost::json;

// As the kernel's files are named in containers' configurations: "kernel/shm_rmid_forced" is "kernel.shm_rmid_forced".
std::string sysctl_with_dots(std::string_view name);
// With dots, as Pod Security wants it: changes nothing for anybody but the pod. Source:
// kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster.
bool sysctl_is_safe(std::string_view name);
bool sysctl_is_of_network(std::string_view name);
bool sysctl_is_of_ipc(std::string_view name);

// Why no node takes the pod with what it asks of the kernel, in the words of Kubernetes' node agents; "" = they do.
struct NodeRefusal {
  std::string reason, message;
};
NodeRefusal node_refusal(const json::object& pod);
inline constexpr const char* kRejected = "Pod was rejected: ";  // how such a pod's message begins

}  // namespace lockstep::kube
