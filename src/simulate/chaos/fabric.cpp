#include "simulate/chaos/fabric.h"

#include <algorithm>

#include "simulate/chaos/world.h"

namespace lockstep::sim {

namespace {

const std::vector<std::string> kLevels{"row", "spine", "block", "leaf"};

Topology const* topology_of(const World& world) { return world.controller.state().tables().topology.get(); }

std::vector<std::string> names_of(const World& world) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= world.nodes.size(); ++i) names.push_back(format("n{}", i));
  return names;
}

}  // namespace

ChaosFabric::ChaosFabric(World& world)
    : world_(world),
      rng_(world.settings.seed ^ 0x6661'6272'6963),
      class_rng_(world.settings.seed ^ 0x636c'6173'73),
      there_(rng_.chance(0.65)) {}

// Two classes that come and go, and take nodes from each other where the core lets them.
CommandBody ChaosFabric::new_class() {
  NodeClass one;
  one.meta.name = class_rng_.chance(0.5) ? "small" : "large";
  if (class_rng_.chance(0.2))
    return RemoveNodeClass{one.meta.name};
  for (const std::string& name : names_of(world_))
    if (class_rng_.chance(0.3))
      one.nodes.push_back(name);
  if (class_rng_.chance(0.2))
    one.nodes.emplace_back("n99");  // will join later
  one.features = {one.meta.name, "fabric"};
  one.weight = static_cast<std::uint32_t>(class_rng_.below(4));
  return PutNodeClass{one};
}

std::optional<CommandBody> ChaosFabric::change() {
  if (class_rng_.chance(0.01))
    return new_class();
  if (!there_ || !rng_.chance(topology_of(world_) ? 0.015 : 0.1))
    return std::nullopt;
  if (rng_.chance(0.1))
    return PutTopology{};
  static const std::vector<std::vector<std::string>> kTrees{
      {"leaf"}, {"spine", "leaf"}, {"spine", "leaf"}, {"spine", "block", "leaf"}, {"block"}, {"row", "block"}};
  Topology topology;
  topology.levels = kTrees[rng_.below(kTrees.size())];
  topology.blocks = topology.levels.back() == "block";
  std::vector<std::string> names = names_of(world_);
  if (rng_.chance(0.3))
    for (std::size_t i = names.size(); i > 1; --i) std::swap(names[i - 1], names[rng_.below(i)]);
  if (rng_.chance(0.3))
    names.resize(names.size() - rng_.below(5));  // some lie apart
  if (rng_.chance(0.2))
    names.push_back("n99");  // will join later
  const std::size_t size = static_cast<std::size_t>(rng_.between(4, 8)), width = rng_.between(1, 3);
  for (std::size_t at = 0, leaf = 0; at < names.size(); ++leaf) {
    const std::size_t end = std::min(names.size(), at + size + rng_.below(3));
    TopologyLeaf one;
    for (std::size_t depth = 0, part = leaf; depth < topology.levels.size(); ++depth, part /= width + 1)
      one.path.insert(one.path.begin(), format("{}{}", topology.levels[topology.levels.size() - 1 - depth], part));
    one.nodes.assign(names.begin() + static_cast<std::ptrdiff_t>(at), names.begin() + static_cast<std::ptrdiff_t>(end));
    topology.leaves.push_back(std::move(one));
    at = end;
  }
  return PutTopology{topology};
}

void ChaosFabric::dress(JobSpec& spec) {
  const Topology* topology = topology_of(world_);
  if (!there_ || !topology)
    return;
  std::vector<GroupSpec> groups(spec.groups.begin(), spec.groups.end());
  GroupSpec& group = groups[0];
  const bool gang = group.nodes.min > 1;
  if ((!gang && group.launch != Launch::kTasks) || !rng_.chance(0.6))
    return;
  if (rng_.chance(0.6)) {
    const auto& levels = rng_.chance(0.95) ? topology->levels : kLevels;
    group.topology_level = (rng_.chance(0.6) ? "!" : "") + levels[rng_.below(levels.size())];
  }
  if (rng_.chance(0.3)) {
    group.switches_max = static_cast<std::uint32_t>(rng_.between(1, 2));
    group.switches_wait = rng_.chance(0.4) ? kForever : seconds(rng_.between(0, 40));
  }
  if (gang && group.nodes.min % 2 == 0 && rng_.chance(0.3))
    group.segment = rng_.chance(0.5) ? 2 : group.nodes.min;
  spec.groups = std::move(groups);
}

std::optional<CommandBody> ChaosFabric::settle() const {
  if (!there_)
    return std::nullopt;
  Topology topology;
  topology.levels = kLevels;
  TopologyLeaf all{.path = {"r", "s", "b", "l"}, .nodes = names_of(world_)};
  std::sort(all.nodes.begin(), all.nodes.end());
  topology.leaves = {all};
  if (const Topology* now = topology_of(world_);
      now && now->levels == topology.levels && now->leaves == topology.leaves)
    return std::nullopt;
  return PutTopology{topology};
}

}  // namespace lockstep::sim
