// How far a job has come.
#pragma once

namespace lockstep {

// PENDING ──start──▶ STARTING ──first member runs──▶ RUNNING ──end──▶ COMPLETING ──all members stopped──▶ a final state
//    ▲                                                                     │
//    └──────────────────────── requeue (next attempt) ◀────────────────────┘
// PENDING may also go straight to CANCELLED, DEADLINE or (dependency) FAILED. SUSPENDED swaps with RUNNING.
enum class JobState : unsigned char {
  kPending,
  kStarting,
  kRunning,
  kSuspended,
  kCompleting,
  kCompleted,
  kFailed,
  kCancelled,
  kTimeout,
  kNodeFail,
  kPreempted,
  kOutOfMemory,
  kDeadline,
  kBootFail,
};
bool is_final(JobState state);
bool holds_allocation(JobState state);  // kStarting … kCompleting
bool legal_transition(JobState from, JobState to);

// Why a pending job does not start, as far as the core itself knows. The planner's reasons are PlanNotes.
enum class Hold : unsigned char {
  kNone,
  kUser,
  kAdmin,
  kRequeueLimit,
  kDependency,
  kDependencyNever,
  kBeginTime,
  kArrayThrottle,
  kLaunchFailed,
};

}  // namespace lockstep
