// The parent of one life of a container of root's. It has its files and image made ready (lockstep-container), lets
// runc make the container, and is what its first process belongs to from then on: it keeps its output in a file, hands
// it and the input to who attaches, passes signals on, and ends as it did. What there is to say meanwhile it tells the
// keeper of the sandbox, a line each (wire/container_word.h).
#pragma once

#include <sys/types.h>

#include <string>

#include "model/sandbox.h"
#include "shim/sandbox_room.h"

namespace lockstep {

struct ContainedLife {
  const Sandbox& sandbox;
  std::size_t container = 0;  // its variables are settled
  std::uint32_t life = 0;
  const SandboxRoom& room;
  std::string std_out, std_err;  // files of the node that take its output; "" = a log of its own
  std::string logins;            // encode_logins, for its image; "" = none
  std::string log_folder;        // FrontEndFiles::log_folder
};

// Runs until the container has ended, in a process of its own whose signals are blocked. SIGTERM is passed on, SIGUSR1
// kills. tell: the keeper's end.
[[noreturn]] void be_parent_of_contained(const ContainedLife& life, int tell);

// Where the runtime of the node lies; "" = it is not installed.
std::string runtime_path();
// The folder in which runc keeps what it knows of this sandbox's containers.
inline std::string runtime_records(const std::string& sandbox_folder) { return sandbox_folder + "/runtime"; }

// How many processes of a control group the kernel has killed for want of memory.
std::uint64_t oom_kills_in(const std::string& group);

}  // namespace lockstep
