// Job logs for the queue simulators: what was asked for, when, and how long it really ran.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/trace_file.h"

namespace lockstep::sim {

struct TraceJob {
  std::int64_t id = 0;
  std::int64_t size = 1;      // processors or GPUs
  std::int64_t limit_s = 1;   // asked for, at least run_s
  std::int64_t run_s = 1;     // known to the simulator, and to policies only once the job has ended
  std::int64_t submit_s = 0;  // as in the log
  std::string user;           // empty: the log does not say
  std::optional<std::int64_t> published_start_s;
};

// SWF records that are no jobs to run, by the first reason that holds. -1, as any negative number, means "not known".
struct LeftOut {
  std::size_t parts = 0;      // status 2, 3 or 4: a piece of a job that has a record of its own for the whole
  std::size_t no_submit = 0;  // without a time of submission
  std::size_t no_run = 0;     // without a run time, or with none: mostly cancelled before they ran
  std::size_t no_size = 0;    // without processors
  std::size_t all() const { return parts + no_submit + no_run + no_size; }
};
// "12 records left out: 10 without a run time, 2 without a size"; "" when none was.
std::string words_of(const LeftOut& left_out);

struct QueueTrace {
  std::vector<TraceJob> jobs;  // by submission, equal ones as in the log
  LeftOut left_out;
};

// CSV: columns id, procs or gpus, reqtime, run, submit, and where there are any vc or user, and pub_start. SWF: size is
// the larger of fields 5 and 8, the limit field 9 (field 4 where it is not given), the user field 12. A limit below
// the run time is raised to it. Errors: TraceFile's, with line and field; kInvalid when there is no usable job.
Result<QueueTrace> read_queue_trace(const std::string& path);
Result<QueueTrace> read_queue_trace(TraceFile file);

// A part of a log as a log of its own, and one with its submit times stretched.
Result<std::vector<TraceJob>> window_of(const std::vector<TraceJob>& jobs, std::size_t start, std::size_t count);
std::vector<TraceJob> scaled(std::vector<TraceJob> jobs, double factor);

}  // namespace lockstep::sim
