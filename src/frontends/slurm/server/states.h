// Slurm's words for states and reasons of jobs and nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/plan.h"
#include "model/records.h"
#include "views/reasons.h"
#include "views/selectors.h"

namespace lockstep::slurm {

// "PENDING" and "PD". A starting job is CONFIGURING: it has its nodes, its processes are on their way.
std::string_view slurm_state(JobState state);
std::string_view slurm_state_compact(JobState state);
// The same of a job. One that was told to pause is SIGNALING until all of its nodes have said that it does.
std::string_view slurm_state(const Job& job);
std::string_view slurm_state_compact(const Job& job);
// Position in Slurm's own enumeration, by which squeue sorts.
std::uint32_t slurm_state_order(JobState state);

// "R,PENDING", any case, "all". The error names the word that is no state.
Result<JobStates> parse_slurm_states(std::string_view text);

// What runs on a node, as far as its state needs it.
struct NodeHolding {
  CoreSet cores;
  DeviceSet devices;
  std::int64_t memory_mb = 0;
  std::uint32_t running = 0;     // grants of attempts that are not ending
  std::uint32_t completing = 0;  // grants of attempts that are
  bool whole = false;            // someone holds the node exclusively
  bool planned = false;          // kept for a waiting job
};

enum class NodeCpus : unsigned char { kIdle, kMixed, kAllocated };
NodeCpus node_cpus(const Node& node, const NodeHolding& holding);

// sinfo's %T ("drained*") and %t ("drain*").
std::string slurm_node_state(const Node& node, const NodeHolding& holding);
std::string slurm_node_state_compact(const Node& node, const NodeHolding& holding);
// scontrol's State= ("IDLE+DRAIN", "DOWN*+DRAIN") and the same as the list that JSON shows.
std::string slurm_node_state_flags(const Node& node, const NodeHolding& holding);
std::vector<std::string> slurm_node_state_list(const Node& node, const NodeHolding& holding);

// "UP", "DRAIN" (what waits starts, nothing new is taken), "DOWN" (nothing starts), "INACTIVE" (both); sinfo's %a.
std::string_view partition_state(const Partition& partition);
std::string_view partition_state_short(const Partition& partition);

}  // namespace lockstep::slurm
