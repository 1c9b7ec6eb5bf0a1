// Whose work a shim runs that is not root.
#include "shim/task_launch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

constexpr uid_t kOwner = 1001, kOther = 1002;

// Starts /bin/true for `uid` in a process that runs as kOwner; whether that was refused.
bool refused_for(uid_t uid) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::geteuid() == 0 && ::setresuid(kOwner, kOwner, kOwner) != 0)
      ::_exit(2);
    TaskPlan plan;
    plan.argv = {"/bin/true"};
    plan.work_dir = "/";
    plan.uid = uid;
    plan.gid = ::getgid();
    for (TaskStream& stream : plan.streams) {
      stream.how = TaskStream::How::kFile;
      stream.path = "/dev/null";
      stream.flags = 2;  // O_RDWR
    }
    const auto started = start_task(plan);
    ::_exit(started.ok() && !started->failure.empty() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2);
  return WEXITSTATUS(status) == 1;
}

TEST(TaskLaunch, WithoutRootOnlyTheOwnersWorkRuns) {
  const uid_t owner = ::geteuid() == 0 ? kOwner : ::geteuid();
  EXPECT_FALSE(refused_for(owner));
  EXPECT_TRUE(refused_for(kOther));
  EXPECT_TRUE(refused_for(0));
}

}  // namespace
}  // namespace lockstep
