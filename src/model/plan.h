// What the planner proposes and what it has to say. A plan returns to the core as a command; the core re-checks every
// hard rule before it commits, so a stale plan costs time and nothing else.
#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "model/allocation.h"
#include "model/meta.h"

namespace lockstep {

struct Packing;

struct PlannedStart {
  JobId job;                // for an array: the array's record
  bool is_element = false;  // with array_index: start this waiting element
  std::uint32_t array_index = 0;
  Seq read = 0;  // the job's seq that the planner saw
  std::string partition;
  std::vector<Grant> grants;  // rank order
  Duration limit;             // with JobSpec::time_min: the time limit it starts under; 0 = the job's
};

// A running elastic job gives up what it has on these nodes and stays.
struct PlannedShrink {
  JobId job;
  std::vector<NodeId> nodes;
};

// Victims have to go so that the job can start on `grants`, which are kept for it from then on (Promise::held). Whole
// or not at all: either every victim may be preempted by the job, and the place is free once they are gone, or nobody
// is.
struct PlannedPreemption {
  JobId job;
  Seq read = 0;
  std::string partition;
  std::vector<Grant> grants;
  std::vector<JobId> victims;
  std::vector<PlannedShrink> shrinks;  // victims that go in part; none of them is in victims
};

// What a waiting job is promised from now on; without grants: nothing any more.
struct PlannedPromise {
  JobId job;
  Promise promise;
};

// More for a running elastic group. Grants are in rank order and follow those it has.
struct PlannedGrowth {
  JobId job;
  Seq read = 0;
  std::vector<Grant> grants;
};

// A suspended job goes on where it was.
struct PlannedResume {
  JobId job;
  Seq read = 0;
};

// What packing goes by from now on; refused when the record is another one by now.
struct PlannedPacking {
  Seq read = 0;  // of the record that it follows; 0: there was none
  Ref<Packing> packing;
};

struct Plan {
  std::vector<PlannedStart> starts;  // this and all that follows: each whole, applied or refused on its own
  std::vector<PlannedPreemption> preemptions;
  std::vector<PlannedPromise> promises;
  std::vector<PlannedGrowth> growths;
  std::vector<PlannedResume> resumes;
  std::vector<PlannedPacking> packings;  // at most one
  bool empty() const {
    return starts.empty() && preemptions.empty() && promises.empty() && growths.empty() && resumes.empty() &&
           packings.empty();
  }
};

// Why a pending job waits, in the planner's eyes; with Hold these are Slurm's reasons.
enum class Wait : unsigned char {
  kNone,
  kPriority,
  kResources,
  kNodesUnavailable,
  kPartitionDown,
  kPartitionTimeLimit,
  kPartitionNodeLimit,
  kBadConstraints,
  kReservation,
  kLicenses,
  kLimit,  // an account's, association's, QOS' limit or a quota; detail is Slurm's word for it (rules/limits.h)
};

struct PlanNote {
  JobId job;
  Wait wait = Wait::kNone;
  std::string detail;      // "UnavailableNodes:n[3-4]"
  Instant expected_start;  // 0 = unknown
  std::vector<NodeId> expected_nodes;
};

struct PlanChunk : Plan {
  Instant at;
  std::vector<PlanNote> notes;  // changed since the last chunk; not part of the command
  bool more = false;            // the pass is not finished: call again
};

struct PlanBudget {
  std::uint32_t jobs = 256;  // pending jobs looked at in this slice
  std::uint32_t starts = 256;
};

}  // namespace lockstep
