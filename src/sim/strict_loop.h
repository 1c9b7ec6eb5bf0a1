// The loop of RLScheduler (SC'20): it picks one job at a time; a picked job that does not fit blocks all others until
// it does, apart from backfilling in order of arrival before a shadow time that is found once, when the block begins.
// One flat pool. The limits of the logs it is used with are the run times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "sim/queue_trace.h"

namespace lockstep::sim {

class StrictPolicy {
 public:
  virtual ~StrictPolicy() = default;
  virtual void joined(std::size_t) {}
  virtual void left(std::size_t) {}
  virtual double score(std::size_t job) const = 0;  // the smallest is picked, the earliest in the log of equal ones
};

// Starts by place in the log. Errors (kImpossible): a job larger than the pool.
Result<std::vector<std::int64_t>> run_strict_loop(std::span<const TraceJob> jobs, std::int64_t procs, bool backfill,
                                                  StrictPolicy& policy);

}  // namespace lockstep::sim
