// Long-lived processes of a local cluster: started detached, found again by pid file, ended by pid only when it is
// certainly still the same process (pid and start time agree).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace lockstep {

struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat: tells a reused pid apart
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

std::optional<ProcessId> identify(pid_t pid);  // nullopt when it is gone (or a zombie)
bool alive(const ProcessId& process);
std::optional<ProcessId> read_pid_file(const std::string& path);  // "PID START_TICKS"; nullopt if absent, bad or gone
Result<void> write_pid_file(const std::string& path, const ProcessId& process);

struct Spawn {
  std::vector<std::string> argv;                         // argv[0] is a path
  std::vector<std::pair<std::string, std::string>> env;  // added to ours
  std::string log_path;                                  // stdout and stderr, appended
};
// Starts a session leader that outlives us. Its stdin is /dev/null.
Result<ProcessId> spawn_detached(const Spawn& spawn);

// Runs a program to its end with text on its stdin; its stderr is in the error.
Result<void> run_program(const std::vector<std::string>& argv, const std::string& input = {});

// Signals and waits; false if it is still there after the timeout.
bool end_process(const ProcessId& process, int signal, Duration timeout);

// Direct children of a process, as this pid namespace sees them.
std::vector<pid_t> children_of(pid_t pid);
std::string command_name(pid_t pid);  // /proc/PID/comm; "" if gone

Result<std::string> read_file(const std::string& path);
Result<void> write_file(const std::string& path, std::string_view text, unsigned mode = 0644);  // replaces atomically
Result<void> make_dirs(const std::string& path, unsigned mode = 0755);

}  // namespace lockstep
