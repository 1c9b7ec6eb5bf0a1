#include "core/topology.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "core/directory.h"
#include "core/versions.h"

namespace lockstep {

namespace {

Result<void> check_levels(const std::vector<std::string>& levels) {
  constexpr std::size_t kLevelsMax = 16;
  if (levels.empty() || levels.size() > kLevelsMax)
    return invalid(format("a topology has 1 to {} levels with names", kLevelsMax), "levels");
  for (const std::string& level : levels) {
    const bool reserved = level.empty() || level == "node" || level == "cluster";
    if (reserved || level.find_first_of("!, ") != std::string::npos ||
        std::count(levels.begin(), levels.end(), level) != 1)
      return invalid(format("\"{}\" is no name for a level, or there twice", level), "levels");
  }
  return {};
}

// Leaves and nodes are there once, and a domain lies in one other only.
Result<void> check_topology(const Topology& topology) {
  TRY(check_levels(topology.levels));
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

using LeafOf = std::map<std::string_view, const TopologyLeaf*>;  // by the node's name

LeafOf leaves_of(const Topology* topology) {
  LeafOf out;
  if (topology)
    for (const TopologyLeaf& leaf : topology->leaves)
      for (const std::string& name : leaf.nodes) out[name] = &leaf;
  return out;
}

// Each node learns where it lies now. A node of which no topology ever said anything keeps what its agent said.
void move_nodes(Txn& txn, const LeafOf& before, const LeafOf& now) {
  std::vector<NodeId> ids;
  for (const auto& [id, node] : txn.tables().nodes) ids.push_back(id);
  for (const NodeId id : ids) {
    const Ref<Node> node = txn.node(id);
    const auto at = now.find(node->meta.name);
    if (at == now.end() && !before.contains(node->meta.name))
      continue;
    std::vector<std::string> path = at == now.end() ? std::vector<std::string>() : at->second->path;
    if (node->domains == path)
      continue;
    Node next = *node;
    next.domains = std::move(path);
    txn.put(std::move(next));
  }
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
  if (!ask.topology.leaves.empty()) {
    Topology record = ask.topology;
    record.meta.name = "topology";
    for (TopologyLeaf& leaf : record.leaves) std::sort(leaf.nodes.begin(), leaf.nodes.end());
    written = txn.put(std::move(record));
  } else if (before) {
    txn.remove(before);
  }
  move_nodes(txn, leaves_of(before.get()), leaves_of(written.get()));
  return Answer{.seq = written ? written->meta.seq : txn.tables().seq};
}

}  // namespace lockstep
