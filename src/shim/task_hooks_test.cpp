#include "shim/task_hooks.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(TaskHooks, APrologSpeaksInLines) {
  std::map<std::string, std::string> environment = {{"HOME", "/root"}, {"OLD", "1"}};
  const std::string printed = apply_task_prolog(
      "export SCRATCH=/scratch/a b=c\nunset OLD\nprint hello  there\nnothing of this\nexport \nexport =x\nexport NAME\n"
      "print \nexport EMPTY=\nprinted",
      environment);
  EXPECT_EQ(printed, "hello  there\n\n");
  const std::map<std::string, std::string> expected = {{"EMPTY", ""}, {"HOME", "/root"}, {"SCRATCH", "/scratch/a b=c"}};
  EXPECT_EQ(environment, expected);
}

TEST(TaskHooks, WordsNameTheProgramsAndTheTask) {
  EXPECT_EQ(words_around_task({"/p"}, {"/e", "/f"}, {"a", "b"}),
            (std::vector<std::string>{"lockstep-shim", "--around-task", "1", "/p", "2", "/e", "/f", "a", "b"}));
}

}  // namespace
}  // namespace lockstep
