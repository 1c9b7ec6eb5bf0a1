#include "core/topology.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "core/directory.h"
#include "core/versions.h"

namespace lockstep {

namespace {

Result<void> check_topology(const Topology& topology) {
  constexpr std::size_t kLevelsMax = 16;
  if (topology.levels.empty() || topology.levels.size() > kLevelsMax)
    return invalid(format("a topology has 1 to {} levels with names", kLevelsMax), "levels");
  for (const std::string& level : topology.levels)
    if (level.empty() || level == "node" || level == "cluster" || level.find_first_of("!, ") != std::string::npos ||
        std::count(topology.levels.begin(), topology.levels.end(), level) != 1)
      return invalid(format("\"{}\" is no name for a level, or there twice", level), "levels");
  std::set<std::string_view> named;
  std::map<std::string_view, const TopologyLeaf*> by_name;
  std::map<std::pair<std::size_t, std::string_view>, std::string_view> above;  // level and domain -> the one it is in
  for (const TopologyLeaf& leaf : topology.leaves) {
    if (leaf.path.size() != topology.levels.size())
      return invalid(format("{} has a path of {} parts; there are {} levels", join(leaf.path, "/"), leaf.path.size(),
                            topology.levels.size()),
                     "leaves");
    if (leaf.path.back().empty() || !by_name.emplace(leaf.path.back(), &leaf).second)
      return invalid(format("leaf \"{}\" is there twice, or has no name", leaf.path.back()), "leaves");
    for (std::size_t i = 1; i < leaf.path.size(); ++i)
      if (const auto [at, fresh] = above.try_emplace({i, leaf.path[i]}, leaf.path[i - 1]);
          leaf.path[i - 1].empty() || at->second != leaf.path[i - 1])
        return invalid(format("{} lies below {} and below {}", leaf.path[i], at->second, leaf.path[i - 1]), "leaves");
    for (const std::string& node : leaf.nodes)
      if (node.empty() || !named.insert(node).second)
        return invalid(format("node \"{}\" is there twice, or has no name", node), "leaves");
  }
  return {};
}

}  // namespace

std::span<const std::string> levels_of(const Tables& tables) {
  return tables.topology ? std::span<const std::string>(tables.topology->levels) : std::span<const std::string>();
}

std::vector<std::string> domains_of(const Tables& tables, const Node& facts) {
  if (tables.topology)
    for (const TopologyLeaf& leaf : tables.topology->leaves)
      if (std::binary_search(leaf.nodes.begin(), leaf.nodes.end(), facts.meta.name))
        return leaf.path;
  return facts.domains;
}

Result<Answer> put_topology(Txn& txn, const PutTopology& ask) {
  TRY(need_admin(txn, "change the topology"));
  TRY(expect_version(txn.tables(), ask.topology, ask.if_seq, "the topology"));
  if (!ask.topology.leaves.empty())
    TRY(check_topology(ask.topology));
  const Ref<Topology> before = txn.tables().topology;
  Ref<Topology> written;
  std::map<std::string_view, const TopologyLeaf*> leaf_of;
  if (!ask.topology.leaves.empty()) {
    Topology record = ask.topology;
    record.meta.name = "topology";
    for (TopologyLeaf& leaf : record.leaves) std::sort(leaf.nodes.begin(), leaf.nodes.end());
    written = txn.put(std::move(record));
    for (const TopologyLeaf& leaf : written->leaves)
      for (const std::string& name : leaf.nodes) leaf_of[name] = &leaf;
  } else if (before) {
    txn.remove(before);
  }
  std::set<std::string_view> left;  // what only the topology before says something of
  if (before)
    for (const TopologyLeaf& leaf : before->leaves)
      for (const std::string& name : leaf.nodes)
        if (!leaf_of.contains(name))
          left.insert(name);
  std::vector<NodeId> ids;
  for (const auto& [id, node] : txn.tables().nodes) ids.push_back(id);
  for (const NodeId id : ids) {
    const Ref<Node> node = txn.node(id);
    const auto at = leaf_of.find(node->meta.name);
    if (at == leaf_of.end() && !left.contains(node->meta.name))
      continue;
    std::vector<std::string> path = at == leaf_of.end() ? std::vector<std::string>() : at->second->path;
    if (node->domains == path)
      continue;
    Node next = *node;
    next.domains = std::move(path);
    txn.put(std::move(next));
  }
  return Answer{.seq = written ? written->meta.seq : txn.tables().seq};
}

}  // namespace lockstep
