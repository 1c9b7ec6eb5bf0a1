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

}  // namespace
}  // namespace lockstep
