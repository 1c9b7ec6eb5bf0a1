// NodeTree: which domains of a topology the nodes of a trace simulation lie in, level by level.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/records.h"
#include "sim/gang_pool.h"

namespace lockstep::sim {

class NodeTree {
 public:
  static NodeTree flat(std::int32_t nodes);  // all on one switch
  // nodes: their names. Each must be in the topology; without a common top, all nodes together are one more level.
  static NodeTree of(const Topology& topology, const std::vector<std::string>& nodes);

  std::int32_t depth() const { return depth_; }  // levels of switches
  // The lowest level that holds all of them: 0 one node, 1 one leaf switch, … depth().
  std::int32_t level_of(const GangPool::Place& place) const;
  // The lowest level on which an empty cluster could hold so many nodes.
  std::int32_t best_level(std::int32_t nodes) const;
  // Whole idle nodes for a gang, on the lowest level that has enough of them, on the fullest such switch; empty when
  // there are too few.
  std::vector<std::int32_t> choose_idle(const GangPool& pool, std::int32_t count) const;

 private:
  std::vector<std::vector<std::int32_t>> switch_of_;  // by level from 1, by node; numbered from 0 on every level
  std::int32_t depth_ = 0;
};

}  // namespace lockstep::sim
