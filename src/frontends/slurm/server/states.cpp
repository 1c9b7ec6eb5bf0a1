// One table for job states, one chain of rules for node states, in the order Slurm asks its questions.
#include "frontends/slurm/server/states.h"

#include <array>

#include "base/items.h"
#include "base/text.h"
#include "model/job.h"

namespace lockstep::slurm {

namespace {

struct StateWords {
  JobState state;
  std::string_view full, compact;
  std::uint32_t order;
};
// In the order of JobState.
constexpr std::array kStates = {
    StateWords{JobState::kPending, "PENDING", "PD", 0},
    StateWords{JobState::kStarting, "CONFIGURING", "CF", 1},
    StateWords{JobState::kRunning, "RUNNING", "R", 1},
    StateWords{JobState::kSuspended, "SUSPENDED", "S", 2},
    StateWords{JobState::kCompleting, "COMPLETING", "CG", 12},
    StateWords{JobState::kCompleted, "COMPLETED", "CD", 3},
    StateWords{JobState::kFailed, "FAILED", "F", 5},
    StateWords{JobState::kCancelled, "CANCELLED", "CA", 4},
    StateWords{JobState::kTimeout, "TIMEOUT", "TO", 6},
    StateWords{JobState::kNodeFail, "NODE_FAIL", "NF", 7},
    StateWords{JobState::kPreempted, "PREEMPTED", "PR", 8},
    StateWords{JobState::kOutOfMemory, "OUT_OF_MEMORY", "OOM", 11},
    StateWords{JobState::kDeadline, "DEADLINE", "DL", 10},
    StateWords{JobState::kBootFail, "BOOT_FAIL", "BF", 9},
};

// States that Slurm has and no job of ours can be in: asked for, they match nothing.
constexpr std::array<std::string_view, 18> kNeverHere = {
    "RESIZING",     "RS", "REQUEUED",  "RQ", "REQUEUE_FED", "RF", "REQUEUE_HOLD", "RH", "RESV_DEL_HOLD", "RD",
    "SPECIAL_EXIT", "SE", "STAGE_OUT", "SO", "STOPPED",     "ST", "REVOKED",      "RV"};

const StateWords& words_of(JobState state) { return kStates[static_cast<std::size_t>(state)]; }

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z')
      c = static_cast<char>(c - 'a' + 'A');
  return out;
}

struct NodeWord {
  std::string_view full, compact;
};

NodeWord node_word(const Node& node, const NodeHolding& holding) {
  const bool busy = holding.running + holding.completing > 0;
  if (node_drained(node))
    return busy ? NodeWord{"draining", "drng"} : NodeWord{"drained", "drain"};
  if (node.link == NodeLink::kLost)
    return {"down", "down"};
  if (holding.completing > 0 && holding.running == 0)
    return {"completing", "comp"};
  switch (node_cpus(node, holding)) {
    case NodeCpus::kAllocated: return {"allocated", "alloc"};
    case NodeCpus::kMixed: return {"mixed", "mix"};
    case NodeCpus::kIdle: break;
  }
  return holding.planned ? NodeWord{"planned", "plnd"} : NodeWord{"idle", "idle"};
}

// The mark behind the word.
std::string_view node_mark(const Node& node, const NodeHolding& holding) {
  if (node.link != NodeLink::kUp)
    return "*";
  if (node_drained(node) || holding.running == 0)
    return "";
  if (holding.completing > 0)
    return "+";
  return holding.planned ? "-" : "";
}

}  // namespace

std::string_view slurm_state(JobState state) { return words_of(state).full; }
std::string_view slurm_state_compact(JobState state) { return words_of(state).compact; }

std::string_view slurm_state(const Job& job) { return is_pausing(job) ? "SIGNALING" : slurm_state(job.state); }
std::string_view slurm_state_compact(const Job& job) { return is_pausing(job) ? "SI" : slurm_state_compact(job.state); }
std::uint32_t slurm_state_order(JobState state) { return words_of(state).order; }

Result<JobStates> parse_slurm_states(std::string_view text) {
  JobStates set;
  for (const std::string& part : items_of(text)) {
    const std::string name = upper(trim(part));
    bool known = name == "ALL";
    for (const StateWords& words : kStates)
      if (known && name == "ALL")
        set.add(words.state);
      else if (name == words.full || name == words.compact)
        set.add(words.state), known = true;
    if (name == "SIGNALING" || name == "SI")
      set.add_pausing(), known = true;
    for (const std::string_view never : kNeverHere) known |= name == never;
    if (!known)
      return invalid(format("Invalid job state specified: {}", part), "states");
  }
  return set;
}

NodeCpus node_cpus(const Node& node, const NodeHolding& holding) {
  const std::uint32_t held = holding.cores.count();
  if (holding.whole || (held > 0 && held >= node.cores))
    return NodeCpus::kAllocated;
  return holding.running + holding.completing > 0 ? NodeCpus::kMixed : NodeCpus::kIdle;
}

std::string slurm_node_state(const Node& node, const NodeHolding& holding) {
  return format("{}{}", node_word(node, holding).full, node_mark(node, holding));
}
std::string slurm_node_state_compact(const Node& node, const NodeHolding& holding) {
  return format("{}{}", node_word(node, holding).compact, node_mark(node, holding));
}

std::vector<std::string> slurm_node_state_list(const Node& node, const NodeHolding& holding) {
  std::vector<std::string> out;
  if (node.link == NodeLink::kLost)
    out.emplace_back("DOWN");
  else
    switch (node_cpus(node, holding)) {
      case NodeCpus::kAllocated: out.emplace_back("ALLOCATED"); break;
      case NodeCpus::kMixed: out.emplace_back("MIXED"); break;
      case NodeCpus::kIdle: out.emplace_back("IDLE"); break;
    }
  if (node_drained(node))
    out.emplace_back("DRAIN");
  if (holding.completing > 0)
    out.emplace_back("COMPLETING");
  if (holding.planned && holding.running + holding.completing == 0 && node_usable(node))
    out.emplace_back("PLANNED");
  if (node.link != NodeLink::kUp)
    out.emplace_back("NOT_RESPONDING");
  return out;
}

std::string slurm_node_state_flags(const Node& node, const NodeHolding& holding) {
  return join(slurm_node_state_list(node, holding), "+");
}

std::string_view partition_state(const Partition& partition) {
  return partition.up ? (partition.closed ? "DRAIN" : "UP") : (partition.closed ? "INACTIVE" : "DOWN");
}

std::string_view partition_state_short(const Partition& partition) {
  return partition.up ? (partition.closed ? "drain" : "up") : (partition.closed ? "inact" : "down");
}

}  // namespace lockstep::slurm
