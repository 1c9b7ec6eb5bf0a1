// The order in which the planner considers the waiting jobs, for people who ask who is before them.
#pragma once

#include <span>
#include <vector>

#include "base/time.h"
#include "model/change.h"

namespace lockstep {

// What puts a job before another one.
struct Ahead {
  enum class Why : unsigned char { kTier, kPriority, kTurn } why = Why::kTurn;
  JobId job;
};

// The queued jobs before this one, first to last; empty when it is not queued. snapshot: every record.
std::vector<Ahead> jobs_ahead(std::span<const Change> snapshot, Instant now, JobId job);

}  // namespace lockstep
