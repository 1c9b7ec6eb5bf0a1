// Which nodes a pod may run on, by what it and they say: node names, selectors and required affinities, taints and
// tolerations. What is free there is the planner's business.
// Source: kubernetes.io/docs/concepts/scheduling-eviction ("Assigning Pods to Nodes", "Taints and Tolerations").
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

namespace json = boost::json;

// "": it may. Else why not, as FailedScheduling says it: "node(s) didn't match Pod's node affinity/selector".
// node: the Node object as it is shown.
std::string node_refuses(const json::object& pod, const json::object& node);

// Whether the pod bears the taint (of a Node object's spec.taints).
bool tolerates(const json::value& pod_spec, const json::value& taint);

// "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match …." why: of each node at least
// one.
std::string unschedulable_words(std::size_t nodes, std::vector<std::string> why);

}  // namespace lockstep::kube
