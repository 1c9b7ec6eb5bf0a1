// GangPool: equal nodes of equal devices under the plain gang rule of the GPU traces. A gang smaller than a node sits
// on one node, the fullest that has room; a larger one takes whole idle nodes and its remainder one more. One node of N
// devices is the flat pool of N processors of the HPC traces.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::sim {

class GangPool {
 public:
  struct Part {
    std::int32_t node = 0;
    std::int32_t devices = 0;
  };
  using Place = std::vector<Part>;  // empty: none

  GangPool(std::int32_t nodes, std::int32_t devices_per_node);

  bool could_ever_fit(std::int64_t size) const;
  bool fits(std::int64_t size) const;   // constant time in the number of nodes
  Place find(std::int64_t size) const;  // empty when it does not fit
  void take(const Place& place);
  void give(const Place& place);

  std::int64_t free() const { return free_; }
  std::int32_t free_on(std::int32_t node) const { return free_by_node_[static_cast<std::size_t>(node)]; }
  std::int64_t capacity() const { return std::int64_t{nodes_} * devices_per_node_; }
  std::int32_t nodes() const { return nodes_; }
  std::int32_t devices_per_node() const { return devices_per_node_; }

 private:
  void set(std::int32_t node, std::int32_t devices);

  std::int32_t nodes_;
  std::int32_t devices_per_node_;
  std::int64_t free_;
  std::vector<std::int32_t> free_by_node_;
  std::vector<std::int32_t> nodes_with_;  // how many nodes have exactly so many free devices
};

}  // namespace lockstep::sim
