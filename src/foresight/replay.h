// Replay: a cluster's own history once more: the recorded submissions, with the run times they turned out to have, on
// the recorded nodes, through the real core and the real planner under a virtual clock; as things were or with changes.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/foresight.h"
#include "model/history.h"
#include "model/tables.h"

namespace lockstep {

struct ReplayedJob {
  JobId id;                                  // as recorded
  std::int64_t submitted_s = 0;              // wall clock; when it could have started
  std::int64_t ran_s = 0;                    // at least 1
  std::int64_t limit_s = 0;                  // asked for; 0 = none
  std::int64_t recorded_s = 0, start_s = 0;  // starts: then, and now
  std::uint32_t nodes = 0, cores = 0, devices = 0;
  std::string user;
};

struct Replay {
  std::vector<ReplayedJob> jobs;                        // by submission
  std::uint64_t cores = 0, devices = 0;                 // of the cluster, with the changes
  std::vector<std::pair<JobId, std::string>> left_out;  // and why
};

// rows: runs of jobs as history has them (steps are passed over). tables: the cluster as it is now; its jobs, past use
// and reservations are not part of the replay. Errors: a change that is refused; no usable job.
Result<Replay> replay(const Tables& tables, std::span<const JobRow> rows, std::span<const ChangeAsk> changes);

// The same, as things were and with the changes, in figures.
Result<WhatIfPast> what_if_past(const Tables& tables, std::span<const JobRow> rows, std::span<const ChangeAsk> changes);

// The job that a row tells of, as far as it tells: counts per node, not which options asked for them.
JobSpec spec_of(const JobRow& row, const Tables& tables);

}  // namespace lockstep
