// The Lease by which a node shows that it is heard. When its agent was heard last is in no record: what stands there
// follows from the node's link, so a beat costs nothing.
// Source: kubernetes.io/docs/concepts/architecture/leases, "Node heartbeats".
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "base/time.h"
#include "model/node.h"
#include "model/records.h"

namespace lockstep::kube {

namespace json = boost::json;

inline constexpr std::string_view kLeases = "leases.coordination.k8s.io", kNodeLeases = "kube-node-lease";

// When the node's agent was heard: the last full beat (10 s) as long as it is connected, then the end of the link.
Instant heard_at(const Node& node, Instant now, Duration wall_offset);

bool is_node_lease(const Object& object);
// Sets spec.renewTime. wall_offset: adds to an Instant to give the wall clock.
void show_lease(json::object& tree, const Node& node, Instant now, Duration wall_offset);

}  // namespace lockstep::kube
