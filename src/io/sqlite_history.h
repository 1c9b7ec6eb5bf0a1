// Accounting in one SQLite file: a row for each run of a job, a row for each step, and the cursor into the log, all
// moved forward in one transaction. Synced at every commit, because the log is trimmed behind the cursor.
#pragma once

#include <memory>
#include <string>

#include "ports/history.h"

namespace lockstep {

// Refuses a file that is not ours, like the log. vfs "" = SQLite's own.
Result<std::unique_ptr<HistoryStore>> open_sqlite_history(const std::string& path, const std::string& vfs = {});

}  // namespace lockstep
