// When time alone changes something: each job's timers, and what happens when they are due.
#pragma once

#include <vector>

#include "core/txn.h"

namespace lockstep {

// Follows from the job's record, the jobs it depends on and the wall clock alone.
std::vector<Timer> timers_of(const ClusterState::Inner& inner, const Job& job);

// Of the first command after a controller's return that shows how long it was away: writes that down. False: it was
// known.
bool see_return(Txn& txn);

// Acts on timers that are due, the earliest first; at most a bounded number, so that one command stays small.
void tick(Txn& txn);
void set_wall_offset(Txn& txn, Duration offset);

// The time limit of a run in this partition; kForever without one.
Duration limit_of(const JobSpec& spec, const Partition* partition, const CoreSettings& settings);

}  // namespace lockstep
