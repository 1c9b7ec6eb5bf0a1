// When a pending job may be looked at: its holds, its begin time and what it depends on.
#pragma once

#include <optional>

#include "core/txn.h"

namespace lockstep {

// What keeps a pending job waiting when no user, administrator or limit holds it.
Hold natural_hold(const Txn& txn, const Job& job);

// Gives a pending job its natural hold; cancels it where its dependencies can never be satisfied and it asked for that.
// Array elements whose counterpart has ended (aftercorr) go on by themselves.
void settle_hold(Txn& txn, JobId id);

// A job changed its state: looks again at the jobs that wait for that, now where they are few, else by and by.
void wake_dependents(Txn& txn, JobId id);

// Goes on with what earlier commands left (Chores), as long as this one may work.
void do_chores(Txn& txn);

// When a delay after another job's start is over, if that is still to come; kNever otherwise.
Instant dependency_due(const ClusterState::Inner& inner, const Job& job);

Result<void> check_dependencies(const Txn& txn, const JobSpec& spec, JobId self);

}  // namespace lockstep
