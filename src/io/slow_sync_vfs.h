// A disk whose syncs take longer, for measuring on machines whose disk is unrealistically fast. Everything else is
// SQLite's own.
#pragma once

#include <string>

#include "base/time.h"

namespace lockstep {

// Registers an SQLite VFS and returns its name. Once per process, before any file is opened.
std::string register_slow_sync_vfs(Duration delay);

}  // namespace lockstep
