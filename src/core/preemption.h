// Running jobs that make room, pause, and save their work.
//
// A preemption is one decision: a place is kept for the waiting job (Promise::held) and every victim gets an Eviction.
// The place is given up when the job starts, is cancelled, held or changed, or when a node of the place can no longer
// be used (Txn::put); victims that still run then stay (pardon_victims).
#pragma once

#include <map>

#include "core/refusal.h"
#include "core/txn.h"

namespace lockstep {

// --- parts of a plan: applied whole, or refused ---
// places: those that the same plan keeps for its victims (PlannedPromise). With a place for every one of them it is a
// move (rules/preempt.h): the victims need not be preemptable, and each keeps its new place until it starts there.
// Should that be lost before it has stopped, the whole move is off.
using NewPlaces = std::map<JobId, const Promise*>;
Refusal apply_preemption(Txn& txn, const PlannedPreemption& planned, const NewPlaces& places);
Refusal apply_promise(Txn& txn, const PlannedPromise& planned);
Refusal apply_resume(Txn& txn, const PlannedResume& planned);

// A place is kept for it, which nobody else may take.
bool has_kept_place(const Job& job);
// Told to go, with a place that is kept for it.
bool is_moving(const Job& job);

// Whether these grants leave alone the places that are kept for other waiting jobs, once all that is about to go has
// gone.
bool spares_kept_places(const Txn& txn, JobId self, const std::vector<Grant>& grants);

// The node has carried out an order to pause or to go on. What a paused job had there is free from now on.
void member_paused(Txn& txn, const Job& job, NodeId node, const MemberPaused& report);

// The grace of an evicted job is over.
void evict(Txn& txn, const Job& job);
// No place is kept for the job any more: those that were to make room for it and still run stay.
void pardon_victims(Txn& txn, JobId by);
// The node can no longer be used, so no place there is kept for anybody.
void drop_holds_on(Txn& txn, NodeId node);

// --- commands ---
Result<void> suspend_job(Txn& txn, const SuspendJob& ask);
Result<void> resume_job(Txn& txn, const ResumeJob& ask);
// Owner, administrator, or the job itself: its present state is saved. A job that was told to save its work before it
// goes need not wait for the end of its grace.
Result<void> mark_checkpoint(Txn& txn, const MarkCheckpoint& ask);
// The same for a running or suspended job, as of that moment.
void note_checkpoint(Txn& txn, const Job& job, Instant at);

}  // namespace lockstep
