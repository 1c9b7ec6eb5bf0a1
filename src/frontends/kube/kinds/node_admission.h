// What a node says to a pod that was bound to it by name, without a scheduler having looked: it takes it, or the pod
// has failed. Source: kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node, "nodeName".
#pragma once

#include <boost/json/object.hpp>

#include "frontends/kube/kinds/sysctls.h"
#include "model/tables.h"

namespace lockstep {
struct GroupSpec;
}

namespace lockstep::kube {

namespace json = boost::json;

// Why the node does not take the pod as things are there now, in the words of Kubernetes' node agents: OutOfcpu,
// NodeAffinity, NodePorts …; reason "" = it does. group: what the pod's job asks for. Looks at every job.
NodeRefusal refused_by_node(const Tables& tables, const Node& node, const json::object& pod, const GroupSpec& group);

}  // namespace lockstep::kube
