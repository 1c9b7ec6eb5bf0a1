// NodeTree: which switches the nodes of a trace simulation hang on, as Slurm's topology.conf writes it:
//   SwitchName=leaf1 Nodes=n[0-31]
//   SwitchName=spine Switches=leaf[1-4]
// Nodes are called n0, n1, …; each hangs on one switch, each switch but the top on one other. '#' begins a remark.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/gang_pool.h"

namespace lockstep::sim {

class NodeTree {
 public:
  static NodeTree flat(std::int32_t nodes);  // all on one switch
  // Errors name the line: a switch or node named twice or not at all, a cycle, several tops, a node without a switch.
  static Result<NodeTree> parse(std::string_view name, std::string_view text, std::int32_t nodes);
  static Result<NodeTree> read(const std::string& path, std::int32_t nodes);

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
