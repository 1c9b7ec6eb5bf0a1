// Sums over the tables: what is taken on each node, how many jobs are in each state.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "model/tables.h"
#include "views/read_context.h"

namespace lockstep {

// What allocations hold, by node; nodes that hold nothing are absent. An allocation counts whole until its job ends.
std::map<NodeId, NodeUse> node_uses(const Tables& tables);
NodeUse node_use(const Tables& tables, NodeId node);

inline constexpr std::size_t kJobStates = static_cast<std::size_t>(JobState::kBootFail) + 1;

// Of an array, every element counts: the waiting ones from its record, the others by themselves.
struct StateCounts {
  std::array<std::uint64_t, kJobStates> by_state{};
  std::uint64_t of(JobState state) const { return by_state[static_cast<std::size_t>(state)]; }
  std::uint64_t total() const;
  std::uint64_t unfinished() const;
};
StateCounts count_jobs(const Tables& tables);

enum class NodeBusy : unsigned char { kIdle, kMixed, kFull };
struct NodeFacts {
  std::uint32_t cores = 0, cores_used = 0;
  std::uint32_t devices = 0, devices_used = 0;
  std::int64_t memory_mb = 0, memory_used_mb = 0;
  NodeBusy busy = NodeBusy::kIdle;
  bool usable = false;  // node_usable: up and not drained
};
NodeFacts node_facts(const Node& node, const NodeUse& use);

// Over all nodes: what there is, what usable nodes have, what is taken.
struct ClusterFacts {
  std::uint32_t nodes = 0, nodes_usable = 0, nodes_busy = 0;
  std::uint64_t cores = 0, cores_used = 0, devices = 0, devices_used = 0;
  std::int64_t memory_mb = 0, memory_used_mb = 0;
};
void add(ClusterFacts& sum, const NodeFacts& node);
ClusterFacts cluster_facts(const Tables& tables);

}  // namespace lockstep
