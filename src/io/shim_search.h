// What of the shims really is there, whatever the agent's journal says: by their folders, and by the processes
// themselves. A shim's process shows its key by its working directory and its launch by the record it holds open, also
// when both were removed.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "ports/shims.h"

namespace lockstep {

struct FoundShim {
  WorkId key;
  ShimStart start;        // as far as the record tells: of the script, the environment and the like, only what it needs
  bool known = false;     // there is a record that can be read
  bool launched = false;  // tasks had been started
  pid_t live = 0;         // its process, unless it has ended
  Instant began;          // of that process
  bool reachable = true;  // its folder is where we look
};

// dir: as in make_shims().
std::vector<FoundShim> find_shims(const std::string& dir);

// For a shim that nobody can speak to any more: ends its tasks, then the shim. Waits until they are gone, for a short
// while.
void end_unreachable(const FoundShim& shim);

// What shims that were killed have left, whose folders tell nothing any more. True: something was found, and is gone.
bool end_orphans(const std::vector<FoundShim>& shims);

}  // namespace lockstep
