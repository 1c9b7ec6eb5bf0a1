// What the planner proposes and what it has to say. A plan returns to the core as a command; the core re-checks every
// hard rule before it commits, so a stale plan costs time and nothing else.
#pragma once

#include <string>
#include <vector>

#include "model/job.h"

namespace lockstep {

struct PlannedStart {
  JobId job;                // for an array: the array's record
  bool is_element = false;  // with array_index: start this waiting element
  std::uint32_t array_index = 0;
  Seq read = 0;  // the job's seq that the planner saw
  std::string partition;
  std::vector<Grant> grants;  // rank order
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

struct PlanChunk {
  Instant at;
  std::vector<PlannedStart> starts;  // each whole, applied or refused on its own
  std::vector<PlanNote> notes;       // changed since the last chunk; not part of the command
  bool more = false;                 // the pass is not finished: call again
};

struct PlanBudget {
  std::uint32_t jobs = 256;  // pending jobs looked at in this slice
  std::uint32_t starts = 256;
};

}  // namespace lockstep
