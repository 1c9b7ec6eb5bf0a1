// A node of the cluster as Kubernetes shows it: capacity, conditions, addresses and taints follow from our record. What
// users added (labels, annotations, taints) stands in the object.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/node.h"

namespace lockstep::kube {

namespace json = boost::json;

// Whether a taint follows from the record: it is nobody's to set.
bool follows_from_record(std::string_view taint);
// Its disk, of which pods ask for a part ("ephemeral-storage", in MB). Nothing: it has none, or counts that itself.
std::optional<Counted> disk_of_node(const Node& node);
// Amounts of a Node's status that users count there beside what its agent tells: capacity.
std::vector<Counted> counted_of_node(const json::object& tree, const Node& node);

// The object of a node that has just joined, or whose object was deleted: what the record knows that users added
// (labels, taints, amounts) is there again.
json::object new_node_tree(const Node& node);
// Labels that follow from what the agent tells of its machine, as NVIDIA's feature discovery names them:
// nvidia.com/gpu.product, .count, .memory. An annotation says which are ours: who runs that discovery has its own word.
// Whether that changes something.
bool put_found_labels(json::object& tree, const Node& node);
// Conditions that follow from the record. Somebody may write one that is worse: it is shown until the agent's next
// word.
bool is_own_condition(std::string_view type);
// Sets what the record says in the object's tree. wall_offset: adds to an Instant to give the wall clock.
void show_node(json::object& tree, const Node& node, Instant now, Duration wall_offset);

}  // namespace lockstep::kube
