// HistoryStore: accounting. A reader of the log with a durable cursor; the log is trimmed only behind it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/change.h"
#include "model/command.h"
#include "model/history.h"
#include "model/tables.h"

namespace lockstep {

// A job that ended by itself or by a limit, as far as predictions look at it.
struct EndedRun {
  std::uint32_t uid = 0;
  std::string user, name, partition;
  std::uint32_t cores = 0, devices = 0;
  std::int64_t limit_s = 0;  // as in JobRow
  Duration ran;
};

class HistoryStore {
 public:
  virtual ~HistoryStore() = default;
  virtual Result<std::uint64_t> cursor() = 0;  // log index up to which everything is in
  // Takes the changes of entries up to index in one transaction. tables: the reader's view after them (for names).
  virtual Result<void> take(std::uint64_t index, std::span<const Change> changes, const Tables& tables) = 0;
  virtual Result<std::vector<JobRow>> query(const HistoryQuery& query) = 0;
  // The latest of them, at most so many, the oldest first.
  virtual Result<std::vector<EndedRun>> latest_runs(std::size_t most) = 0;
  // The highest id of a job it knows; 0 = of none. A log that lost its end may know less.
  virtual Result<JobId> highest_job() { return JobId{}; }
  // Ends the rows of jobs that neither are over nor in the tables: the log lost them. They are charged for nothing that
  // nobody knows. How many jobs there were.
  virtual Result<std::size_t> close_lost(const Tables&, WallTime) { return std::size_t{0}; }
  // The log was put back from a backup and knows less than this. Remembered until its jobs are beyond what is here.
  virtual Result<void> note_older_log() { return {}; }
  // At a start, before catching up. If that was noted: ends, once, the runs and steps that those tables do not know,
  // and says what their jobs have had beyond them. What has ended here stays as it is, whatever becomes of it there.
  virtual Result<std::vector<AttemptSeen>> settle_older_log(const Tables&) { return std::vector<AttemptSeen>(); }
};

}  // namespace lockstep
