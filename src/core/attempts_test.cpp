#include "core/testing.h"

namespace lockstep {
namespace {

TEST(Attempts, BatchJobRunsAndEnds) {
  World w(4);
  const JobId job = w.submit(World::batch(2, 8));
  EXPECT_EQ(w.state_of(job), JobState::kPending);
  EXPECT_EQ(w.start_what_fits(), 1u);
  EXPECT_EQ(w.state_of(job), JobState::kStarting);
  EXPECT_EQ(w.actions.size(), 2u);
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  EXPECT_EQ(w.job(job).started, w.now);
  EXPECT_EQ(w.state.load(w.id(1)).devices.count(), 8u);
  w.wait(seconds(5));
  w.end_script(job);
  EXPECT_EQ(w.state_of(job), JobState::kCompleted);
  EXPECT_EQ(w.job(job).ended, w.now);
  EXPECT_EQ(w.state.load(w.id(1)), NodeLoad{});
}

TEST(Attempts, FirstMemberIsEnoughForAScript) {
  World w(2);
  const JobId job = w.submit(World::batch(2));
  w.start_what_fits();
  (void)w.report(1, job, AttemptStarted{});
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
}

TEST(Attempts, InteractiveJobWaitsForEveryMember) {
  World w(2);
  const JobId job = w.submit(World::interactive(2));
  w.start_what_fits();
  (void)w.report(1, job, AttemptStarted{});
  EXPECT_EQ(w.state_of(job), JobState::kStarting);
  (void)w.report(2, job, AttemptStarted{});
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  w.must(EndJob{job, {3, 0, false}, false}, {World::kAlice, false});
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kFailed);
  EXPECT_EQ(w.job(job).exit.code, 3);
}

TEST(Attempts, ClientLostCancels) {
  World w(1);
  const JobId job = w.submit(World::interactive());
  w.settle();
  w.must(EndJob{job, {}, true});
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kCancelled);
}

TEST(Attempts, ExitsHaveTheirNames) {
  World w(1);
  const std::vector<std::tuple<ExitStatus, JobState, std::string>> cases = {
      {{0, 0, false}, JobState::kCompleted, ""},
      {{3, 0, false}, JobState::kFailed, "NonZeroExitCode"},
      {{0, 11, false}, JobState::kFailed, "RaisedSignal:11"},
      {{0, 53, false}, JobState::kFailed, "RaisedSignal:53(StdIn_StdOut_or_StdErr_could_not_be_opened_on_n1)"},
      {{0, 9, true}, JobState::kOutOfMemory, "OutOfMemory"}};
  for (const auto& [exit, state, reason] : cases) {
    const JobId job = w.submit(World::batch());
    w.settle();
    w.end_script(job, exit);
    EXPECT_EQ(w.state_of(job), state);
    EXPECT_EQ(w.job(job).end_reason, reason);
    EXPECT_EQ(w.job(job).exit, exit);
  }
}

TEST(Attempts, EndsOnlyWhenEveryMemberStopped) {
  World w(3);
  const JobId job = w.submit(World::batch(3, 8));
  w.settle();
  (void)w.report(1, job, ScriptEnded{});
  EXPECT_EQ(w.state_of(job), JobState::kCompleting);
  EXPECT_EQ(w.actions.size(), 3u);
  (void)w.report(1, job, MemberStopped{});
  (void)w.report(1, job, MemberStopped{});  // doubled
  (void)w.report(2, job, MemberStopped{});
  EXPECT_EQ(w.state_of(job), JobState::kCompleting);
  EXPECT_EQ(w.state.load(w.id(1)).devices.count(), 8u);
  (void)w.report(3, job, MemberStopped{});
  EXPECT_EQ(w.state_of(job), JobState::kCompleted);
}

TEST(Attempts, StaleReportsChangeNothing) {
  World w(2);
  const JobId job = w.submit(World::batch(2));
  w.settle();
  const Seq seq = w.state.tables().seq;
  (void)w.report(1, job, 7, ScriptEnded{});                                     // another attempt
  (void)w.report(2, job, ScriptEnded{});                                        // not where the script runs
  (void)w.run(AgentReport{w.id(1), "another-boot", job, 1, ScriptEnded{}});     // another boot
  (void)w.run(AgentReport{NodeId(77), w.boot(1), job, 1, ScriptEnded{}});       // no such node
  (void)w.run(AgentReport{w.id(1), w.boot(1), JobId(77), 1, MemberStopped{}});  // no such job
  (void)w.report(1, job, AttemptStarted{});                                     // doubled
  EXPECT_EQ(w.state.tables().seq, seq);
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
}

TEST(Attempts, LostNodeRequeuesOnlyAfterProof) {
  World w(3);
  const JobId job = w.submit(World::batch(2, 8));
  w.settle();
  w.lose(2);
  EXPECT_EQ(w.state_of(job), JobState::kRunning);  // silence proves nothing
  w.pass(hours(2));
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  w.fence(2);
  EXPECT_EQ(w.state_of(job), JobState::kCompleting);
  EXPECT_EQ(w.state.load(w.id(1)).devices.count(), 8u);
  w.obey();  // node 1 stops its part
  EXPECT_EQ(w.state_of(job), JobState::kPending);
  EXPECT_EQ(w.job(job).hold, Hold::kBeginTime);
  EXPECT_EQ(w.job(job).restarts, 1u);
  w.pass(seconds(2));
  EXPECT_EQ(w.job(job).hold, Hold::kNone);
  w.settle();
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  EXPECT_EQ(w.job(job).attempt, 2u);
  EXPECT_EQ(w.job(job).allocation->grants[1].node, w.id(3));
}

TEST(Attempts, NewBootIsProof) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.settle();
  w.reboot(1);
  EXPECT_EQ(w.state_of(job), JobState::kPending);
  EXPECT_EQ(w.job(job).restarts, 1u);
}

TEST(Attempts, ANodeThatComesBackGoesOnWithItsWork) {
  World w(2);
  const JobId job = w.submit(World::batch(2));
  w.settle();
  w.lose(2);
  w.pass(minutes(10));
  w.silent.clear();
  w.hello(2);
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  EXPECT_EQ(w.node(2).link, NodeLink::kUp);
  EXPECT_EQ(w.node(2).reason, "");
  EXPECT_TRUE(reconcile(w.state, w.id(2), std::vector<Holding>{{job, 1, false, {}, {}}}).empty());
}

TEST(Attempts, WorkIsGivenUpByNameOnlyOnALostNode) {
  World w(2);
  JobSpec spec = World::batch(2);
  spec.requeue = false;
  const JobId job = w.submit(spec);
  w.settle();
  w.must(GiveUpMember{w.id(2), job, 1});
  EXPECT_EQ(w.state_of(job), JobState::kRunning);  // its node is up
  w.lose(2);
  w.must(GiveUpMember{w.id(2), job, 2});
  w.must(GiveUpMember{w.id(2), JobId(99), 1});
  w.must(GiveUpMember{NodeId(99), job, 1});
  EXPECT_EQ(w.state_of(job), JobState::kRunning);  // not this attempt
  w.must(GiveUpMember{w.id(2), job, 1});
  EXPECT_EQ(w.state_of(job), JobState::kCompleting);
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kCompleting);  // nothing proves that it has stopped
  w.fence(2);
  EXPECT_EQ(w.state_of(job), JobState::kNodeFail);
}

TEST(Attempts, SameBootComesBackAndItsStoppedMemberIsProof) {
  World w(2);
  const JobId job = w.submit(World::batch(2));
  w.settle();
  w.lose(2);
  w.must(RequeueJob{{job, {}}});
  w.obey();
  w.silent.clear();
  w.hello(2);
  EXPECT_EQ(w.state_of(job), JobState::kCompleting);
  for (const Action& action : reconcile(w.state, w.id(2), std::vector<Holding>{{job, 1, false, {}, {}}}))
    w.actions.push_back(action);
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kPending);
}

TEST(Attempts, OldFenceProvesNothing) {
  World w(2);
  const JobId job = w.submit(World::batch(2));
  w.settle();
  w.lose(2);
  w.must(NodeFenced{w.id(2), "an-older-boot", "power"});
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
}

TEST(Attempts, WithoutRequeueALossEndsTheJob) {
  World w(2);
  JobSpec spec = World::batch(2);
  spec.requeue = false;
  const JobId job = w.submit(spec);
  w.settle();
  EXPECT_EQ(w.job(job).allocation->fence_after, kForever);
  w.lose(2);
  w.fence(2);
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kNodeFail);
  EXPECT_EQ(w.job(job).end_reason, "NodeDown n2");
}

TEST(Attempts, SurvivesTheLossOfANodeItCanDoWithout) {
  World w(3);
  JobSpec spec = World::interactive(3);
  spec.survive_node_loss = true;
  const JobId job = w.submit(spec);
  w.settle();
  w.lose(3);
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  w.fence(3);
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  w.must(EndJob{job, {}, false});
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kCompleted);
}

TEST(Attempts, TooManyRequeuesAreHeld) {
  CoreSettings settings;
  settings.requeues_max = 2;
  World w(1, settings);
  const JobId job = w.submit(World::batch());
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(w.job(job).hold, Hold::kRequeueLimit);
    w.pass(seconds(3));
    w.settle();
    w.reboot(1);
  }
  EXPECT_EQ(w.job(job).hold, Hold::kRequeueLimit);
  w.pass(hours(1));
  EXPECT_EQ(w.start_what_fits(), 0u);
  w.must(ReleaseJob{{job, {}}});
  w.settle();
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
}

TEST(Attempts, FailedLaunchIsTriedAgainThenHeld) {
  CoreSettings settings;
  settings.requeues_max = 1;
  World w(1, settings);
  const JobId job = w.submit(World::batch());
  for (int i = 0; i < 2; ++i) {
    w.pass(seconds(3));
    EXPECT_EQ(w.start_what_fits(), 1u);
    w.actions.clear();
    (void)w.report(1, job, LaunchFailed{"no such directory"});
    EXPECT_EQ(w.state_of(job), JobState::kCompleting);
    w.obey();
  }
  EXPECT_EQ(w.job(job).hold, Hold::kLaunchFailed);
}

TEST(Attempts, FailedLaunchOfAnInteractiveJobFailsIt) {
  World w(1);
  const JobId job = w.submit(World::interactive());
  w.start_what_fits();
  w.actions.clear();
  (void)w.report(1, job, LaunchFailed{"no such user"});
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kFailed);
  EXPECT_EQ(w.job(job).end_reason, "JobLaunchFailure");
}

TEST(Attempts, LostWorkCountsAsNodeFailure) {
  World w(2);
  JobSpec spec = World::batch(2);
  spec.requeue = false;
  const JobId job = w.submit(spec);
  w.settle();
  (void)w.report(2, job, MemberStopped{});
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kNodeFail);
}

// Peers of a dead rank fail before anybody knows that its node is gone; a node that only stood still had no part in it.
TEST(Attempts, AFailureIsTheNodesOnlyWhenTheNodeIsProvenGone) {
  for (const bool gone : {false, true}) {
    World w(2);
    const JobId job = w.submit(World::batch(2));
    w.settle();
    w.lose(2);
    w.end_script(job, {1, 0, false});
    w.obey();
    EXPECT_EQ(w.state_of(job), JobState::kCompleting);
    EXPECT_EQ(w.job(job).ending, JobState::kFailed);
    if (gone) {
      w.fence(2);
      EXPECT_EQ(w.state_of(job), JobState::kPending);
      EXPECT_EQ(w.job(job).restarts, 1u);
      continue;
    }
    w.silent.clear();
    w.hello(2);
    for (const Action& action : reconcile(w.state, w.id(2), std::vector<Holding>{{job, 1, false, {}, {}}}))
      w.actions.push_back(action);
    w.obey();
    EXPECT_EQ(w.state_of(job), JobState::kFailed);
    EXPECT_EQ(w.job(job).end_reason, "NonZeroExitCode");
  }
}

TEST(Attempts, FirstStepIsCreatedWithTheStart) {
  World w(2);
  SubmitJob ask{.spec = std::make_shared<const JobSpec>(World::interactive(2))};
  auto step = std::make_shared<StepSpec>();
  step->argv = {"hostname"};
  ask.first_step = step;
  const JobId job = w.submit(std::move(ask));
  EXPECT_EQ(w.state.tables().step(job, 0), nullptr);
  w.start_what_fits();
  ASSERT_NE(w.state.tables().step(job, 0), nullptr);
  w.obey();
  EXPECT_EQ(w.state.tables().step(job, 0)->state, StepState::kRunning);
  (void)w.report(1, job, StepEnded{0, {{0, {2, 0, false}}}});
  (void)w.report(2, job, StepEnded{0, {{1, {}}}});
  EXPECT_EQ(w.state.tables().step(job, 0)->state, StepState::kEnded);
  EXPECT_EQ(w.job(job).derived_exit.code, 2);
}

TEST(Attempts, ReconcileTellsWhatWasMissed) {
  World w(2);
  const JobId job = w.submit(World::batch(2));
  w.start_what_fits();
  w.actions.clear();
  const auto missed = reconcile(w.state, w.id(1), {});
  ASSERT_EQ(missed.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<StartAttempt>(missed[0].body));
  EXPECT_TRUE(reconcile(w.state, w.id(1), std::vector<Holding>{{job, 1, false, {}, {}}}).empty());

  (void)w.report(1, job, AttemptStarted{});
  const auto lost = reconcile(w.state, w.id(1), {});  // it ran here, and the node knows nothing of it
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<StopAttempt>(lost[0].body));

  const auto strange =
      reconcile(w.state, w.id(2), std::vector<Holding>{{JobId(99), 1, false, {}, {}}, {job, 1, false, {}, {}}});
  ASSERT_EQ(strange.size(), 1u);
  EXPECT_EQ(strange[0].job, JobId(99));
  EXPECT_TRUE(std::holds_alternative<StopAttempt>(strange[0].body));

  w.must(CancelJob{{job, {}}});
  w.actions.clear();
  const auto completing = reconcile(w.state, w.id(2), std::vector<Holding>{{job, 1, false, {}, {}}});
  ASSERT_EQ(completing.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<StopAttempt>(completing[0].body));
}

TEST(Attempts, ReconcileNeverRunsAPartTwice) {
  World w(1);
  const JobId job = w.submit(World::interactive());
  w.settle();
  auto step = std::make_shared<StepSpec>();
  step->argv = {"train"};
  w.must(CreateStep{job, step});
  w.actions.clear();  // the launch was lost on the way
  const std::vector<Holding> without{{job, 1, false, {}, {}}}, with{{job, 1, false, {0}, {}}};
  auto told = reconcile(w.state, w.id(1), without);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<StartStep>(told[0].body));
  (void)w.report(1, job, StepStarted{0});
  EXPECT_TRUE(reconcile(w.state, w.id(1), with).empty());
  told = reconcile(w.state, w.id(1), without);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<StopStep>(told[0].body));

  const JobId service = w.submit(World::tasks(1, RestartRule::kAlways, true));
  w.settle();
  told = reconcile(w.state, w.id(1), std::vector<Holding>{with[0], {service, 1, false, {}, {}}});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<StopTask>(told[0].body));
  EXPECT_TRUE(reconcile(w.state, w.id(1), std::vector<Holding>{with[0], {service, 1, false, {}, {{0, 0, 1}}}}).empty());
}

TEST(Attempts, ALostNodeRequeuesTasksThatCannotGoOn) {
  World w(3);
  JobSpec spec = World::tasks(2, RestartRule::kNever, false);
  spec.groups[0].per_node.devices = {{"gpu", "", 8}};
  spec.groups[0].nodes = {2, 2};
  spec.groups[0].tasks_per_node = 1;
  const JobId requeued = w.submit(spec);
  w.settle();
  w.lose(2);
  w.fence(2);
  w.obey();
  EXPECT_EQ(w.state_of(requeued), JobState::kPending);
  w.must(CancelJob{{requeued, {}}});
  w.reboot(2);
  spec.survive_node_loss = true;
  const JobId survivor = w.submit(spec);
  w.settle();
  w.lose(2);
  EXPECT_EQ(w.state_of(survivor), JobState::kRunning);
}

}  // namespace
}  // namespace lockstep
