#include "shim/process_tree.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto close = text.rfind(')');
  return close == text.npos ? '-' : text[close + 2];
}

bool comes(const std::function<bool()>& what) {
  for (int i = 0; i < 2000; ++i, std::this_thread::sleep_for(5ms))
    if (what())
      return true;
  return false;
}

// In the kernel from the first look on: a parent of vfork() waits there for a child that has not executed anything.
TEST(ProcessTree, WhatWaitsInTheKernelStopsWhenItReturns) {
  const pid_t root = fork();
  if (root == 0) {
    setpgid(0, 0);
    if (fork() == 0) {
      if (vfork() == 0)
        for (;;) pause();
      for (;;) pause();
    }
    for (;;) pause();
  }
  std::vector<pid_t> family;
  ASSERT_TRUE(comes([&] { return (family = descendants_of(root)).size() == 2 && state_of(family[0]) == 'D'; }));
  std::vector<pid_t> seen;
  EXPECT_TRUE(comes([&] { return stop_descendants(root, seen); })) << "nothing of it can run";
  EXPECT_EQ(state_of(family[0]), 'D');
  kill(family[1], SIGKILL);
  EXPECT_TRUE(comes([&] { return state_of(family[0]) != 'D'; }));
  EXPECT_TRUE(comes([&] { return state_of(family[0]) == 'T'; })) << state_of(family[0]);
  kill(-root, SIGKILL);
  waitpid(root, nullptr, 0);
}

// Each says by its exit code whether it was told to go on.
TEST(ProcessTree, OnlyWhoHasBeenStoppedIsWoken) {
  const pid_t root = fork();
  if (root == 0) {
    setpgid(0, 0);
    for (int i = 0; i < 2; ++i)
      if (fork() == 0) {
        static volatile std::sig_atomic_t told = 0;
        signal(SIGCONT, [](int) { told = 1; });
        signal(SIGTERM, [](int) { _exit(told ? 7 : 3); });
        for (;;) pause();
      }
    int sum = 0;
    for (int status = 0; wait(&status) > 0;) sum += WEXITSTATUS(status);
    _exit(sum);
  }
  std::vector<pid_t> family;
  const auto handles = [](pid_t pid) {  // both, so that neither is ended by a signal
    const std::string text = read_proc_text("/proc/" + std::to_string(pid) + "/status");
    const auto at = text.find("SigCgt:");
    return at != text.npos && std::stoull(text.substr(at + 7), nullptr, 16) >> (SIGTERM - 1) & 1;
  };
  ASSERT_TRUE(comes([&] {
    family = descendants_of(root);
    return family.size() == 2 && handles(family[0]) && handles(family[1]);
  }));
  kill(family[1], SIGSTOP);
  ASSERT_TRUE(comes([&] { return state_of(family[1]) == 'T'; }));
  wake_stopped(root);
  ASSERT_TRUE(comes([&] { return state_of(family[1]) == 'S'; }));
  signal_descendants(root, SIGTERM);
  int status = 0;
  waitpid(root, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3 + 7);
}

}  // namespace
}  // namespace lockstep
