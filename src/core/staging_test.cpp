#include "core/staging.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

JobSpec staged(std::uint32_t nodes) {
  JobSpec spec = World::batch(nodes);
  spec.stage_in = {{"/data", "data"}};
  spec.stage_out = {{"out", "/kept"}};
  return spec;
}

// A node's starts that were not carried out yet.
std::size_t starts_for(const World& w, std::uint32_t node) {
  std::size_t count = 0;
  for (const Action& action : w.actions)
    count += action.node == w.id(node) && std::holds_alternative<StartAttempt>(action.body);
  return count;
}

class StagingOfJobs : public ::testing::Test {
 protected:
  JobId granted(JobSpec spec) {
    const JobId job = w_.submit(std::move(spec));
    EXPECT_EQ(w_.start_what_fits(), 1u);
    return job;
  }
  std::uint32_t other(JobId job) const { return w_.first_node(job) == 1 ? 2 : 1; }
  std::string reason(JobId job) const { return w_.job(job).end_reason; }

  World w_{2};
};

TEST_F(StagingOfJobs, TheScriptIsHeldBackUntilTheOthersHaveTheirFiles) {
  const JobId job = granted(staged(2));
  const std::uint32_t first = w_.first_node(job), second = other(job);
  EXPECT_TRUE(holds_script_back(w_.job(job)));
  w_.actions.clear();
  (void)w_.report(first, job, StagedIn{});
  EXPECT_TRUE(w_.job(job).staged);
  EXPECT_EQ(starts_for(w_, first), 0u);
  w_.pass(minutes(10));
  w_.actions.clear();
  (void)w_.report(second, job, AttemptStarted{});
  EXPECT_FALSE(holds_script_back(w_.job(job)));
  EXPECT_EQ(starts_for(w_, first), 1u) << "its own node may go on";
  EXPECT_EQ(w_.state_of(job), JobState::kStarting);
  (void)w_.report(first, job, AttemptStarted{});
  EXPECT_EQ(w_.state_of(job), JobState::kRunning);
  EXPECT_EQ(w_.job(job).started, w_.now) << "its clock begins here";
}

TEST_F(StagingOfJobs, TheOthersMayBeFaster) {
  const JobId job = granted(staged(2));
  (void)w_.report(other(job), job, AttemptStarted{});
  w_.actions.clear();
  (void)w_.report(w_.first_node(job), job, StagedIn{});
  EXPECT_EQ(starts_for(w_, w_.first_node(job)), 1u);
}

TEST_F(StagingOfJobs, OnOneNodeNobodyWaits) {
  const JobId job = granted(staged(1));
  EXPECT_FALSE(holds_script_back(w_.job(job)));
  EXPECT_TRUE(stages_in(w_.job(job)));
  w_.obey();
  EXPECT_EQ(w_.state_of(job), JobState::kRunning);
  EXPECT_FALSE(stages_in(w_.job(job)));
}

TEST_F(StagingOfJobs, ACopyMayTakeLongAndNoNodeIsClosedForIt) {
  const JobId job = granted(staged(1));
  w_.pass(hours(6));
  EXPECT_EQ(w_.state_of(job), JobState::kStarting);
  w_.actions.clear();
  (void)w_.report(w_.first_node(job), job, AttemptStarted{});
  (void)w_.report(w_.first_node(job), job, ScriptEnded{.exit = {}, .by_itself = true});
  w_.pass(hours(6));
  EXPECT_EQ(w_.state_of(job), JobState::kCompleting);
  EXPECT_TRUE(w_.node(w_.first_node(job)).unconfirmed.empty());
}

TEST_F(StagingOfJobs, WhatCannotBeStagedInIsTheUsersMistake) {
  const JobId job = granted(staged(2));
  const std::uint32_t second = other(job);
  (void)w_.report(second, job, LaunchFailed{"StageInFailed /data: Permission denied"});
  w_.obey();
  EXPECT_EQ(w_.state_of(job), JobState::kFailed);
  EXPECT_EQ(reason(job), format("StageInFailed n{}: /data: Permission denied", second));
  EXPECT_EQ(w_.job(job).restarts, 0u);
  EXPECT_EQ(w_.job(job).exit.code, 1);
  for (const std::uint32_t node : {1U, 2U}) EXPECT_FALSE(w_.node(node).drain);
}

TEST_F(StagingOfJobs, WhatCannotBeStagedOutIsTold) {
  const JobId job = granted(staged(2));
  const std::uint32_t first = w_.first_node(job), second = other(job);
  w_.obey();
  (void)w_.report(first, job, ScriptEnded{.exit = {3, 0, false}, .by_itself = true});
  (void)w_.report(first, job, MemberStopped{.trouble = "/kept: No space left on device"});
  (void)w_.report(second, job, MemberStopped{.trouble = "/kept: gone"});
  EXPECT_EQ(w_.state_of(job), JobState::kFailed);
  EXPECT_EQ(reason(job), format("NonZeroExitCode StageOutFailed n{}: /kept: No space left on device "
                                "StageOutFailed n{}: /kept: gone",
                                first, second));
  for (const std::uint32_t node : {1U, 2U}) EXPECT_FALSE(w_.node(node).drain);
}

TEST_F(StagingOfJobs, ANodeThatGoesMeanwhileTakesFilesWithIt) {
  const JobId job = granted(staged(1));
  const std::uint32_t node = w_.first_node(job);
  w_.obey();
  (void)w_.report(node, job, ScriptEnded{.exit = {}, .by_itself = true});
  ASSERT_EQ(w_.state_of(job), JobState::kCompleting);
  w_.reboot(node);
  EXPECT_NE(reason(job).find(format("StageOutFailed n{}: the node was gone before everything was copied", node)),
            std::string::npos)
      << reason(job);
}

TEST_F(StagingOfJobs, StepsOfAnAllocationWaitForAllNodes) {
  JobSpec spec = World::interactive(2);
  spec.stage_in = {{"/data", "data"}};
  StepSpec step;
  step.tasks = 2;
  SubmitJob ask{.spec = std::make_shared<const JobSpec>(spec)};
  ask.first_step = std::make_shared<const StepSpec>(step);
  const JobId job = w_.submit(std::move(ask));
  EXPECT_EQ(w_.start_what_fits(), 1u);
  EXPECT_EQ(w_.state.tables().step(job, 0)->state, StepState::kPending);
  (void)w_.report(1, job, AttemptStarted{});
  EXPECT_FALSE(w_.job(job).started) << "the clock waits for the other one";
  EXPECT_EQ(w_.state.tables().step(job, 0)->state, StepState::kPending);
  w_.pass(minutes(1));
  (void)w_.report(2, job, AttemptStarted{});
  EXPECT_EQ(w_.state_of(job), JobState::kRunning);
  EXPECT_EQ(w_.job(job).started, w_.now);
  EXPECT_EQ(w_.state.tables().step(job, 0)->state, StepState::kStarting);
}

TEST_F(StagingOfJobs, ANodeTellsOfCheckpoints) {
  const JobId job = granted(World::batch(1));
  (void)w_.report(1, job, CheckpointSeen{});
  EXPECT_FALSE(w_.job(job).checkpointed) << "nothing of it runs";
  w_.obey();
  w_.pass(minutes(5));
  const std::uint32_t node = w_.first_node(job);
  w_.must(AgentReport{w_.id(node), w_.boot(node), job, 1, CheckpointSeen{}, seconds(30)});
  EXPECT_EQ(w_.job(job).checkpointed, w_.now - seconds(30));
  w_.must(AgentReport{w_.id(node), w_.boot(node), job, 1, CheckpointSeen{}, minutes(1)});
  EXPECT_EQ(w_.job(job).checkpointed, w_.now - seconds(30)) << "an older one is no news";
}

}  // namespace
}  // namespace lockstep
