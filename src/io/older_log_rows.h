// What accounting knows beyond a log that was put back from a backup. SQL over the tables of io/sqlite_history.cpp.
#pragma once

#include <vector>

#include "base/result.h"
#include "io/sqlite.h"
#include "model/command.h"
#include "model/tables.h"

namespace lockstep {

// How far that is known. Runs are ended once, in the first start that finds it out: later ones may have runs that the
// log has and accounting has not read yet.
enum class OlderLog : std::int64_t { kFound = 1, kRunsEnded = 2 };

// Of the jobs in the tables: ends runs and steps that they do not know as LostFromLog, charged for nothing that nobody
// knows, and says which attempts and steps there were beyond them. Within a transaction of its caller.
Result<std::vector<AttemptSeen>> settle_rows_beyond(const Sqlite& db, const Tables& tables, OlderLog how);

}  // namespace lockstep
