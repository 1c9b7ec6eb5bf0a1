// Where a pod says it may go and would rather be, in the planner's words: selectors and affinities of nodes,
// tolerations, affinities among pods, topology spread. Source: kubernetes.io/docs/concepts/scheduling-eviction
// ("Assigning Pods to Nodes", "Taints and Tolerations", "Pod Topology Spread Constraints").
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/labels.h"
#include "model/placement.h"
#include "model/spec.h"

namespace lockstep {
struct Node;
}

namespace lockstep::kube {

namespace json = boost::json;

// Names of the namespaces that a LabelSelector takes in.
using NamespacesOf = std::function<std::vector<std::string>(const json::value& selector)>;

inline constexpr const char* kPortLabel = " port:";  // of ports of the node that a pod takes: no label of a user's

// The pod's labels, under which other pods' terms find it, with the one by which pods of one owner are spread.
Labels labels_of_pod(const json::object& pod);

// Sets what the group asks of nodes and neighbours. Errors: more than a job can hold, or a selector that is none.
Result<void> set_terms(Placement& group, const json::object& pod, const NamespacesOf& namespaces);

// The group may go only where the volume is: a NodeSelector, beside what is asked of nodes already. Errors: more than a
// job can hold.
Result<void> keep_near(Placement& group, const json::value& selector);

// A Node object's labels and taints in the planner's words, without those taints that follow from the node's record.
Labels labels_of_node(const json::object& node);
std::vector<NodeMark> marks_of_node(const json::object& node);

// Why the group may not be on the node, as FailedScheduling says it; "": it may.
std::string node_keeps_off(const Placement& group, const Node& node);

}  // namespace lockstep::kube
