// Steps: launches inside an allocation. Which cores and devices of the allocation each one uses, and how it ends.
#pragma once

#include "core/txn.h"

namespace lockstep {

Result<Answer> create_step(Txn& txn, const Caller& caller, const CreateStep& ask);
Result<void> signal_step(Txn& txn, const Caller& caller, const SignalStep& ask);

// The node's word. The job has an allocation, the attempt is the current one, the node is one of its members.
void on_step_started(Txn& txn, NodeId node, const Job& job, const StepStarted& report, Instant at);
void on_step_ended(Txn& txn, NodeId node, const Job& job, const StepEnded& report, Instant at);

// Its parts are to end, wherever they are: by a request, or because a task of it failed.
bool is_told_to_end(const Step& step);

// Ends the parts of the job's steps on nodes where nothing of the attempt lives any more; if the job is `over`, all of
// them. It begins where Chores::sweeps says. False: the command is tired, and it is noted there where to go on.
bool sweep_steps(Txn& txn, const Job& job, bool over);

// srun outside an allocation: step 0, created in the same command as the start. The job is kStarting.
void start_first_step(Txn& txn, const Job& job, Ref<StepSpec> spec);

// The job runs now: launches waiting steps that fit.
void start_waiting_steps(Txn& txn, JobId job);
// Something of the allocation became free: launches waiting steps that fit. In a wide job the next Tick does it, since
// every node where a step ends comes here, and to look for room is to look at all nodes.
void there_is_room(Txn& txn, JobId job);
void start_in_roomier(Txn& txn);

// The node says that it has had all steps of the current attempt below `next`. It would take new ones with these
// numbers for the old ones, so those that were made in this epoch, before it had said so, end.
void refuse_used_steps(Txn& txn, const Job& job, NodeId node, StepNo next);

// The job goes on after a pause, in which nothing started: launches steps that are due, and waiting ones that fit.
void start_late_steps(Txn& txn, JobId job);

}  // namespace lockstep
