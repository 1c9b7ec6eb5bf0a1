// The network of a cluster of virtual nodes: one bridge on this machine, one cable (veth pair) a node, one /16 of
// private addresses that nothing else here uses. What a cluster made carries its mark (interfaces.h).
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
  // Addresses for the node's tasks, of the upper half of the same /16: "10.S.128.0/25". "" from the 257th node on.
  std::string task_range(std::uint32_t index) const;
  static constexpr int kPrefix = 16;
};

// From the choice of a network until its bridge is there: two clusters that are made at once would choose the same one.
// Waits for who holds it, though not longer than ten seconds: any user could.
class NetworkChoice {
 public:
  NetworkChoice();
  ~NetworkChoice();
  NetworkChoice(const NetworkChoice&) = delete;
  NetworkChoice& operator=(const NetworkChoice&) = delete;

 private:
  int fd_ = -1;
};

// A name and a subnet for the state directory, not in use on this machine.
Result<VirtualNetwork> choose_network(const std::string& dir);
// An interface of the bridge's name carries another cluster's mark: this directory is a copy, or was away for long.
Result<bool> is_another_clusters(const VirtualNetwork& network, const std::string& cluster_id);
// Harmless when it is there: its address and state are set again.
Result<void> make_bridge(const VirtualNetwork& network, const std::string& cluster_id);
// The machine itself reaches tasks of the first so many nodes at their addresses.
Result<void> lead_to_tasks(const VirtualNetwork& network, std::uint32_t nodes);
struct Cable {
  std::uint32_t index = 0;
  pid_t node = 0;  // whose network namespace gets the other end, as eth0
};
Result<void> connect_nodes(const VirtualNetwork& network, const std::string& cluster_id,
                           const std::vector<Cable>& cables);
// An interface for a virtual machine, on the bridge, to which its emulator ties the machine's own: the name of it.
Result<std::string> plug_in_machine(const VirtualNetwork& network, const std::string& cluster_id, std::uint32_t index);
// Of running nodes: plugs in again what somebody took away. How many there were.
Result<std::size_t> restore_cables(const VirtualNetwork& network, const std::string& cluster_id,
                                   const std::vector<Cable>& cables);
// What the node's own first process does, too: its end of the cable gets its address.
std::string commands_for_node_end(const std::string& address, int prefix, const std::string& gateway);
// Every interface that carries this cluster's mark, and of those of an older version, which carry none, the bridge of
// that name and its cables. Another cluster's are left alone. Harmless when they are gone. "": the id or the name of
// the bridge is not known.
Result<void> remove_network(const std::string& bridge, const std::string& cluster_id);

}  // namespace lockstep
