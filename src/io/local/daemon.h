// Starting a process that outlives the shell it was asked for in, and inherits nothing from it: no descriptor beyond
// 0-2, no variable that it does not need, no keyring, no signal settings, no directory, no limit or priority
// (io/local/standing.h).
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "io/local/process.h"

namespace lockstep {

struct Daemon {
  std::vector<std::string> argv;                         // argv[0] is a path
  std::vector<std::pair<std::string, std::string>> env;  // besides the few that every daemon gets
  std::string log_path;                                  // stdout and stderr, appended
};
// Starts a session leader and waits until its program runs. Its parent is the caller.
Result<ProcessId> start_daemon(const Daemon& daemon);

// "NAME=value" of all that a daemon may know of our environment: a fixed PATH, language and time zone, and the settings
// that are named for it (LOCKSTEP_…, those of sanitizers), with `more` behind.
std::vector<std::string> daemon_environment(const std::vector<std::pair<std::string, std::string>>& more);

// A log that has grown beyond `most` bytes begins anew: what it held is in PATH.1 then, and what that held in PATH.2.
// Who writes to it goes on with the same file, which is why it is copied. To be called now and then by who keeps the
// writer.
void rotate_log(const std::string& path, std::int64_t most = 16 << 20);

// A log file of ours, opened for appending; the descriptor is above 3.
Result<int> open_log(const std::string& path);

// In a forked child, before exec: /dev/null as 0, the log as 1 and 2, `kept` (-1: none) as 3, all others closed;
// limits, priorities and CPUs are a daemon's. Calls nothing that would not be safe there.
void leave_the_shell(int log, int kept = -1);

// What a program does that may have been started by hand: closes whatever lies beyond 0-2, and takes a keyring and a
// umask of its own.
void close_behind_us(mode_t mask);

}  // namespace lockstep
