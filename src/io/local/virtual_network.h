// The network of a cluster of virtual nodes: one bridge on this machine, one cable (veth pair) a node, one /16 of
// private addresses that nothing else here uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/local/process.h"

namespace lockstep {

struct VirtualNetwork {
  std::string bridge;        // "ls3fa9"
  std::uint32_t second = 0;  // addresses are 10.SECOND.0.0/16

  std::string host_address() const;                     // 10.S.0.1, the bridge
  std::string node_address(std::uint32_t index) const;  // index from 0
  static constexpr int kPrefix = 16;
};

// A name and a subnet for the state directory, not in use on this machine.
Result<VirtualNetwork> choose_network(const std::string& dir);
Result<void> make_bridge(const VirtualNetwork& network);  // harmless when it is there
struct Cable {
  std::uint32_t index = 0;
  pid_t node = 0;  // whose network namespace gets the other end, as eth0
};
Result<void> connect_nodes(const VirtualNetwork& network, const std::vector<Cable>& cables);
// The bridge and what is left of the nodes' cables. Harmless when they are gone.
Result<void> remove_network(const VirtualNetwork& network, std::uint32_t nodes);
bool bridge_exists(const VirtualNetwork& network);

}  // namespace lockstep
