// Long-lived processes of a local cluster: found again by what was noted of them, and signalled only when they are
// proven to be the ones that were meant. Also the small files they are run by.
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

bool runs_as(pid_t pid, uid_t user);           // with no other identity beside it; false when it is gone
std::optional<ProcessId> identify(pid_t pid);  // nullopt when it is gone (or a zombie)
bool alive(const ProcessId& process);
bool is_stopped(pid_t pid);                          // by a signal, or by a debugger
Instant boot_now();                                  // the boot clock, which counts while the machine is suspended
std::string process_text(const ProcessId& process);  // "PID START_TICKS"
std::optional<ProcessId> parse_process(std::string_view text);           // nullopt if it is not such a text
std::optional<ProcessId> read_pid_file(const std::string& path);         // nullopt if absent or bad; may be gone
Result<void> write_pid_file(const std::string& path, const ProcessId&);  // 0600

// The variable in the environment of every process of a cluster: the id of its state directory.
inline constexpr const char* kClusterIdVariable = "LOCKSTEP_CLUSTER_ID";

// A process that is held by a descriptor and proven ours: it started when it was noted, runs one of our programs for
// us, and was given the cluster's id by whoever started it.
class OwnProcess {
 public:
  // kNotFound: it is gone. kDenied: something else runs under its number, which is none of our business. kTimeout: it
  // ends, and something of it, a process of a node whose first it is, does not.
  static Result<OwnProcess> prove(const ProcessId& noted, const std::string& cluster_id);

  OwnProcess(OwnProcess&& other) noexcept : id_(other.id_), fd_(std::exchange(other.fd_, -1)) {}
  OwnProcess& operator=(OwnProcess&& other) noexcept;
  ~OwnProcess();

  const ProcessId& id() const { return id_; }
  int fd() const { return fd_; }  // a pidfd: readable when the process has ended
  void signal(int signal) const;
  bool ended(Duration wait) const;  // waits at most so long
  // SIGTERM, then SIGKILL if it is still there after `patience`; one that is stopped is woken. False: it stays.
  bool end(Duration patience) const;

 private:
  OwnProcess(const ProcessId& id, int fd);
  ProcessId id_;
  int fd_;
};

// What a program that was run to its end said, and its exit code (128 and the signal that ended it).
struct Ran {
  int code = 0;
  std::string out, err;
};
// With text on its stdin. An error: it could not be run.
Result<Ran> run_and_hear(const std::vector<std::string>& argv, const std::string& input = {});
// The same for what must succeed; its stderr is in the error, its stdout is ours.
Result<void> run_program(const std::vector<std::string>& argv, const std::string& input = {});

// Direct children of a process, whichever of its threads made them, as this pid namespace sees them.
std::vector<pid_t> children_of(pid_t pid);
std::string command_name(pid_t pid);  // /proc/PID/comm; "" if gone

Result<std::string> read_file(const std::string& path);
// Replaces atomically, and follows nothing under its own name. The file has this mode whatever the umask.
Result<void> write_file(const std::string& path, std::string_view text, unsigned mode = 0600);
// Those that are missing are made, and get this mode whatever the umask.
Result<void> make_dirs(const std::string& path, unsigned mode = 0755);

}  // namespace lockstep
