// Accounting in one SQLite file: a row for each run of a job, a row for each step, and the cursor into the log, all
// moved forward in one transaction. Synced at every commit, because the log is trimmed behind the cursor.
#pragma once

#include <memory>
#include <string>

#include "ports/history.h"

namespace lockstep {

// A query that takes more steps of SQLite's machine than this is given up: some ten seconds of one thread.
inline constexpr std::int64_t kQueryStepsMax = 400'000'000;

// Refuses a file that is not ours, like the log. vfs "" = SQLite's own.
Result<std::unique_ptr<HistoryStore>> open_sqlite_history(const std::string& path, const std::string& vfs = {},
                                                          std::int64_t query_steps_max = kQueryStepsMax);

}  // namespace lockstep
