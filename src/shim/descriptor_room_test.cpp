#include "shim/descriptor_room.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TaskProcesses step_of(std::size_t tasks) {
  TaskProcesses step;
  step.ranks.resize(tasks);
  return step;
}

TEST(DescriptorRoom, TooManyTasksAreRefusedWithTheNodeAndTheBound) {
  EXPECT_TRUE(check_descriptor_room(step_of(3000), "n1", 20'000).ok());
  const auto refused = check_descriptor_room(step_of(4000), "n1", 20'000);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(
      refused.error().message,
      "4000 task(s) of one step are too many for n1: their input and output take 24000 open files, and a process "
      "may have 20000 there (ulimit -n), which is enough for 3322. Use more nodes, or --input and --output with a "
      "file for each task (%t)");
  EXPECT_TRUE(check_descriptor_room(step_of(3322), "n1", 20'000).ok());
  EXPECT_FALSE(check_descriptor_room(step_of(3323), "n1", 20'000).ok());
}

TEST(DescriptorRoom, WhatHasFilesTakesNone) {
  TaskProcesses step = step_of(4000);
  step.process.std_in = "/dev/null";
  EXPECT_TRUE(check_descriptor_room(step, "n1", 20'000).ok());
  step.process.std_out = "out-%t";
  EXPECT_TRUE(check_descriptor_room(step, "n1", 100).ok()) << "errors go where output does";
  step.process.std_err = "err-%t";
  EXPECT_TRUE(check_descriptor_room(step, "n1", 100).ok());
  step = step_of(4000);
  step.to_client = false;
  EXPECT_TRUE(check_descriptor_room(step, "n1", 100).ok());
}

TEST(DescriptorRoom, FewTasksFitAnywhere) { EXPECT_TRUE(check_descriptor_room(step_of(1), "n1", 1024).ok()); }

}  // namespace
}  // namespace lockstep
