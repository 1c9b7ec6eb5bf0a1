// Opening the store of accounting. It is derived from the log: a damaged one keeps nobody from starting, but is moved
// aside, said so, and made anew as far back as the log reaches.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/local/state_dir.h"
#include "io/sqlite_log.h"
#include "ports/history.h"

namespace lockstep {

// notices: sentences for the log and the status are added.
Result<std::unique_ptr<HistoryStore>> open_accounting(const StateDir& state, SqliteLog& log,
                                                      std::vector<std::string>& notices);

// What another try does not mend, and no full disk, newer version or other program is to blame for.
bool is_damaged_accounting(const StateDir& state, const Error& error);

// Moves the store's files aside and makes a new one. For one that turned out to be damaged while it was used, too.
Result<std::unique_ptr<HistoryStore>> renew_accounting(const StateDir& state, const std::string& why,
                                                       std::vector<std::string>& notices);

}  // namespace lockstep
