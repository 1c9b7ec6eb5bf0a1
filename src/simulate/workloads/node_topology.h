// The topology of the simulated nodes, in the product's own format (wire/topology_file.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/records.h"

namespace lockstep::sim {

// Names of the nodes of a trace: n1, n2, …; n0, n1, … where the file begins with n0.
std::vector<std::string> node_names(std::int32_t count, const Topology* topology);

// Errors name file and line: what the product refuses, and nodes that one side has and the other has not.
Result<Topology> parse_node_topology(std::string_view name, std::string_view text, std::int32_t nodes);
Result<Topology> read_node_topology(const std::string& path, std::int32_t nodes);

}  // namespace lockstep::sim
