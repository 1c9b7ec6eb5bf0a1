// Jobs as users handle them: naming one or some elements of an array, and what may be asked of a job from outside.
#pragma once

#include <string>
#include <vector>

#include "core/txn.h"

namespace lockstep {

// --- commands ---
Result<Answer> submit_job(Txn& txn, const SubmitJob& ask);
Result<Answer> submit_run(Txn& txn, const SubmitJob& ask);  // also of a health check
Result<void> cancel_job(Txn& txn, const CancelJob& ask);
Result<void> hold_job(Txn& txn, const HoldJob& ask);
Result<void> release_job(Txn& txn, const ReleaseJob& ask);
Result<void> requeue_job(Txn& txn, const RequeueJob& ask);
Result<Answer> update_job(Txn& txn, const UpdateJob& ask);

// --- parts ---
struct Targets {
  Ref<Job> named;              // the record the target's id names
  bool whole = true;           // not only some elements
  IntervalSet waiting;         // addressed elements without a record of their own
  std::vector<JobId> records;  // addressed records: the job itself, or elements; not an array's own
  // Set: there are more than one command takes; its next part begins at this element.
  std::optional<std::uint64_t> next;
};
// Finds what a target names, and that the caller may change it. Of an array's elements only those this part of the
// command is for (Txn::part).
Result<Targets> find_targets(const Txn& txn, const JobTarget& target);
// Records of all that is addressed, new ones for elements that had none; of very many, for those this part takes.
Result<std::vector<JobId>> records_for(Txn& txn, Targets& targets);
Result<void> may_change(const Txn& txn, const Job& job);
// Whether the caller may act on the job: its owner and administrators, root of a node on what the node holds.
bool may_act(const Caller& caller, const Job& job);

// What is wrong with a spec, before it becomes a job or a new version of one. as_before: the job's present spec when it
// is updated; what has not changed is not checked against limits that came later.
Result<void> check_spec(const Txn& txn, const JobSpec& spec, const JobSpec* as_before);
// Fills in Job::turn and predicted from what waits and what is known now.
void place_among_equals(Txn& txn, Job& job);
Duration planned_limit(const Txn& txn, const JobSpec& spec);  // in the first partition it asks for

// Ends a pending job. Of an array's own record: drops what is waiting; it ends when its elements have.
void end_pending(Txn& txn, const Job& job, JobState state, const std::string& reason, UserId by = {});

// Cancels whatever state the job is in.
void cancel_whole(Txn& txn, JobId id, UserId by);

}  // namespace lockstep
