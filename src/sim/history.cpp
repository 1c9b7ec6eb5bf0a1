#include "sim/history.h"

#include <algorithm>

#include "model/job.h"

namespace lockstep::sim {

Result<void> SimHistory::take(std::uint64_t index, std::span<const Change> changes, const Tables&) {
  const CommitFault fault = draw_fault ? draw_fault() : CommitFault::kNone;
  if (fault == CommitFault::kFails || fault == CommitFault::kFailsYetWritten)
    return Error{Errc::kIo, "the simulated history disk failed", {}};
  if (fault == CommitFault::kCrashBeforeWrite || fault == CommitFault::kCrashBeforeSync)
    throw Crash{};
  if (index <= cursor_)
    verdict_.fail(format("history was handed entry {} again; it is at {}", index, cursor_));
  if (index > log_.durable_index())
    verdict_.fail(format("history was handed entry {}, which is not durable", index));
  for (const Change& change : changes) {
    if (!seen_.empty() && change.seq <= seen_.back())
      verdict_.fail(format("history saw change {} after change {}", change.seq, seen_.back()));
    seen_.push_back(change.seq);
    if (const auto* job = std::get_if<Ref<Job>>(&change.record); job && !change.removed) {
      JobRow& row = rows_[(*job)->id];
      row.job = (*job)->id;
      row.attempt = (*job)->attempt;
      row.name = (*job)->spec->name;
      row.exit_code = (*job)->exit.code;
      row.exit_signal = (*job)->exit.signal;
    }
  }
  cursor_ = index;
  if (fault != CommitFault::kNone)
    throw Crash{};
  return {};
}

Result<std::vector<JobRow>> SimHistory::query(const HistoryQuery& query) {
  std::vector<JobRow> out;
  for (const auto& [id, row] : rows_) {
    const bool named =
        query.names.empty() || std::find(query.names.begin(), query.names.end(), row.name) != query.names.end();
    const bool asked =
        query.jobs.empty() || std::any_of(query.jobs.begin(), query.jobs.end(),
                                          [&row = row](const JobTarget& target) { return target.job == row.job; });
    if (named && asked && out.size() < query.limit)
      out.push_back(row);
  }
  return out;
}

void SimHistory::finish(const std::vector<Seq>& committed) {
  if (seen_ == committed)
    return;
  const auto [a, b] = std::mismatch(seen_.begin(), seen_.end(), committed.begin(), committed.end());
  verdict_.fail(format("history has {} changes, {} were committed; they differ at {}: it has {}, committed is {}",
                       seen_.size(), committed.size(), a - seen_.begin(), a == seen_.end() ? 0 : *a,
                       b == committed.end() ? 0 : *b));
}

}  // namespace lockstep::sim
