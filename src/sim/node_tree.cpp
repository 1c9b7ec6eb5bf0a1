#include "sim/node_tree.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/text.h"

namespace lockstep::sim {

NodeTree NodeTree::flat(std::int32_t nodes) {
  NodeTree tree;
  tree.depth_ = 1;
  tree.switch_of_ = {{}, std::vector<std::int32_t>(static_cast<std::size_t>(nodes), 0)};
  return tree;
}

NodeTree NodeTree::of(const Topology& topology, const std::vector<std::string>& nodes) {
  using Path = std::vector<std::string>;
  std::map<std::string, const Path*> path_of;
  for (const TopologyLeaf& leaf : topology.leaves)
    for (const std::string& node : leaf.nodes) path_of[node] = &leaf.path;
  NodeTree tree;
  tree.switch_of_.emplace_back();
  for (std::size_t depth = topology.levels.size() + 1; depth-- > 0;) {  // leaves first, the whole cluster last
    std::map<Path, std::int32_t> numbers;
    std::vector<std::int32_t> level;
    for (const std::string& node : nodes) {
      const auto at = path_of.find(node);
      CHECK(at != path_of.end(), format("node {} is not in the topology", node));
      const Path domain(at->second->begin(), at->second->begin() + static_cast<std::ptrdiff_t>(depth));
      level.push_back(numbers.emplace(domain, static_cast<std::int32_t>(numbers.size())).first->second);
    }
    tree.switch_of_.push_back(std::move(level));
    ++tree.depth_;
    if (numbers.size() <= 1)
      break;
  }
  return tree;
}

std::int32_t NodeTree::level_of(const GangPool::Place& place) const {
  CHECK(!place.empty());
  if (place.size() == 1)
    return 0;
  for (std::int32_t level = 1; level < depth_; ++level) {
    const auto& switches = switch_of_[static_cast<std::size_t>(level)];
    const auto on = [&](const GangPool::Part& part) { return switches[static_cast<std::size_t>(part.node)]; };
    if (std::all_of(place.begin(), place.end(), [&](const GangPool::Part& part) { return on(part) == on(place[0]); }))
      return level;
  }
  return depth_;
}

std::int32_t NodeTree::best_level(std::int32_t nodes) const {
  if (nodes <= 1)
    return 0;
  for (std::int32_t level = 1; level < depth_; ++level) {
    std::map<std::int32_t, std::int32_t> size;
    for (const std::int32_t one : switch_of_[static_cast<std::size_t>(level)])
      if (++size[one] >= nodes)
        return level;
  }
  return depth_;
}

std::vector<std::int32_t> NodeTree::choose_idle(const GangPool& pool, std::int32_t count) const {
  for (std::int32_t level = 1; level <= depth_; ++level) {
    const auto& switches = switch_of_[static_cast<std::size_t>(level)];
    std::map<std::int32_t, std::vector<std::int32_t>> idle;
    for (std::int32_t node = 0; node < pool.nodes(); ++node)
      if (pool.free_on(node) == pool.devices_per_node())
        idle[switches[static_cast<std::size_t>(node)]].push_back(node);
    const std::vector<std::int32_t>* best = nullptr;
    for (const auto& [one, nodes] : idle)
      if (static_cast<std::int32_t>(nodes.size()) >= count && (!best || nodes.size() < best->size()))
        best = &nodes;
    if (best)
      return {best->begin(), best->begin() + count};
  }
  return {};
}

}  // namespace lockstep::sim
