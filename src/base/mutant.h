// Planted bugs. Only lockstep-sim plants one, for a whole run, and the chaos checkers must catch it; no other program
// writes `planted`. They are in every build, so that what is proven is what is shipped: a test costs one load and one
// compare. Each name says the rule that is broken.
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
  kOversizeAccepted,    // records beyond their bound are committed, and handed to the log whole
  kLateQuarantine,      // what is being done is forgotten before the append, so that who dies there dies again
  kEpochIgnored,        // work starts on nodes that have not answered since the controller did
  kLongValueForgotten,  // long values go although an entry, or the snapshot, names them
  kStaleTermAccepted,   // the log takes what a controller writes that another one has replaced
  kAppendedTwice,       // what waits for an append that failed is answered, and applied once more
  kAnsweredTwice,       // who waits for an append that ends late is answered before it, too
  kStaleReading,        // a command is taken although what it rests on has changed
  kGoneBeforeStopped,   // a deleted object goes before its work has ended
  kOwnSilence,          // time in which the controller did not run counts as its nodes' silence
  kHealthStaysOpen,     // what a health check finds bad takes work all the same
  kHealthOpensDrained,  // a health check that passes opens what an administrator drained
  kSimulatedEnd,
  // Caught by the simulation of Kubernetes' API (simulate/kube).
  kWatchEventLost,     // a watch that has several changes to tell leaves the first one out
  kWatchEventTwice,    // a watch tells its last event again when it goes on
  kWatchFarewellLost,  // who watches by labels is not told of what does not match any more
  kListOlderThanTold,  // a list shows what was there before the last change
  kPageOfNow,          // the pages of one list show different moments
  kStatusAhead,        // a pod counts as running before its node has said so
  kOrphanLeft,         // what depends on a deleted object is not looked at
  kPodOnTwoNodes,      // a pod whose node is lost starts again on another one
  kQuotaOverrun,       // what is made counts itself in a quota, whatever the quota has become meanwhile
  kStaleController,    // a controller's command does not say what it rests on
  kFinalizerIgnored,   // a deletion without grace does not wait for finalizers
  kUpdateLost,         // an update does not look whether another one came first
  kOrdinalsAtOnce,     // a StatefulSet's pods do not wait for those before them
  kEvictedOverBudget,  // an eviction takes from a disruption budget as it was read
  kKubeEnd,
  // Planted by the unit test of the check that must see them: the simulation has no processes, files or certificates.
  kLaneStarved,          // root and the nodes have no connections of their own when strangers hold all others
  kForeignDirectory,     // a directory that is not ours is taken for a state directory, and emptied
  kRevokedCertificate,   // a node's certificate is not compared with the one that counts
  kStaleGroup,           // a user's groups are read once
  kWatchLeak,            // a watcher whose client has left is still woken
  kInheritedDescriptor,  // a task keeps what the agent had open
};

inline constinit Mutant planted = Mutant::kNone;
inline bool mutant(Mutant m) { return planted == m; }

}  // namespace lockstep
