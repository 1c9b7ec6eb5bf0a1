// What the history store still knows of jobs that ended, for predictions after a restart.
#pragma once

#include <vector>

#include "core/cluster.h"
#include "ports/history.h"

namespace lockstep {

inline constexpr std::size_t kPastRunsMost = 20'000;

// The oldest first. Those whose user is gone teach nothing.
Result<std::vector<PastRun>> past_runs(HistoryStore& history, const Tables& tables, std::size_t most = kPastRunsMost);

}  // namespace lockstep
