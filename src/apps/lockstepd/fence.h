// Fence hooks of this controller: who can prove that a node has stopped.
#pragma once

#include <string>

#include "controller/server.h"

namespace lockstep {

// A node of this directory (DIR/nodes/NAME/init.pid) has stopped when its first process is gone: everything in it is
// that process's child in its own PID namespace or cgroup, and dies with it. For other nodes the command is asked.
// The command may be one that switches the machine off, so it waits until the node has been silent for `patience`.
FenceHook make_fence_hook(std::string dir, std::string command, Duration patience);

}  // namespace lockstep
