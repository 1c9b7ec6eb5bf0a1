#include "shim/task_inheritance.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/mutant.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr rlim_t kStack = 8 << 20, kLocked = 8 << 20;
constexpr rlim_t kFiles = 1024, kFilesMax = 524'288;  // select() of old programs fails above the first
constexpr rlim_t kQueues = 819'200;
constexpr int kDescriptorsSearched = 65'536;  // where the kernel cannot close a range
constexpr unsigned kCloseOnExec = 1U << 2;    // CLOSE_RANGE_CLOEXEC

rlim_t read_number(const char* path) {
  unsigned long long value = 0;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  char text[32] = "";
  if (fd >= 0 && ::read(fd, text, sizeof text - 1) > 0 && ::sscanf(text, "%llu", &value) != 1)
    value = 0;
  if (fd >= 0)
    ::close(fd);
  return value > 0 ? value : RLIM_INFINITY;
}

// Of the kernel's, beneath the C library, whose own two signals it hides.
void reset_disposition(int signal) {
  struct KernelAction {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    unsigned long mask;
  } action{};
  ::syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof action.mask);
}

void set_limit(const TaskLimit& limit) {
  rlimit wanted{limit.soft, limit.hard};
  rlimit now{};
  if (::setrlimit(static_cast<__rlimit_resource_t>(limit.resource), &wanted) == 0 ||
      ::getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &now) != 0)
    return;
  wanted.rlim_max = std::min(limit.hard, now.rlim_max);
  wanted.rlim_cur = std::min(limit.soft, wanted.rlim_max);
  ::setrlimit(static_cast<__rlimit_resource_t>(limit.resource), &wanted);
}

std::vector<TaskLimit> limits_of_a_login() {
  // As the kernel gives its first process: half of what the machine can hold.
  const rlim_t all = std::min(read_number("/proc/sys/kernel/threads-max"), read_number("/proc/sys/kernel/pid_max"));
  const rlim_t processes = all == RLIM_INFINITY ? RLIM_INFINITY : std::max<rlim_t>(all / 2, 64);
  return {{RLIMIT_CPU},
          {RLIMIT_FSIZE},
          {RLIMIT_DATA},
          {RLIMIT_RSS},
          {RLIMIT_AS},
          {RLIMIT_LOCKS},
          {RLIMIT_RTTIME},
          {RLIMIT_CORE, 0},
          {RLIMIT_STACK, kStack},
          {RLIMIT_MEMLOCK, kLocked},  // RDMA needs more: a job may raise it
          {RLIMIT_NOFILE, kFiles, kFilesMax},
          {RLIMIT_NPROC, processes, processes},
          {RLIMIT_SIGPENDING, processes, processes},
          {RLIMIT_MSGQUEUE, kQueues, kQueues},
          {RLIMIT_NICE, 0, 0},
          {RLIMIT_RTPRIO, 0, 0}};
}

}  // namespace

const std::vector<TaskLimit>& default_task_limits() {
  static const std::vector<TaskLimit> limits = limits_of_a_login();
  return limits;
}

void take_shell_limits(std::vector<std::string>& env, std::vector<TaskLimit>& limits) {
  constexpr std::string_view kPrefix = "SLURM_RLIMIT_";
  constexpr std::pair<std::string_view, int> kNames[] = {
      {"AS", RLIMIT_AS},       {"CORE", RLIMIT_CORE},       {"CPU", RLIMIT_CPU},       {"DATA", RLIMIT_DATA},
      {"FSIZE", RLIMIT_FSIZE}, {"MEMLOCK", RLIMIT_MEMLOCK}, {"NOFILE", RLIMIT_NOFILE}, {"NPROC", RLIMIT_NPROC},
      {"RSS", RLIMIT_RSS},     {"STACK", RLIMIT_STACK}};
  for (const std::string& variable : env) {
    const auto equals = variable.find('=');
    if (!variable.starts_with(kPrefix) || equals == std::string::npos)
      continue;
    const std::string_view name = std::string_view(variable).substr(kPrefix.size(), equals - kPrefix.size());
    const auto value = parse_uint(std::string_view(variable).substr(equals + 1));
    for (const auto& [known, resource] : kNames)
      for (TaskLimit& limit : limits)
        if (value && known == name && limit.resource == resource)
          limit.soft = std::min<rlim_t>(*value, limit.hard);
  }
  std::erase_if(env, [&](const std::string& variable) { return variable.starts_with(kPrefix); });
}

void reset_signals() {
  for (int signal = 1; signal < 65; ++signal)
    if (signal != SIGKILL && signal != SIGSTOP)
      reset_disposition(signal);
  const unsigned long none = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
}

void shed_standing(const std::vector<TaskLimit>& limits) {
  for (const TaskLimit& limit : limits)
    if (limit.resource != RLIMIT_NOFILE)
      set_limit(limit);
  sched_param normal{};
  ::sched_setscheduler(0, SCHED_OTHER, &normal);
  ::setpriority(PRIO_PROCESS, 0, 0);
  ::syscall(SYS_ioprio_set, 1 /* this process */, 0, 0);
  ::personality(PER_LINUX);
  // While we are privileged, since that also sets how low the task may go later.
  if (const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); fd >= 0) {
    [[maybe_unused]] const ssize_t n = ::write(fd, "0", 1);
    ::close(fd);
  }
  ::prctl(PR_SET_SECUREBITS, SECUREBITS_DEFAULT);
}

void limit_descriptors(const std::vector<TaskLimit>& limits) {
  for (const TaskLimit& limit : limits)
    if (limit.resource == RLIMIT_NOFILE)
      set_limit(limit);
}

void shed_capabilities(bool keep) {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  if (keep && ::syscall(SYS_capget, &head, sets) != 0)
    return;
  for (auto& set : sets) set.inheritable = 0;  // also ends the ambient ones
  ::syscall(SYS_capset, &head, sets);
}

void close_on_exec_from(int from) {
  if (mutant(Mutant::kInheritedDescriptor) || ::syscall(SYS_close_range, from, ~0U, kCloseOnExec) == 0)
    return;
  for (int fd = from; fd < kDescriptorsSearched; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

}  // namespace lockstep
