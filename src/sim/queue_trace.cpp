// Reading job logs.
#include "sim/queue_trace.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace lockstep::sim {
namespace {

constexpr std::int64_t kSizeMax = 100'000'000;
constexpr std::int64_t kSecondsMax = std::int64_t{100} * 365 * 86400;
constexpr std::int64_t kClockMax = std::int64_t{8'000'000'000};  // Unix time in the year 2223

Result<void> read_csv(TraceFile& file, QueueTrace& trace) {
  const std::size_t id = TRY(file.column("id"));
  const std::size_t size = TRY(file.column(file.has_column("gpus") ? "gpus" : "procs"));
  const std::size_t limit = TRY(file.column("reqtime"));
  const std::size_t run = TRY(file.column("run"));
  const std::size_t submit = TRY(file.column("submit"));
  const char* const who = file.has_column("vc") ? "vc" : file.has_column("user") ? "user" : nullptr;
  const std::size_t user = who ? TRY(file.column(who)) : 0;
  const bool published = file.has_column("pub_start");
  const std::size_t start = published ? TRY(file.column("pub_start")) : 0;
  while (TRY(file.next())) {
    TraceJob job;
    job.id = TRY(file.integer(id));
    job.size = TRY(file.integer(size, 1, kSizeMax));
    job.run_s = TRY(file.integer(run, 0, kSecondsMax));
    job.limit_s = std::max(TRY(file.integer(limit, 0, kSecondsMax)), std::max<std::int64_t>(job.run_s, 1));
    job.submit_s = TRY(file.integer(submit, 0, kClockMax));
    if (who)
      job.user = file.text(user);
    if (published)
      job.published_start_s = TRY(file.integer(start, 0, kClockMax));
    trace.jobs.push_back(std::move(job));
  }
  return {};
}

// Why a record is no job to run; null: it is one.
std::size_t* reason_to_leave(LeftOut& out, const TraceJob& job, std::int64_t status) {
  constexpr std::int64_t kPartGoesOn = 2, kLastPartFailed = 4;
  if (status >= kPartGoesOn && status <= kLastPartFailed)
    return &out.parts;
  if (job.submit_s < 0)
    return &out.no_submit;
  if (job.run_s <= 0)
    return &out.no_run;
  return job.size <= 0 ? &out.no_size : nullptr;
}

// Fields by their numbers in the format less one.
Result<void> read_swf(TraceFile& file, QueueTrace& trace) {
  enum Field : std::size_t { kId, kSubmit, kRun = 3, kAllocated, kAsked = 7, kLimit, kStatus = 10, kUser };
  constexpr std::int64_t kUnknownMin = -kSecondsMax;  // logs hold other negative numbers than -1 too
  while (TRY(file.next())) {
    TraceJob job;
    job.id = TRY(file.integer(kId));
    job.submit_s = TRY(file.integer(kSubmit, kUnknownMin, kClockMax));
    job.run_s = TRY(file.integer(kRun, kUnknownMin, kSecondsMax));
    job.size = std::max(TRY(file.integer(kAllocated, kUnknownMin, kSizeMax)),
                        TRY(file.integer(kAsked, kUnknownMin, kSizeMax)));
    job.limit_s = std::max(TRY(file.integer(kLimit, kUnknownMin, kSecondsMax)), job.run_s);
    const std::int64_t status = TRY(file.integer(kStatus));
    const std::int64_t user = TRY(file.integer(kUser));
    if (std::size_t* reason = reason_to_leave(trace.left_out, job, status)) {
      ++*reason;
      continue;
    }
    if (user >= 0)
      job.user = std::to_string(user);
    trace.jobs.push_back(std::move(job));
  }
  return {};
}

}  // namespace

std::string words_of(const LeftOut& out) {
  const std::pair<std::size_t, std::string_view> rows[] = {
      {out.parts, "parts of jobs that are recorded whole"},
      {out.no_submit, "without a time of submission"},
      {out.no_run, "without a run time"},
      {out.no_size, "without a size"},
  };
  std::vector<std::string> reasons;
  for (const auto& [count, words] : rows)
    if (count > 0)
      reasons.push_back(format("{} {}", count, words));
  return reasons.empty() ? "" : format("{} records left out: {}", out.all(), join(reasons, ", "));
}

Result<QueueTrace> read_queue_trace(TraceFile file) {
  QueueTrace trace;
  if (file.form() == TraceForm::kSwf)
    TRY(read_swf(file, trace));
  else
    TRY(read_csv(file, trace));
  if (trace.jobs.empty())
    return invalid(format("{}: there is no usable job in it", file.name()));
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; });
  return trace;
}

Result<QueueTrace> read_queue_trace(const std::string& path) { return read_queue_trace(TRY(TraceFile::open(path))); }

Result<std::vector<TraceJob>> window_of(const std::vector<TraceJob>& jobs, std::size_t start, std::size_t count) {
  if (count == 0 || start >= jobs.size() || jobs.size() - start < count)
    return invalid(format("there are {} jobs, so no {} of them from number {}", jobs.size(), count, start));
  const auto from = jobs.begin() + static_cast<std::ptrdiff_t>(start);
  return std::vector<TraceJob>(from, from + static_cast<std::ptrdiff_t>(count));
}

std::vector<TraceJob> scaled(std::vector<TraceJob> jobs, double factor) {
  for (TraceJob& job : jobs)
    job.submit_s = static_cast<std::int64_t>(std::llround(static_cast<double>(job.submit_s) * factor));
  return jobs;
}

}  // namespace lockstep::sim
