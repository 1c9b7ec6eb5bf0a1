#include "agent/hooks.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Lines = std::vector<std::string>;

TEST(Hooks, AnEpilogIsToldHowTheWorkEnded) {
  Lines env = {"A=1"};
  const WorkId script{JobId{5}, 1, ScriptPart{}}, step{JobId{5}, 1, StepPart{0}};
  EXPECT_TRUE(tell_end(env, step, {{0, {2, 0, false}}, {1, {0, 9, false}}}));
  EXPECT_EQ(env, (Lines{"A=1", "SLURM_JOB_DERIVED_EC=512"}));
  EXPECT_FALSE(tell_end(env, step, {{0, {1, 0, false}}})) << "less bad than what is known";
  EXPECT_TRUE(tell_end(env, step, {{0, {3, 0, false}}}));
  EXPECT_TRUE(tell_end(env, script, {{0, {7, 0, false}}}));
  EXPECT_EQ(env, (Lines{"A=1", "SLURM_JOB_DERIVED_EC=768", "SLURM_JOB_EXIT_CODE=1792", "SLURM_JOB_EXIT_CODE2=7:0"}));
  EXPECT_FALSE(tell_end(env, script, {})) << "nothing is known of it";
}

TEST(Hooks, AStepWithoutFailureIsToldAsWell) {
  Lines env;
  EXPECT_TRUE(tell_end(env, {JobId{5}, 1, StepPart{0}}, {{0, {}}}));
  EXPECT_EQ(env, (Lines{"SLURM_JOB_DERIVED_EC=0"}));
  Lines of_script;
  EXPECT_TRUE(tell_end(of_script, {JobId{5}, 1, ScriptPart{}}, {{0, {0, 9, true}}}));
  EXPECT_EQ(of_script, (Lines{"SLURM_JOB_EXIT_CODE=125", "SLURM_JOB_EXIT_CODE2=0:125"})) << "memory";
}

}  // namespace
}  // namespace lockstep
