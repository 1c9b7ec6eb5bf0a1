#include "core/topology.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "core/directory.h"

namespace lockstep {

namespace {

Result<void> check_topology(const Topology& topology) {
  if (topology.levels.empty())
    return invalid("a topology needs the names of its levels", "levels");
  std::set<std::string> named;
  for (const TopologyLeaf& leaf : topology.leaves) {
    if (leaf.path.size() != topology.levels.size())
      return invalid(format("{} has a path of {} parts; there are {} levels", join(leaf.path, "/"), leaf.path.size(),
                            topology.levels.size()),
                     "leaves");
    for (const std::string& node : leaf.nodes)
      if (!named.insert(node).second)
        return invalid(format("node {} is named twice", node), "leaves");
  }
  return {};
}

}  // namespace

std::vector<std::string> domains_of(const Tables& tables, const Node& facts) {
  if (tables.topology)
    for (const TopologyLeaf& leaf : tables.topology->leaves)
      if (std::find(leaf.nodes.begin(), leaf.nodes.end(), facts.meta.name) != leaf.nodes.end())
        return leaf.path;
  return facts.domains;
}

Result<Answer> put_topology(Txn& txn, const PutTopology& ask) {
  TRY(need_admin(txn, "change the topology"));
  if (ask.topology.leaves.empty()) {
    if (txn.tables().topology)
      txn.remove(Ref<Topology>(txn.tables().topology));
    return Answer{};
  }
  TRY(check_topology(ask.topology));
  Topology record = ask.topology;
  record.meta.name = "topology";
  const Ref<Topology> written = txn.put(std::move(record));
  std::map<std::string, const TopologyLeaf*> leaf_of;
  for (const TopologyLeaf& leaf : written->leaves)
    for (const std::string& name : leaf.nodes) leaf_of[name] = &leaf;
  std::vector<NodeId> ids;
  for (const auto& [id, node] : txn.tables().nodes) ids.push_back(id);
  for (const NodeId id : ids) {
    const Ref<Node> node = txn.node(id);
    const auto at = leaf_of.find(node->meta.name);
    if (at == leaf_of.end() || node->domains == at->second->path)
      continue;
    Node next = *node;
    next.domains = at->second->path;
    txn.put(std::move(next));
  }
  return Answer{.seq = written->meta.seq};
}

}  // namespace lockstep
