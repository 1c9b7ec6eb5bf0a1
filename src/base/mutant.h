// Planted bugs. In a normal build mutant() is a constant false and vanishes; the mutant build (LOCKSTEP_MUTANTS_ON)
// turns exactly one on at run time, and the chaos checkers must catch it. Each name says the rule that is broken.
#pragma once

namespace lockstep {

enum class Mutant : unsigned char {
  kNone,
  kEarlyAck,            // answers before the log entry is durable
  kSkipFence,           // a lost node's members count as stopped without proof
  kStaleAttempt,        // a report of an older attempt is accepted
  kStaleBoot,           // a report of an older boot is accepted
  kDeviceLeak,          // an ended attempt's devices are not returned
  kPartialGang,         // a start with some grants missing is committed
  kDoubleStart,         // the agent starts an attempt it already ran
  kNoRecheck,           // the core commits a plan without checking that devices are free
  kReuseJobId,          // the next job id is not persisted
  kDropReport,          // the agent forgets a result before it is acknowledged
  kForgetDependents,    // a job's end does not wake its dependents
  kIgnoreLimit,         // a time limit is not enforced
  kLostCancel,          // cancelling a starting job is acknowledged and forgotten
  kFenceFromAck,        // the agent counts its fence from receipt, not from sending
  kTrimBehindReader,    // the log is trimmed before history has read it
  kPublishUncommitted,  // readers see changes of a failed commit
  kNoRequeue,           // a node's loss ends a requeueable job
  kArrayOverThrottle,   // more array elements run than %k allows
  kDoubleFree,          // a member's stop is counted twice
  kSnapshotStale,       // a snapshot claims a newer seq than it holds
  kForgetTopology,      // the core takes a start without asking whether it lies where its groups must
  kPauseUnasked,        // a paused job's cores are free before its nodes have said that it stopped
  kStalePause,          // what a node says of an earlier pause is accepted
  kCount,
};

#ifdef LOCKSTEP_MUTANTS_ON
extern Mutant active_mutant;
inline bool mutant(Mutant m) { return active_mutant == m; }
#else
constexpr bool mutant(Mutant) { return false; }
#endif

}  // namespace lockstep
