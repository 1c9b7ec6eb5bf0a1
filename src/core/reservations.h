// Reservations: making, changing and removing them, choosing their nodes, and what happens when one is over.
#pragma once

#include "core/txn.h"

namespace lockstep {

Result<Answer> put_reservation(Txn& txn, const PutReservation& ask);
Result<void> remove_reservation(Txn& txn, const RemoveReservation& ask);

// The pending job names it no more.
void forget_reservation(Txn& txn, JobId id, const std::string& name);

// Removes reservations whose last window is over, or that were given up for being unused.
void end_reservations(Txn& txn);
// A job that used a reservation has ended: it may be unused from now on.
void note_unused(Txn& txn, const Job& job);
// The node takes no work any more: reservations that may replace it do.
void replace_reserved(Txn& txn, const std::string& node);

// When a job that runs in a reservation has to be over because the window is, whatever its limit says; kNever. Windows
// may be cut while jobs run in them: what runs stays until then, as in Slurm with ResvOverRun=0.
Instant reservation_end(const ClusterState::Inner& inner, const Job& job);

// When end_reservations() has something to do next; kNever.
Instant reservations_due(const ClusterState::Inner& inner);

}  // namespace lockstep
