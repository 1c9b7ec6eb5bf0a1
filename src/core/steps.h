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

// Where nothing of the attempt lives any more the parts of its steps are over; if the job is `over`, all of them are.
// From where Chores::sweeps says, as far as the command may work. False: it was cut there.
bool sweep_steps(Txn& txn, const Job& job, bool over);

// srun outside an allocation: step 0, created in the same command as the start. The job is kStarting.
void start_first_step(Txn& txn, const Job& job, Ref<StepSpec> spec);

// The job runs now: launches waiting steps that fit.
void start_waiting_steps(Txn& txn, JobId job);
// The same where something of the allocation became free. In a wide one the next Tick does it: each node where a step
// ends says so, and a look is at all of them.
void there_is_room(Txn& txn, JobId job);
void start_in_roomier(Txn& txn);

// The node has had steps below `next` of the current attempt, and would take these for them: ends those that were made
// in this epoch, before it had said so.
void refuse_used_steps(Txn& txn, const Job& job, NodeId node, StepNo next);

// The job goes on after a pause, in which nothing started: launches steps that are due, and waiting ones that fit.
void start_late_steps(Txn& txn, JobId job);

}  // namespace lockstep
