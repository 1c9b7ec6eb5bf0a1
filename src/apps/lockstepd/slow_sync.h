// For benchmarks: makes every sync of SQLite's files take longer, as on a disk that really writes.
#pragma once

#include <string>

namespace lockstep {

// Registers the VFS and returns its name; "" (SQLite's own) when LOCKSTEP_SYNC_DELAY_US is not set.
std::string slow_sync_vfs();

}  // namespace lockstep
