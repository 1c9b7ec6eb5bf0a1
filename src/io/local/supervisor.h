// Keeps one long-lived process running: starts it again at once when it ends, ever more slowly if it keeps ending, and
// says in a note why. It runs as a small process of its own; if it is killed, the next one takes the process over.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct Supervised {
  std::string cluster_id;         // told to the process, by which it is known later
  std::string note_path;          // see restarts.h
  std::string log_path;           // of the process
  std::vector<std::string> argv;  // argv[0] is a path
};

// argv of `lockstep supervise` <-> Supervised.
std::vector<std::string> supervise_arguments(const Supervised& what);
Result<Supervised> parse_supervise(const std::vector<std::string>& words);

// Runs until SIGTERM, upon which it ends the process. SIGHUP: start it now, without waiting. Returns an exit code.
int run_supervisor(const Supervised& what);

}  // namespace lockstep
