// A log that was put back from a backup: nodes and accounting know more than it.
#include "core/older_log.h"

#include <gtest/gtest.h>

#include "core/testing.h"
#include "model/bounds.h"
#include "model/job.h"

namespace lockstep {
namespace {

TEST(OlderLog, WhatANodeHasSeenIsNotGivenOutAgain) {
  World w(2);
  JobSpec spec = World::batch();
  const JobId job = w.submit(spec);
  w.must(StartEpoch{"test"});
  NodeHello said{w.node(1), {}, JobId(job.value + 100), {{job, 3}, {JobId(999), 3}}};
  w.events.clear();
  w.must(said);
  ASSERT_EQ(w.events.size(), 1u);
  EXPECT_EQ(w.events[0].what, kLogIsOlder);
  EXPECT_EQ(w.submit(spec).value, job.value + 101);
  EXPECT_EQ(w.state.tables().job(job)->attempt, 3u);
  w.hello(2);
  w.start_what_fits();
  EXPECT_EQ(w.state.tables().job(job)->attempt, 4u) << "one that no node knows";

  // Only the first hello in an epoch is asked, and nobody is believed everything.
  w.events.clear();
  said.highest_job = JobId(job.value + 5000);
  w.must(said);
  EXPECT_TRUE(w.events.empty());
  EXPECT_EQ(w.submit(spec).value, job.value + 102);
  w.must(StartEpoch{"test"});
  said.highest_job = JobId(std::uint64_t{1} << 62);
  w.must(said);
  EXPECT_EQ(w.submit(spec).value, job.value + 103);
}

// Whoever is root on nodes can say anything: all of them together move a number only so far.
TEST(OlderLog, WhatSeveralSayDoesNotAddUp) {
  World w(3);
  const JobId job = w.submit(World::batch());
  w.must(StartEpoch{"test"});
  w.must(NodeHello{w.node(1), {}, JobId(9'000'000), {{job, 1000}, {job, 2000}, {job, 3000}}});
  EXPECT_EQ(w.job(job).attempt, 0u);
  w.must(NodeHello{w.node(2), {}, JobId(18'000'000), {{job, 900}}});
  w.must(NodeHello{w.node(3), {}, JobId(18'000'000), {{job, 1800}}});
  EXPECT_EQ(w.job(job).attempt, 900u);
  EXPECT_EQ(w.submit(World::batch()).value, 9'000'001u);
}

TEST(OlderLog, ANodeThatJoinedAfterTheBackupIsAskedAsWell) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.must(StartEpoch{"test"});
  Node facts = w.node(1);
  facts.meta.name = "n2";
  w.must(NodeHello{facts, {}, JobId(job.value + 100), {{job, 3}}});
  EXPECT_EQ(w.submit(World::batch()).value, job.value + 101);
  EXPECT_EQ(w.job(job).attempt, 3u);
  w.must(NodeHello{facts, {}, JobId(job.value + 500), {{job, 7}}});
  EXPECT_EQ(w.submit(World::batch()).value, job.value + 102) << "once";
  EXPECT_EQ(w.job(job).attempt, 3u);
}

TEST(OlderLog, WhoSaysMuchIsHeardInParts) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.must(StartEpoch{"test"});
  NodeHello said{w.node(1), {}, {}, {}};
  for (std::uint64_t i = 0; i < 20'000; ++i) said.attempts.push_back({JobId(i + 2 + job.value), 1});
  said.attempts.push_back({job, 5});
  Command command{kController, said, {}};
  int parts = 1;
  for (auto outcome = apply(w.state, command, w.now); outcome.ok() && outcome->rest && parts < 100; ++parts) {
    EXPECT_FALSE(w.state.inner().epoch.heard.contains(w.id(1))) << "not before all of it is known";
    command.part = *outcome->rest;
    outcome = apply(w.state, command, w.now);
  }
  EXPECT_GT(parts, 2);
  EXPECT_LT(parts, 10);
  EXPECT_TRUE(w.state.inner().epoch.heard.contains(w.id(1)));
  EXPECT_EQ(w.job(job).attempt, 5u);
  check_invariants(w.state);
}

TEST(OlderLog, WhoseHelloWasTakenBackHasNotBeenHeard) {
  World w(1);
  Txn txn(w.state.inner(), kController, w.now);
  txn.note_heard(NodeId(7));
  txn.roll_back();
  EXPECT_FALSE(w.state.inner().epoch.heard.contains(NodeId(7)));
}

// As far as that log knows the job runs; the node has run its second attempt since then.
TEST(OlderLog, AJobThatRanInTheBackupGoesAboveWhatTheNodeHasSeen) {
  World w(1);
  JobSpec spec = World::batch();
  const JobId job = w.submit(spec);
  w.settle();
  ASSERT_EQ(w.state.tables().job(job)->state, JobState::kRunning);
  w.must(StartEpoch{"test"});
  w.must(NodeHello{w.node(1), {}, {}, {{job, 2}}});
  w.must(RequeueJob{{job, {}}});
  w.obey();
  w.now = w.now + minutes(1);
  w.must(Tick{});  // sees how long nobody heard; what is due comes with the next
  w.must(Tick{});
  w.settle();
  EXPECT_EQ(w.state.tables().job(job)->attempt, 3u) << "the node knows the second one already";
}

// Steps of a job that goes on.
class OlderLogSteps : public testing::Test {
 protected:
  OlderLogSteps() {
    job = w.submit(World::batch(2));
    w.settle();
    w.wait(seconds(1));
    w.must(StartEpoch{"test"});
    w.wait(seconds(1));
  }
  StepNo create() {
    StepSpec spec;
    spec.argv = {"true"};
    spec.tasks = 2;
    spec.overlap = true;
    const Answer answer = w.must(CreateStep{job, std::make_shared<const StepSpec>(spec)});
    return answer.step;
  }
  void hello(std::uint32_t i, StepNo next) { w.must(NodeHello{w.node(i), {}, {}, {{job, 1, next}}}); }
  const Step& step(StepNo number) { return *w.state.tables().step(job, number); }

  World w{2};
  JobId job;
};

TEST_F(OlderLogSteps, NumbersThatANodeHasUsedAreNotGivenOutAgain) {
  hello(1, 3);
  EXPECT_EQ(create(), 3);
  hello(2, 7);
  EXPECT_EQ(create(), 7);
  hello(2, 9);
  EXPECT_EQ(create(), 8) << "it is asked once";
}

TEST_F(OlderLogSteps, NobodyIsBelievedEverything) {
  hello(1, INT32_MAX);
  hello(2, -5);
  EXPECT_EQ(create(), 0);
}

TEST_F(OlderLogSteps, ANodeHasNoWordOnWhatRunsElsewhere) {
  w.hello(3);
  w.must(StartEpoch{"test"});
  w.wait(seconds(1));
  const StepNo number = create();
  hello(3, 5);
  EXPECT_FALSE(step(number).cancelled);
  EXPECT_EQ(create(), number + 1);
}

TEST_F(OlderLogSteps, ANodeThatWasLostMeanwhileIsAskedWhenItComes) {
  w.must(NodeLost{w.id(1)});
  hello(1, 3);
  EXPECT_EQ(create(), 3);
}

// The node would take its start for one it knows, and say nothing: its srun would wait for ever.
TEST_F(OlderLogSteps, AStepThatWasMadeBeforeTheNodeSaidSoEnds) {
  const StepNo number = create();
  ASSERT_EQ(number, 0);
  w.actions.clear();  // the node has no link yet
  hello(2, 3);
  EXPECT_TRUE(step(number).cancelled);
  EXPECT_EQ(step(number).exit.code, 1);
  w.obey();  // the other node is told to stop its part
  EXPECT_EQ(step(number).state, StepState::kEnded);
  EXPECT_EQ(w.job(job).state, JobState::kRunning);
  EXPECT_EQ(create(), 3);
}

TEST_F(OlderLogSteps, StepsThatTheLogKnowsGoOn) {
  hello(1, 0);
  hello(2, 0);
  const StepNo number = create();
  w.obey();
  w.wait(seconds(1));
  w.must(StartEpoch{"test"});
  w.wait(seconds(1));
  hello(1, number + 1);
  hello(2, number + 5);
  EXPECT_EQ(step(number).state, StepState::kRunning);
}

TEST(OlderLog, WhatAccountingHasSeenIsNotGivenOutAgain) {
  World w(1);
  const JobId runs = w.submit(World::batch());
  w.settle();
  const JobId waits = w.submit(World::batch());
  w.must(LearnAttempts{{{runs, 1, 4}, {runs, 5, 0}, {waits, 2, 0}, {JobId(99), 1, 1}}});
  EXPECT_EQ(w.job(runs).next_step, 4);
  EXPECT_EQ(w.job(runs).attempt, 1u);
  EXPECT_EQ(w.job(waits).attempt, 2u);
  w.must(RequeueJob{{runs, {}}});
  w.obey();
  w.wait(minutes(1));
  w.must(Tick{});
  w.settle();
  EXPECT_EQ(w.job(runs).attempt, 6u);
  EXPECT_EQ(w.refused(LearnAttempts{}, {World::kAlice, false}), Errc::kDenied);
}

// What ran meanwhile waits for others in this log, and is woken by them.
TEST(OlderLog, AJobThatWaitsForOthersGoesOnWaiting) {
  World w(1);
  const JobId first = w.submit(World::batch());
  w.settle();
  JobSpec spec = World::batch();
  Dependency after;
  after.job = first;
  spec.dependencies = std::vector<Dependency>{after};
  const JobId second = w.submit(spec);
  w.must(LearnAttempts{{{second, 2, 0}}});
  EXPECT_EQ(w.job(second).hold, Hold::kDependency);
  w.must(CancelJob{{first, {}}});
  w.obey();
  w.must(Tick{});
  w.settle();
  EXPECT_EQ(w.state_of(second), JobState::kRunning);
  EXPECT_EQ(w.job(second).attempt, 3u);
}

// A node that has had this attempt of a job, or of another that bore its id, says so and starts nothing.
TEST(OlderLog, AStartThatANodeTakesForAnOldOneIsNoFailure) {
  World w(1);
  JobSpec spec = World::batch();
  spec.requeue = false;
  const JobId id = w.submit(spec);
  ASSERT_EQ(w.start_what_fits(), 1u);
  w.actions.clear();
  ASSERT_TRUE(w.report(1, id, MemberStopped{.refused = true}).ok());
  EXPECT_EQ(w.state_of(id), JobState::kPending) << "nothing of it has run";
  w.wait(minutes(1));
  w.must(Tick{});
  w.settle();
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
  EXPECT_EQ(w.job(id).attempt, 2u);
  // What has run once is not run again.
  ASSERT_TRUE(w.report(1, id, MemberStopped{.refused = true}).ok());
  EXPECT_EQ(w.state_of(id), JobState::kNodeFail);
}

TEST(OlderLog, ANodeThatRefusesForEverDoesNotStartAJobForEver) {
  World w(1);
  const JobId id = w.submit(World::batch());
  for (std::uint32_t i = 0; i <= CoreSettings{}.requeues_max; ++i) {
    ASSERT_EQ(w.start_what_fits(), 1u);
    w.actions.clear();
    ASSERT_TRUE(w.report(1, id, MemberStopped{.refused = true}).ok());
    w.wait(minutes(1));
    w.must(Tick{});
  }
  EXPECT_EQ(w.job(id).hold, Hold::kRequeueLimit);
}

}  // namespace
}  // namespace lockstep
