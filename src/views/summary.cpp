// Sums over the tables.
#include "views/summary.h"

#include <numeric>

#include "model/job.h"

namespace lockstep {

namespace {

void add(NodeUse& use, const Grant& grant) {
  use.cores = use.cores | grant.cores;
  use.devices = use.devices | grant.devices;
  use.memory_mb += grant.memory_mb;
  ++use.grants;
}

}  // namespace

std::map<NodeId, NodeUse> node_uses(const Tables& tables) {
  std::map<NodeId, NodeUse> uses;
  for (const auto& [id, job] : tables.jobs)
    if (job->allocation)
      for (const Grant& grant : job->allocation->grants) add(uses[grant.node], grant);
  return uses;
}

NodeUse node_use(const Tables& tables, NodeId node) {
  NodeUse use;
  for (const auto& [id, job] : tables.jobs)
    if (job->allocation)
      for (const Grant& grant : job->allocation->grants)
        if (grant.node == node)
          add(use, grant);
  return use;
}

std::uint64_t StateCounts::total() const { return std::accumulate(by_state.begin(), by_state.end(), std::uint64_t{0}); }

std::uint64_t StateCounts::unfinished() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < by_state.size(); ++i)
    if (!is_final(static_cast<JobState>(i)))
      sum += by_state[i];
  return sum;
}

StateCounts count_jobs(const Tables& tables) {
  StateCounts counts;
  for (const auto& [id, job] : tables.jobs)
    counts.by_state[static_cast<std::size_t>(job->state)] += job->array ? job->array->waiting.size() : 1;
  return counts;
}

NodeFacts node_facts(const Node& node, const NodeUse& use) {
  NodeFacts facts;
  facts.cores = node.cores;
  facts.cores_used = use.cores.count();
  facts.devices = static_cast<std::uint32_t>(node.devices.size());
  facts.devices_used = use.devices.count();
  facts.memory_mb = node.memory_mb;
  facts.memory_used_mb = use.memory_mb;
  facts.busy = use.grants == 0 ? NodeBusy::kIdle : facts.cores_used >= facts.cores ? NodeBusy::kFull : NodeBusy::kMixed;
  facts.usable = node_usable(node);
  return facts;
}

void add(ClusterFacts& sum, const NodeFacts& node) {
  ++sum.nodes;
  sum.nodes_usable += node.usable;
  sum.nodes_busy += node.busy != NodeBusy::kIdle;
  sum.cores += node.cores;
  sum.cores_used += node.cores_used;
  sum.devices += node.devices;
  sum.devices_used += node.devices_used;
  sum.memory_mb += node.memory_mb;
  sum.memory_used_mb += node.memory_used_mb;
}

ClusterFacts cluster_facts(const Tables& tables) {
  ClusterFacts sum;
  const auto uses = node_uses(tables);
  for (const auto& [id, node] : tables.nodes) {
    const auto at = uses.find(id);
    add(sum, node_facts(*node, at == uses.end() ? NodeUse{} : at->second));
  }
  return sum;
}

}  // namespace lockstep
