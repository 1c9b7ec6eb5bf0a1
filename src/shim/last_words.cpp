#include "shim/last_words.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"

namespace lockstep {
namespace {

std::string local_time(std::int64_t at_s) {
  const time_t when = at_s;
  tm local{};
  char text[32] = "";
  if (::localtime_r(&when, &local))
    ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local);
  return text;
}

// System calls only: a thread that starts tasks may have held any lock when we were copied.
[[noreturn]] void append(const ProcessSpec& who, const char* work_dir, const char* path, const std::string& text,
                         pid_t shim) {
  ::close_range(3, ~0u, 0);  // the lock on the shim's record is one of them, which says that the shim lives
  const bool other = ::geteuid() == 0 && (::syscall(SYS_setgroups, who.groups.size(), who.groups.data()) != 0 ||
                                          ::syscall(SYS_setresgid, who.gid, who.gid, who.gid) != 0 ||
                                          ::syscall(SYS_setresuid, who.uid, who.uid, who.uid) != 0);
  if (other || ::geteuid() != who.uid || (::chdir(work_dir) != 0 && ::chdir("/tmp") != 0))
    ::_exit(1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // whoever becomes another user loses it
  if (::getppid() != shim)
    ::_exit(1);
  const int fd = ::open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  ::_exit(fd >= 0 && ::write(fd, text.data(), text.size()) > 0 ? 0 : 1);
}

}  // namespace

std::string last_words(StopWhy why, const WorkId& key, const std::string& host, std::int64_t at_s) {
  if (task_of(key))
    return {};
  const StepPart* step = step_of(key);
  const std::string what = step ? format("STEP {}.{}", key.job.value, step->step) : format("JOB {}", key.job.value);
  const auto cancelled = [&](const char* due) {
    return format("slurmstepd: error: *** {} ON {} CANCELLED AT {}{} ***\n", what, host, local_time(at_s), due);
  };
  switch (why) {
    case StopWhy::kNothing: return {};
    case StopWhy::kCancelled: return cancelled("");
    case StopWhy::kTimeLimit: return cancelled(" DUE TO TIME LIMIT");
    case StopWhy::kPreempted: return cancelled(" DUE TO PREEMPTION");
    case StopWhy::kNodeFail: return cancelled(" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS");
    case StopWhy::kRequeued: return cancelled(" DUE TO JOB REQUEUE");
    case StopWhy::kFailed:
      return format("slurmstepd: error: *** {} ON {} FAILED (non-zero exit code or other failure mode) ***\n", what,
                    host);
  }
  return {};
}

std::string stop_notice(StopWhy why, std::int64_t killed_at_s) {
  const auto word = [why] {
    switch (why) {
      case StopWhy::kCancelled: return "cancelled";
      case StopWhy::kTimeLimit: return "time_limit";
      case StopWhy::kPreempted: return "preempted";
      case StopWhy::kNodeFail: return "node_fail";
      case StopWhy::kRequeued: return "requeued";
      case StopWhy::kFailed: return "failed";
      case StopWhy::kNothing: break;
    }
    return "ended";
  };
  return format("LOCKSTEP_STOP_AT={}\nLOCKSTEP_STOP_REASON={}\n", killed_at_s, word());
}

std::string out_of_memory_words(const WorkId& key, std::uint64_t kills, const std::string& program) {
  const StepPart* step = step_of(key);
  const std::string what = step ? format("{}.{}", key.job.value, step->step) : format("{}.batch", key.job.value);
  return format(
      "slurmstepd: error: Detected {} oom_kill event{} in StepId={}. Some of the step tasks have been OOM "
      "Killed{}.\n",
      kills, kills == 1 ? "" : "s", what, program.empty() ? "" : format(" (the last one: {})", program));
}

pid_t append_as_user(const ProcessSpec& who, const std::string& path, const std::string& text) {
  CHECK(!path.empty() && !text.empty());
  const pid_t shim = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0)
    append(who, who.work_dir.c_str(), path.c_str(), text, shim);
  return pid;
}

}  // namespace lockstep
