// Work that had ended by itself before, or after, the controller decided that it ends.
#include "core/true_end.h"

#include <gtest/gtest.h>

#include "core/testing.h"
#include "model/job.h"
#include "model/plan.h"

namespace lockstep {
namespace {

bool has_event(const World& w, JobId job, const std::string& what) {
  return std::any_of(w.events.begin(), w.events.end(), [&](const Event& e) { return e.job == job && e.what == what; });
}

class TrueEnd : public ::testing::Test {
 protected:
  JobId start(Duration limit) {
    JobSpec spec = World::batch();
    spec.time_limit = limit;
    return start(spec);
  }
  JobId start(JobSpec spec) {
    const JobId job = w_.submit(std::move(spec));
    w_.settle();
    started_ = w_.job(job).started;
    return job;
  }
  // As the node saw it, `ago` before now.
  void say_ended(JobId job, Duration ago, ExitStatus exit = {}) {
    w_.must(AgentReport{w_.id(1), w_.boot(1), job, 1, ScriptEnded{exit, true}, ago});
    w_.must(AgentReport{w_.id(1), w_.boot(1), job, 1, MemberStopped{}, ago});
  }
  // Room is made for another job; the node does not hear of it.
  void preempt(JobId victim) {
    ApplyPlan plan;
    const JobId urgent = w_.submit([] {
      JobSpec spec = World::batch();
      spec.qos = "high";
      return spec;
    }());
    plan.preemptions.push_back({.job = urgent,
                                .read = w_.job(urgent).meta.seq,
                                .partition = w_.job(victim).allocation->partition,
                                .grants = w_.job(victim).allocation->grants,
                                .victims = {victim}});
    w_.must(plan);
    ASSERT_EQ(w_.job(victim).ending, JobState::kPreempted);
    w_.actions.clear();
  }
  JobId start_low(Duration limit) {
    Qos low, high;
    low.meta.name = "low";
    high.meta.name = "high";
    high.preempts = {"low"};
    w_.must(PutQos{low});
    w_.must(PutQos{high});
    JobSpec spec = World::batch();
    spec.qos = "low";
    spec.time_limit = limit;
    return start(spec);
  }

  World w_{1};
  Instant started_;
};

// The node is deaf when the limit strikes, and the script goes on for a while.
TEST_F(TrueEnd, AScriptThatOverranItsLimitUnheardHasTimedOut) {
  const JobId job = start(minutes(1));
  JobSpec after = World::batch();
  after.dependencies.push_back({Dependency::Type::kAfterOk, job, {}});
  after.kill_on_invalid_dependency = false;
  const JobId waits = w_.submit(after);
  w_.pass(seconds(73));
  ASSERT_EQ(w_.job(job).ending, JobState::kTimeout);
  w_.actions.clear();
  say_ended(job, seconds(3));
  EXPECT_EQ(w_.state_of(job), JobState::kTimeout);
  EXPECT_EQ(w_.job(job).end_reason, "TimeLimit");
  EXPECT_FALSE(has_event(w_, job, "EndedBefore"));
  EXPECT_EQ(w_.job(waits).hold, Hold::kDependencyNever);
}

TEST_F(TrueEnd, ARequeueThatSomebodyWasGrantedMeanwhileStays) {
  for (const bool hold : {false, true}) {
    const JobId job = start(minutes(1));
    w_.pass(seconds(70));
    w_.actions.clear();
    w_.must(RequeueJob{{job, {}}, hold}, kAliceCalls);
    say_ended(job, seconds(30));
    EXPECT_EQ(w_.state_of(job), JobState::kPending);
    EXPECT_TRUE(has_event(w_, job, "EndedBefore")) << "that run ended by itself";
    EXPECT_EQ(w_.job(job).hold, hold ? Hold::kUser : Hold::kBeginTime);
    w_.must(CancelJob{{job, {}}});
  }
}

TEST_F(TrueEnd, ARequeueOfWhatWasPreemptedStaysAsWell) {
  const JobId job = start_low(minutes(10));
  w_.pass(seconds(10));
  preempt(job);
  w_.must(RequeueJob{{job, {}}, false}, kAliceCalls);
  say_ended(job, {});
  EXPECT_EQ(w_.state_of(job), JobState::kPending);
  EXPECT_EQ(w_.job(job).restarts, 1u);
}

TEST_F(TrueEnd, APreemptedScriptThatEndedBeforeItCouldHearOfItIsNotRunTwice) {
  const JobId job = start_low(minutes(10));
  w_.pass(seconds(10));
  preempt(job);
  w_.pass(seconds(30));
  say_ended(job, seconds(10));
  EXPECT_EQ(w_.state_of(job), JobState::kCompleted);
  EXPECT_EQ(w_.job(job).ended, started_ + seconds(30)) << "it held its place until then";
}

TEST_F(TrueEnd, APreemptedScriptThatOverranItsLimitHasNotCompleted) {
  const JobId job = start_low(minutes(1));
  w_.pass(seconds(10));
  preempt(job);
  w_.pass(seconds(60));
  say_ended(job, seconds(5));
  EXPECT_EQ(w_.state_of(job), JobState::kPending);
  EXPECT_EQ(w_.job(job).preemptions, 1u);
}

// Nobody heard of its end before its owner cancelled it; one who asked for its end later still did so.
TEST_F(TrueEnd, ACancelOfWhatHadEndedByThenIsNone) {
  for (const Duration ago : {seconds(4), seconds(0)}) {
    const JobId job = start(minutes(10));
    w_.pass(seconds(10));
    w_.must(CancelJob{{job, {}}}, kAliceCalls);
    w_.pass(seconds(2));
    say_ended(job, ago, {.code = 6});
    EXPECT_EQ(w_.state_of(job), ago > seconds(2) ? JobState::kFailed : JobState::kCancelled);
    EXPECT_EQ(w_.job(job).exit.code, 6);
    EXPECT_EQ(w_.job(job).cancelled_by, ago > seconds(2) ? UserId{} : World::kAlice);
    EXPECT_EQ(w_.job(job).ended, started_ + (ago > seconds(2) ? seconds(8) : seconds(10)));
  }
}

// Its deadline strikes as a limit does.
TEST_F(TrueEnd, AStepThatIsTheWholeJobHadEndedBeforeItsDeadline) {
  JobSpec spec = World::interactive(1);
  spec.deadline = w_.state.inner().wall_at(w_.now + minutes(10));
  SubmitJob ask{.spec = std::make_shared<const JobSpec>(spec)};
  auto step = std::make_shared<StepSpec>();
  step->argv = {"hostname"};
  ask.first_step = step;
  const JobId job = w_.submit(std::move(ask));
  w_.settle();
  w_.silent.insert(1);
  w_.pass(minutes(11));
  ASSERT_EQ(w_.job(job).ending, JobState::kDeadline);
  w_.must(AgentReport{w_.id(1), w_.boot(1), job, 1, StepEnded{0, {{0, {}}}}, minutes(5)});
  w_.must(AgentReport{w_.id(1), w_.boot(1), job, 1, MemberStopped{}, {}});
  EXPECT_EQ(w_.state_of(job), JobState::kCompleted);
}

// The script ended at 4 s, which its node could not say; at 10 s an administrator suspended the job.
TEST_F(TrueEnd, APauseAfterTheEndIsNone) {
  Account science;
  science.meta.name = "science";
  w_.must(PutAccount{science});
  Association own;
  own.account = "science";
  own.user = "alice";
  w_.must(PutAssociation{own});
  Policy policy;
  policy.half_life = {};
  w_.must(PutPolicy{policy});
  const JobId job = start(minutes(10));
  w_.pass(seconds(10));
  w_.must(SuspendJob{{job, {}}});
  w_.actions.clear();
  ASSERT_EQ(w_.state.tables().usages.begin()->second->wall_ms, 10'000);
  w_.pass(seconds(2));
  say_ended(job, seconds(8));
  EXPECT_EQ(w_.state_of(job), JobState::kCompleted);
  EXPECT_EQ(w_.job(job).ended, started_ + seconds(4));
  EXPECT_EQ(w_.job(job).suspended_before, Duration{});
  const Usage& usage = *w_.state.tables().usages.begin()->second;
  EXPECT_EQ(usage.wall_ms, 4'000) << "what was charged up to the pause is taken back in part";
  EXPECT_EQ(usage.spent.cpu, 4 * 4'000);
}

// Its step ended before a pause that is over: it is not charged less than nothing, and ran no less than that.
TEST_F(TrueEnd, AnEndBeforeAPauseThatIsOverIsTakenForItsResume) {
  JobSpec spec = World::interactive(1);
  spec.time_limit = minutes(1);
  SubmitJob ask{.spec = std::make_shared<const JobSpec>(spec)};
  auto step = std::make_shared<StepSpec>();
  step->argv = {"hostname"};
  ask.first_step = step;
  const JobId job = w_.submit(std::move(ask));
  w_.settle();
  started_ = w_.job(job).started;
  w_.pass(seconds(10));
  w_.must(AgentReport{w_.id(1), w_.boot(1), job, 1, StepEnded{0, {{0, {}}}}, seconds(6)});
  w_.must(SuspendJob{{job, {}}});
  w_.obey();
  w_.pass(seconds(20));
  w_.must(ResumeJob{{job, {}}});
  w_.obey();
  w_.pass(minutes(2));
  w_.obey();
  ASSERT_EQ(w_.state_of(job), JobState::kCompleted);
  EXPECT_EQ(w_.job(job).suspended_before, seconds(20));
  EXPECT_EQ(w_.job(job).ended, started_ + seconds(30));
}

// The minutes of a group end a job, which says nothing of how long it would have run.
TEST_F(TrueEnd, WhatAnotherLimitCutTeachesNothing) {
  Account science;
  science.meta.name = "science";
  science.limits.grp_tres_mins.cpu = 4 * 5;
  w_.must(PutAccount{science});
  Association own;
  own.account = "science";
  own.user = "alice";
  w_.must(PutAssociation{own});
  for (int i = 0; i < 2; ++i) {
    const JobId job = start(hours(10));
    const Duration predicted = w_.job(job).predicted;
    w_.pass(minutes(6));
    w_.obey();
    ASSERT_EQ(w_.state_of(job), JobState::kTimeout);
    w_.must(ResetUsage{"science", "alice"});
    JobSpec spec = World::batch();
    spec.time_limit = hours(10);
    const JobId next = w_.submit(spec);
    EXPECT_EQ(w_.job(next).predicted, predicted);
    w_.must(CancelJob{{next, {}}});
  }
}

}  // namespace
}  // namespace lockstep
