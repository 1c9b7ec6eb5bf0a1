#include "io/local/standing.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace lockstep {

namespace {

constexpr rlim_t kAny = RLIM_INFINITY;
constexpr rlim_t kStack = 8 << 20, kLocked = 8 << 20, kQueues = 819'200;
constexpr rlim_t kFiles = 1 << 20;  // as far as the kernel's fs.nr_open goes by default
constexpr unsigned kCpusMax = 8192;

struct Limit {
  int resource;
  rlim_t soft, hard;
};
// A core file of ours would hold keys and other users' scripts: none, unless somebody raises the soft limit.
constexpr Limit kLimits[] = {
    {RLIMIT_CPU, kAny, kAny},         {RLIMIT_FSIZE, kAny, kAny},   {RLIMIT_DATA, kAny, kAny},
    {RLIMIT_RSS, kAny, kAny},         {RLIMIT_AS, kAny, kAny},      {RLIMIT_LOCKS, kAny, kAny},
    {RLIMIT_RTTIME, kAny, kAny},      {RLIMIT_NPROC, kAny, kAny},   {RLIMIT_SIGPENDING, kAny, kAny},
    {RLIMIT_CORE, 0, kAny},           {RLIMIT_STACK, kStack, kAny}, {RLIMIT_MEMLOCK, kLocked, kAny},
    {RLIMIT_MSGQUEUE, kQueues, kAny}, {RLIMIT_NICE, 0, 0},          {RLIMIT_RTPRIO, 0, 0},
    {RLIMIT_NOFILE, kFiles, kFiles},
};

void set_limit(const Limit& limit) {
  const auto resource = static_cast<__rlimit_resource_t>(limit.resource);
  rlimit wanted{limit.soft, limit.hard}, now{};
  if (::setrlimit(resource, &wanted) == 0 || ::getrlimit(resource, &now) != 0)
    return;
  wanted.rlim_max = std::min(limit.hard, now.rlim_max);
  wanted.rlim_cur = std::min(limit.soft, wanted.rlim_max);
  ::setrlimit(resource, &wanted);
}

void run_on_every_cpu() {
  unsigned char all[kCpusMax / 8];
  std::fill(std::begin(all), std::end(all), 0xff);  // the kernel leaves out those that are not there
  ::syscall(SYS_sched_setaffinity, 0, sizeof all, all);
}

}  // namespace

void take_own_standing() {
  for (const Limit& limit : kLimits) set_limit(limit);
  sched_param normal{};
  ::sched_setscheduler(0, SCHED_OTHER, &normal);
  ::setpriority(PRIO_PROCESS, 0, 0);
  ::syscall(SYS_ioprio_set, 1 /* this process */, 0, 0);
  ::syscall(SYS_set_mempolicy, 0 /* the default */, nullptr, 0);
  run_on_every_cpu();
  ::personality(PER_LINUX);
  ::prctl(PR_SET_TIMERSLACK, 0);
  ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  if (const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); fd >= 0) {
    (void)!::write(fd, "0", 1);
    ::close(fd);
  }
}

}  // namespace lockstep
