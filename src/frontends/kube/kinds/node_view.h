// A node of the cluster as Kubernetes shows it: capacity, conditions, addresses and taints follow from our record. What
// users added (labels, annotations, taints) stands in the object.
#pragma once

#include <boost/json/object.hpp>

#include "base/time.h"
#include "model/node.h"

namespace lockstep::kube {

namespace json = boost::json;

// The object of a node that has just joined.
json::object new_node_tree(const Node& node);
// Sets what the record says in the object's tree. wall_offset: adds to an Instant to give the wall clock.
void show_node(json::object& tree, const Node& node, Duration wall_offset);

}  // namespace lockstep::kube
