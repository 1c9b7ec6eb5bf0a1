// Health checks that run as jobs: where and when they start, what their ends say of a node, and for whom they go.
#include <gtest/gtest.h>

#include "base/mutant.h"
#include "base/text.h"
#include "core/testing.h"
#include "rules/fit.h"

namespace lockstep {
namespace {

struct HealthWorld : World {
  explicit HealthWorld(std::uint32_t nodes) : World(nodes) { must(PutHealthCheck{check()}); }

  static HealthCheck check() {
    HealthCheck one;
    one.meta.name = "gpus";
    one.user = "bob";
    one.script = "nvidia-smi";
    one.nodes = {"ALL"};
    one.every = hours(1);
    one.time_limit = minutes(5);
    one.gpus = true;
    return one;
  }
  JobId start(std::uint32_t i, const char* name = "gpus") {
    const JobId job = must(RunHealthCheck{name, id(i)}).job;
    obey();
    return job;
  }
  std::string refusal(std::uint32_t i, const char* name = "gpus") {
    const auto outcome = run(RunHealthCheck{name, id(i)});
    return outcome.ok() ? "" : outcome.error().message;
  }
  void end(std::uint32_t i, JobId job, ExitStatus exit) {
    const std::uint32_t incarnation = state.tables().tasks_of(job).front()->incarnation;
    ASSERT_TRUE(report(i, job, TaskEnded{0, 0, incarnation, exit}).ok());
    obey();
  }
  const HealthFinding& finding(std::uint32_t i, const char* name = "gpus") const {
    const HealthFinding* one = finding_of(node(i), name);
    CHECK(one, "no finding");
    return *one;
  }
};

TEST(Health, ARunIsAJobThatHasTheNodeAlone) {
  HealthWorld w(2);
  const JobId id = w.start(1);
  const Job& job = w.job(id);
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.spec->name, "health:gpus");
  EXPECT_EQ(job.spec->user, World::kBob);
  EXPECT_EQ(job.spec->groups[0].argv, (std::vector<std::string>{"/bin/sh", "-c", "nvidia-smi"}));
  ASSERT_EQ(job.allocation->grants.size(), 1u);
  EXPECT_EQ(job.allocation->grants[0].devices.count(), World::kGpus);
  EXPECT_TRUE(job.allocation->grants[0].whole_node);
  EXPECT_EQ(job.limit_end - job.started, minutes(5));

  w.end(1, id, {});
  EXPECT_EQ(w.state_of(id), JobState::kCompleted);
  EXPECT_EQ(w.finding(1).verdict, HealthVerdict::kHealthy);
  EXPECT_EQ(w.finding(1).job, id);
  EXPECT_TRUE(node_usable(w.node(1)));
  EXPECT_EQ(w.refusal(1), "health check gpus is not due on node n1 yet");
  w.pass(hours(1));
  EXPECT_TRUE(w.start(1));
}

TEST(Health, AFailureClosesTheNodeAndTheNextSuccessOpensIt) {
  HealthWorld w(1);
  const JobId bad = w.start(1);
  w.end(1, bad, {3, 0, false});
  EXPECT_EQ(w.state_of(bad), JobState::kFailed);
  EXPECT_EQ(w.finding(1).verdict, HealthVerdict::kBad);
  EXPECT_FALSE(node_usable(w.node(1)));
  EXPECT_EQ(reason_of(w.node(1)).words, format("Health check gpus: exit code 3 (job {})", bad.value));
  const JobId waits = w.submit(World::batch());
  w.settle();
  EXPECT_EQ(w.state_of(waits), JobState::kPending);

  w.pass(hours(1));
  const JobId good = w.start(1);  // although the node is closed
  w.end(1, good, {});
  EXPECT_TRUE(node_usable(w.node(1)));
  EXPECT_EQ(reason_of(w.node(1)).words, "");
  w.settle();
  EXPECT_EQ(w.state_of(waits), JobState::kRunning);
}

TEST(Health, WhatAnAdministratorDrainedStaysDrained) {
  HealthWorld w(1);
  const JobId bad = w.start(1);
  w.end(1, bad, {1, 0, false});
  w.must(UpdateNode{.name = "n1", .drain = true, .reason = "a new fan"});
  w.pass(hours(1));
  EXPECT_EQ(w.refusal(1), "node n1 cannot be used now");

  w.must(UpdateNode{.name = "n1", .drain = false});
  EXPECT_FALSE(node_usable(w.node(1))) << "what the check found is seen now";
  w.must(UpdateNode{.name = "n1", .drain = false});
  EXPECT_TRUE(node_usable(w.node(1)));
  EXPECT_EQ(w.finding(1).verdict, HealthVerdict::kBad) << "what was found is still told";
}

TEST(Health, ADrainDuringARunStays) {
  const auto drained_at_its_end = [] {
    HealthWorld w(1);
    const JobId id = w.start(1);
    w.must(UpdateNode{.name = "n1", .drain = true});
    w.end(1, id, {});
    return w.node(1).drain;
  };
  EXPECT_TRUE(drained_at_its_end());
  planted = Mutant::kHealthOpensDrained;  // what the test sees, it would see of the bug
  EXPECT_FALSE(drained_at_its_end());
  planted = Mutant::kNone;
}

TEST(Health, TellingClosesNothing) {
  HealthWorld w(1);
  HealthCheck check = HealthWorld::check();
  check.on_failure = OnUnhealthy::kTell;
  w.must(PutHealthCheck{check});
  const JobId id = w.start(1);
  w.end(1, id, {0, 11, false});
  EXPECT_EQ(w.finding(1).verdict, HealthVerdict::kSuspect);
  EXPECT_EQ(evidence_of(w.finding(1)), format("ended by signal 11 (job {})", id.value));
  EXPECT_TRUE(node_usable(w.node(1)));
}

TEST(Health, WhatPassesNowhereClosesThreeNodesAtMost) {
  HealthWorld w(6);
  for (std::uint32_t i = 1; i <= 4; ++i) w.end(i, w.start(i), {1, 0, false});
  for (std::uint32_t i = 1; i <= 3; ++i) EXPECT_FALSE(node_usable(w.node(i))) << i;
  EXPECT_EQ(w.finding(4).verdict, HealthVerdict::kSuspect);
  EXPECT_TRUE(node_usable(w.node(4)));
  w.end(5, w.start(5), {});
  w.end(6, w.start(6), {1, 0, false});
  EXPECT_FALSE(node_usable(w.node(6))) << "it has passed on n5: the check is well";
}

TEST(Health, OutputThatCannotBeOpenedIsNoFaultOfTheNode) {
  HealthWorld w(1);
  const JobId id = w.start(1);
  w.end(1, id, {0, kNotOpenedSignal, false, true});
  EXPECT_EQ(w.finding(1).verdict, HealthVerdict::kSuspect);
  EXPECT_EQ(evidence_of(w.finding(1)), format("its output cannot be opened (job {})", id.value));
}

TEST(Health, AChangedCheckLooksAnewAtOnce) {
  HealthWorld w(1);
  w.end(1, w.start(1), {1, 0, false});
  EXPECT_FALSE(node_usable(w.node(1)));
  w.pass(minutes(2));
  w.must(PutHealthCheck{HealthWorld::check()});
  EXPECT_NE(w.refusal(1), "") << "nothing has changed";
  HealthCheck mended = HealthWorld::check();
  mended.script = "true";
  w.must(PutHealthCheck{mended});
  w.end(1, w.start(1), {});
  EXPECT_TRUE(node_usable(w.node(1)));
}

TEST(Health, TheTimeLimitIsAFailure) {
  HealthWorld w(1);
  const JobId id = w.start(1);
  w.pass(minutes(5));
  w.obey();
  EXPECT_EQ(w.state_of(id), JobState::kTimeout);
  EXPECT_TRUE(w.finding(1).timed_out);
  EXPECT_EQ(reason_of(w.node(1)).words, format("Health check gpus: over its time limit (job {})", id.value));
}

TEST(Health, WhatWasCancelledOrLostSaysNothing) {
  HealthWorld w(2);
  const JobId cancelled = w.start(1);
  w.must(CancelJob{{cancelled, {}}});
  w.obey();
  EXPECT_EQ(w.state_of(cancelled), JobState::kCancelled);
  EXPECT_EQ(w.finding(1).verdict, HealthVerdict::kUnknown);
  EXPECT_EQ(w.refusal(1), "health check gpus is not due on node n1 yet");
  w.pass(kHealthPause);

  const JobId lost = w.start(1);
  w.lose(1);
  w.fence(1);
  EXPECT_EQ(w.state_of(lost), JobState::kNodeFail);
  EXPECT_EQ(w.finding(1).verdict, HealthVerdict::kUnknown);
  EXPECT_EQ(w.refused(RequeueJob{{lost, {}}}), Errc::kInvalid);
}

TEST(Health, RunsAreOnIdleNodesOnlyAndFew) {
  HealthWorld w(3);
  const JobId work = w.submit(World::batch());
  w.settle();
  EXPECT_EQ(w.refusal(w.first_node(work)), format("node n{} is not idle", w.first_node(work)));
  const std::uint32_t other = w.first_node(work) == 2 ? 3 : 2;
  EXPECT_TRUE(w.start(other));
  EXPECT_EQ(w.refusal(other), format("health check gpus is not due on node n{} yet", other));
  EXPECT_EQ(w.refusal(5 - other), "1 nodes are checked already, as many as may be at once");
}

TEST(Health, AnybodyPreemptsARunAtOnce) {
  HealthWorld w(1);
  const JobId run = w.start(1);
  const JobId work = w.submit(World::batch(1, 8));
  PlannedPreemption planned;
  planned.job = work;
  planned.partition = w.state.tables().default_partition()->meta.name;
  planned.grants = {*choose_grant(w.node(1), NodeLoad{}, w.job(work).spec->groups[0], 0, 1, 0)};
  planned.victims = {run};
  ApplyPlan plan;
  plan.preemptions = {planned};
  EXPECT_TRUE(w.must(plan).refused.empty());
  w.pass({});
  w.obey();
  EXPECT_EQ(w.state_of(run), JobState::kPreempted);
  EXPECT_EQ(w.finding(1).verdict, HealthVerdict::kUnknown);
  w.settle();
  EXPECT_EQ(w.state_of(work), JobState::kRunning);
}

TEST(Health, NothingCountsAgainstAnybody) {
  HealthWorld w(1);
  Account account;
  account.meta.name = "ops";
  w.must(PutAccount{account});
  Association bob;
  bob.account = "ops";
  bob.user = "bob";
  bob.is_default = true;
  w.must(PutAssociation{bob});
  const JobId id = w.start(1);
  EXPECT_EQ(w.job(id).spec->account, "ops");
  w.wait(minutes(1));
  w.end(1, id, {});
  EXPECT_TRUE(w.state.tables().usages.empty());
}

TEST(Health, WhatNobodyAsksForClosesNothing) {
  HealthWorld w(1);
  w.end(1, w.start(1), {1, 0, false});
  HealthCheck check = HealthWorld::check();
  check.on_failure = OnUnhealthy::kTell;
  w.must(PutHealthCheck{check});
  w.must(RunHealthCheck{"gpus", w.id(1)});
  EXPECT_TRUE(node_usable(w.node(1)));
  EXPECT_EQ(w.finding(1).verdict, HealthVerdict::kSuspect);
  w.must(RemoveHealthCheck{"gpus"});
  w.must(RunHealthCheck{"gpus", w.id(1)});
  EXPECT_TRUE(w.node(1).health.empty());
  EXPECT_EQ(w.refused(RunHealthCheck{"gpus", w.id(1)}), Errc::kNotFound);
}

TEST(Health, RefusesWhatCannotBe) {
  HealthWorld w(1);
  const auto refused = [&](auto edit) {
    HealthCheck one = HealthWorld::check();
    edit(one);
    const auto outcome = w.run(PutHealthCheck{one});
    return outcome.ok() ? "" : outcome.error().message;
  };
  EXPECT_TRUE(refused([](auto& c) { c.user = "root"; }).starts_with("health check gpus cannot run as root"));
  EXPECT_EQ(refused([](auto& c) { c.script.clear(); }), "health check gpus has no script");
  EXPECT_EQ(refused([](auto& c) { c.every = seconds(9); }),
            "health check gpus runs too often: every ten seconds is as often as it may");
  EXPECT_EQ(refused([](auto& c) { c.nodes.clear(); }), "health check gpus names no nodes: ALL is every one");
  EXPECT_EQ(refused([](auto& c) { c.time_limit = {}; }), "health check gpus needs a time limit, of a day at most");
  EXPECT_EQ(w.refused(PutHealthCheck{HealthWorld::check()}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(RunHealthCheck{"gpus", w.id(1)}, kAliceCalls), Errc::kDenied);

  JobSpec pretends = World::batch();
  pretends.health_check = "gpus";
  EXPECT_EQ(w.refused(SubmitJob{.spec = std::make_shared<const JobSpec>(pretends)}), Errc::kDenied);

  HealthCheck stranger = HealthWorld::check();
  stranger.user = "carol";
  w.must(PutHealthCheck{stranger});
  EXPECT_EQ(w.refusal(1), "health check gpus: user carol is not known yet; it is from its first command on");
}

TEST(Health, OnlyNodesThatItNames) {
  HealthWorld w(12);
  HealthCheck check = HealthWorld::check();
  check.nodes = {"n2", "n11", "n2", "n1"};
  w.must(PutHealthCheck{check});
  for (std::uint32_t i = 1; i <= 12; ++i)
    EXPECT_EQ(checks_node(*w.state.tables().health_checks.at("gpus"), w.node(i)), i == 1 || i == 2 || i == 11) << i;
  EXPECT_EQ(w.refusal(3), "health check gpus is not meant for node n3");
  check.node_class = "large";
  w.must(PutHealthCheck{check});
  EXPECT_EQ(w.refusal(2), "health check gpus is not meant for node n2");
}

TEST(Health, AShellOfItsOwn) {
  HealthWorld w(1);
  HealthCheck check = HealthWorld::check();
  check.script = "#!/bin/bash -e\ntrue\n";
  check.gpus = false;
  check.output = "/var/log/%x/%N-100%%.log";
  w.must(PutHealthCheck{check});
  const Job& job = w.job(w.start(1));
  EXPECT_EQ(job.spec->groups[0].argv, (std::vector<std::string>{"/bin/bash", "-e", "-c", check.script}));
  EXPECT_EQ(job.spec->std_out, "/var/log/gpus/n1-100%.log");
  EXPECT_EQ(job.allocation->grants[0].devices.count(), 0u);
  EXPECT_EQ(job.allocation->grants[0].cores.count(), World::kCores);
}

}  // namespace
}  // namespace lockstep
