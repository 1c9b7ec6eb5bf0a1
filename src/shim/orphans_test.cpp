// Which processes an agent takes for orphans: its children that are no shims, and what those made. In a process of its
// own, since everybody else's children are none of this business.
#include "shim/orphans.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <vector>

#include "shim/process_tree.h"

namespace lockstep {
namespace {

// Runs `what` as an agent would be; 0 = as it should be, else the number of the first thing that is not.
int as_agent(const std::function<int()>& what) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    adopt_orphans();
    ::_exit(what());
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// A child that makes a session of `below` processes, one below the other, and lives on with them.
pid_t family(int below) {
  const pid_t pid = ::fork();
  if (pid != 0)
    return pid;
  ::setsid();
  if (below > 0)
    family(below - 1);
  for (;;) ::pause();
}

bool happens(const std::function<bool()>& what) {
  for (int i = 0; i < 4000; ++i, ::usleep(5'000))
    if (what())
      return true;
  return false;
}

TEST(Orphans, WhatAKilledShimLeftIsEndedWithAllBelow) {
  EXPECT_EQ(as_agent([] {
              const pid_t killed = family(2), live = family(1);
              if (!happens([&] { return descendants_of(::getpid()).size() == 5; }))
                return 1;
              const std::vector<pid_t> spared = descendants_of(live);
              ::kill(killed, SIGKILL);
              if (::waitpid(killed, nullptr, 0) != killed)
                return 2;
              if (!happens([&] { return kill_orphans({live}, 0) == 0; }))
                return 3;
              for (const pid_t pid : spared)
                if (is_dead(pid))
                  return 4;
              if (is_dead(live) || descendants_of(::getpid()).size() != 2)
                return 5;
              signal_descendants(::getpid(), SIGKILL);
              return 0;
            }),
            0);
}

TEST(Orphans, WhatTheAgentItselfWaitsForIsSpared) {
  EXPECT_EQ(as_agent([] {
              const OwnChild dead([] { return family(0); });
              {
                const OwnChild own([] { return family(1); });
                if (!happens([] { return descendants_of(::getpid()).size() == 3; }))
                  return 1;
                ::kill(dead.pid(), SIGKILL);
                if (!happens([&] { return is_dead(dead.pid()); }) || kill_orphans({}, 0) != 0 || is_dead(own.pid()))
                  return 2;
              }
              if (!happens([] { return kill_orphans({}, 0) == 0; }))
                return 3;
              return ::waitpid(dead.pid(), nullptr, WNOHANG) == dead.pid() ? 0 : 4;
            }),
            0);
}

TEST(Orphans, WithoutAnyNothingHappens) {
  EXPECT_EQ(as_agent([] { return static_cast<int>(kill_orphans({}, 0)); }), 0);
}

TEST(Orphans, AZombieIsTakenAwayAndNotCounted) {
  EXPECT_EQ(as_agent([] {
              const pid_t dead = ::fork();
              if (dead == 0)
                ::_exit(0);
              if (!happens([&] { return is_dead(dead); }))
                return 1;
              if (kill_orphans({}, 0) != 0)
                return 2;
              return ::waitpid(dead, nullptr, WNOHANG) == -1 ? 0 : 3;
            }),
            0);
}

// What an adopted process leaves holds up the end of its PID namespace; what somebody here waits for is his.
TEST(Orphans, WhatWasInheritedIsReapedAndWhatSomebodyWaitsForIsNot) {
  EXPECT_EQ(
      as_agent([] {
        int ends[2];
        if (::pipe(ends) != 0)
          return 1;
        const pid_t between = ::fork();
        if (between == 0) {
          const pid_t left = ::fork();
          if (left == 0)
            ::_exit(0);
          ::_exit(::write(ends[1], &left, sizeof left) == sizeof left ? 0 : 1);
        }
        pid_t left = 0;
        if (::waitpid(between, nullptr, 0) != between || ::read(ends[0], &left, sizeof left) != sizeof left)
          return 2;
        const OwnChild own([] {
          const pid_t pid = ::fork();
          if (pid == 0)
            ::_exit(0);
          return pid;
        });
        const pid_t shim = ::fork();
        if (shim == 0)
          ::_exit(0);
        if (!happens([&] { return is_dead(left) && is_dead(own.pid()) && is_dead(shim); }))
          return 3;
        if (reap_orphans({shim}) != 1)
          return 4;
        if (::waitpid(left, nullptr, WNOHANG) != -1)
          return 5;
        return ::waitpid(own.pid(), nullptr, WNOHANG) == own.pid() && ::waitpid(shim, nullptr, WNOHANG) == shim ? 0 : 6;
      }),
      0);
}

}  // namespace
}  // namespace lockstep
