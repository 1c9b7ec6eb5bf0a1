// Job: how far what a user asked for has come. Its allocation is granted whole or not at all and is held by one
// attempt; a requeue starts the next attempt under the same id.
#pragma once

#include <vector>

#include "base/interval_set.h"
#include "base/shared.h"
#include "base/time.h"
#include "model/allocation.h"
#include "model/exit_status.h"
#include "model/ids.h"
#include "model/job_state.h"
#include "model/meta.h"
#include "model/preempt_mode.h"
#include "model/spec.h"
#include "model/work_use.h"

namespace lockstep {

// A running job that has to go for another one.
struct Eviction {
  JobId by;                                  // whom it makes room for; 0: nobody, it is suspended and waits for room
  PreemptMode mode = PreemptMode::kRequeue;  // never kCluster, kOff or kGang
  Instant at;                                // when its grace is over
  std::vector<NodeId> nodes;                 // an elastic job gives up what it has there and stays; empty: all of it
  friend bool operator==(const Eviction&, const Eviction&) = default;
};

// The waiting part of a job array. The record stays with the id users know; an element gets an id and a record of its
// own when it starts or diverges.
struct ArrayState {
  IntervalSet asked;           // every index of the submission
  IntervalSet waiting;         // indices without a record of their own; includes cancelled ones until they are dropped
  std::uint32_t throttle = 0;  // %k: how many may run at once; 0 = no bound
  std::uint32_t running = 0;   // elements that have an allocation
  std::uint32_t unfinished = 0;  // elements with a record that have not ended
  std::uint32_t worst_code = 0;  // highest exit code of ended elements
  std::uint32_t step = 1;        // of the a-b:s that was written
  bool cut_short = false;        // some of it left while it waited, without a record that would tell of it
};

struct StepSpec;

struct Job {
  Meta meta;
  JobId id;
  Ref<JobSpec> spec;
  JobState state = JobState::kPending;
  Hold hold = Hold::kNone;
  std::uint64_t priority = 0;  // higher first
  AttemptNo attempt = 0;
  std::uint32_t restarts = 0;     // requeues so far: SLURM_RESTART_COUNT
  std::uint32_t preemptions = 0;  // how many of its attempts were preempted

  Instant submitted, eligible, started, ended;
  Instant limit_end;    // when the time limit strikes; kNever without a limit
  Instant begin_after;  // requeue delay: not before this
  Instant confirm_by;   // when the nodes must have confirmed the last order to start, stop or pause; 0 = nobody asks
  bool warned = false;  // signal_ahead has been sent
  bool staged = false;  // the attempt's first node has what is staged in, and waits for the others
  bool hangs = false;  // a node does not confirm that it has stopped, and was opened all the same: it stays where it is

  Ref<Allocation> allocation;        // set exactly while holds_allocation(state)
  std::vector<MemberState> members;  // one per grant

  JobState ending = JobState::kCompleted;  // while kCompleting: the state to come
  bool requeue_after = false;              // while kCompleting: goes back to kPending instead
  ExitStatus exit;                         // of the batch script, or of the interactive client's choosing
  ExitStatus derived_exit;                 // highest of its steps
  SharedText ran_on;                       // once ended: host list of the last attempt
  SharedText end_reason;                   // "NonZeroExitCode", "TimeLimit", "NodeDown n3", …
  UserId cancelled_by;                     // with kCancelled
  StepNo next_step = 0;
  Ref<WorkUse> script_use;   // of the attempt's script, once it has ended
  Ref<StepSpec> first_step;  // launched with the start: srun outside an allocation

  Instant turn;               // its place among equals (rules/order.h); 0 = the moment of its submission
  Duration predicted;         // how long it will probably run; 0 = not known
  Ref<Promise> promise;       // while it waits
  Ref<Eviction> eviction;     // from the decision until the attempt has ended
  Instant checkpointed;       // the attempt's last saved state; 0 = none
  Instant suspended_at;       // while kSuspended
  Duration suspended_before;  // of the attempt: pauses that are over
  std::uint32_t pauses = 0;   // of the attempt: how often it was told to pause or to go on

  Ref<ArrayState> array;  // set on the array's own record only
  JobId array_job;        // of an element: the array's id
  std::uint32_t array_index = 0;
};

// Whether a part of its attempt is on the node and not proven stopped.
bool is_held_on(const Job& job, NodeId node);

// Whether an array's own record tells something that its elements do not: some of it waits, or was cut off as it waited
// and the array ended so.
bool array_tells(const Job& array);

}  // namespace lockstep
