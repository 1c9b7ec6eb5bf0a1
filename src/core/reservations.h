// Reservations: making, changing and removing them, choosing their nodes, and what happens when one is over.
#pragma once

#include "core/txn.h"

namespace lockstep {

Result<Answer> put_reservation(Txn& txn, const PutReservation& ask);
Result<void> remove_reservation(Txn& txn, const RemoveReservation& ask);

// Removes reservations whose last window is over, or that were given up for being unused.
void end_reservations(Txn& txn);
// A job that used a reservation has ended: it may be unused from now on.
void note_unused(Txn& txn, const Job& job);
// The node takes no work any more: reservations that may replace it do.
void replace_reserved(Txn& txn, const std::string& node);

// When end_reservations() has something to do next; kNever.
Instant reservations_due(const ClusterState::Inner& inner);

}  // namespace lockstep
