// Victims: which running jobs have to go so that one blocked job can start, and where it will be. Looks for the set
// that loses the least (rules/preempt.h); a victim spanning many nodes is lost once, however many of them are used.
//
// Members of one size on any nodes: each node by itself is a small covering problem, solved exactly up to a bound;
// nodes are then taken in the order of what they still cost beside the victims chosen already (set cover's greedy, with
// prices as they are and with prices shared among the nodes a victim would free), and what turns out not to be needed
// is left alone. With few candidates every set is tried, so up to kTryAll the answer is exact; beyond, tests hold it
// to 1.5 times the least (victims_test.cpp; on random small clusters of up to 13 candidates it was never above the
// least). Other shapes: the cheapest by loss per device until it fits, then as many of them as possible left alone.
#pragma once

#include <optional>
#include <vector>

#include "model/plan.h"
#include "rules/preempt.h"
#include "sched/shadow.h"

namespace lockstep {

struct Victim {
  const Job* job = nullptr;
  PreemptLoss loss;
  bool keeps_memory = false;  // it would be suspended
  NodeId only;                // it gives up what it has on this node and stays; 0 = all of it goes
};

struct VictimChoice {
  std::vector<Grant> grants;
  std::vector<JobId> victims;  // ascending; both empty: it fits once those who go anyway have gone
  std::vector<PlannedShrink> shrinks;
  PreemptLoss loss;
};

inline constexpr std::size_t kTryAll = 10;

// candidates: who may be preempted, in the order of ids; a job is there whole or in parts, of which any may go. going:
// jobs that are about to leave anyway. Nodes that a job of this key and end must leave to heads before it are not
// touched.
std::optional<VictimChoice> choose_victims(PlannerView& view, const JobSpec& spec, const Way& way,
                                           const std::vector<Victim>& candidates, const std::vector<const Job*>& going,
                                           const Shadows& shadows, const Avoid& avoid);

}  // namespace lockstep
