// The record of the topology, and what it says of each node.
#pragma once

#include <span>
#include <string>

#include "core/txn.h"

namespace lockstep {

// The names of the levels, outermost first; none without a topology.
std::span<const std::string> levels_of(const Tables& tables);

Result<Answer> put_topology(Txn& txn, const PutTopology& ask);

// The path of the node by the topology; what its agent was set up with where the topology does not name it.
std::vector<std::string> domains_of(const Tables& tables, const Node& facts);

}  // namespace lockstep
