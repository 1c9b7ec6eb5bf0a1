#include "base/text.h"
#include "core/older_log.h"
#include "core/testing.h"
#include "model/job.h"

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

// Until the next run begins, and long enough for accounting to see it.
TEST(Attempts, WhatARunUsedIsKeptWhereTheJobStartsAgain) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.start_what_fits();
  w.obey();
  w.must(RequeueJob{{job, {}}});
  ASSERT_EQ(w.state_of(job), JobState::kCompleting);
  WorkUse use;
  use.tasks = 1;
  use.user = seconds(3);
  (void)w.report(1, job, ScriptEnded{{0, 15, false}, false, use});
  ASSERT_TRUE(w.job(job).script_use);
  EXPECT_EQ(*w.job(job).script_use, use);
  EXPECT_EQ(w.job(job).exit, ExitStatus{});
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kPending);
  EXPECT_FALSE(w.job(job).script_use);
}

TEST(Attempts, FirstMemberIsEnoughForAScript) {
  World w(2);
  const JobId job = w.submit(World::batch(2));
  w.start_what_fits();
  (void)w.report(1, job, AttemptStarted{});
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
}

TEST(Attempts, AScriptThatCouldNotBeStartedHasNotRun) {
  World w(1);
  JobSpec spec = World::batch();
  spec.requeue = false;
  const JobId job = w.submit(spec);
  w.start_what_fits();
  (void)w.report(1, job, LaunchFailed{"no process"});
  EXPECT_EQ(w.state_of(job), JobState::kCompleting);
  EXPECT_TRUE(w.job(job).requeue_after) << "whatever its user said of running again";
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kPending);
  w.pass(minutes(5));
  w.settle();
  ASSERT_EQ(w.state_of(job), JobState::kRunning);
  (void)w.report(1, job, LaunchFailed{"late"});
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kFailed);
}

TEST(Attempts, AnInteractiveJobIsChargedFromItsFirstNodeOn) {
  World w(2);
  JobSpec spec = World::batch(2);
  spec.script.clear();
  spec.groups = [&] {
    std::vector<GroupSpec> groups = spec.groups.get();
    groups[0].launch = Launch::kNothing;
    return groups;
  }();
  spec.time_limit = hours(1);
  const JobId job = w.submit(spec);
  w.start_what_fits();
  (void)w.report(1, job, AttemptStarted{});
  const Instant first = w.now;
  w.wait(seconds(30));
  (void)w.report(2, job, AttemptStarted{});
  ASSERT_EQ(w.state_of(job), JobState::kRunning);
  EXPECT_EQ(w.job(job).started, first);
  EXPECT_EQ(w.job(job).limit_end, first + hours(1));
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
  const JobId waits = w.submit(World::interactive());
  w.must(EndJob{waits, {}, true}, {World::kAlice, false});
  w.settle();
  w.must(EndJob{job, {}, true});
  w.obey();
  for (const JobId id : {job, waits}) {
    EXPECT_EQ(w.state_of(id), JobState::kCancelled);
    EXPECT_EQ(w.job(id).end_reason, "ClientLost");
    EXPECT_FALSE(w.job(id).cancelled_by) << "it was nobody's decision";
  }
}

TEST(Attempts, ExitsHaveTheirNames) {
  World w(1);
  const std::vector<std::tuple<ExitStatus, JobState, std::string>> cases = {
      {{0, 0, false}, JobState::kCompleted, ""},
      {{3, 0, false}, JobState::kFailed, "NonZeroExitCode"},
      {{0, 11, false}, JobState::kFailed, "RaisedSignal:11"},
      {{0, kNotOpenedSignal, false}, JobState::kFailed, "RaisedSignal:53"},
      {{0, kNotOpenedSignal, false, true},
       JobState::kFailed,
       "RaisedSignal:53(StdIn_StdOut_or_StdErr_could_not_be_opened_on_n1)"},
      {{0, 125, true}, JobState::kOutOfMemory, "OutOfMemory"}};
  for (const auto& [exit, state, reason] : cases) {
    const JobId job = w.submit(World::batch());
    w.settle();
    w.end_script(job, exit);
    EXPECT_EQ(w.state_of(job), state);
    EXPECT_EQ(w.job(job).end_reason, reason);
    EXPECT_EQ(w.job(job).exit, exit);
  }
}

// Whether the kernel killed the task itself, or a child whose parent went on.
TEST(Attempts, WhatRanOutOfMemoryEndsInOneWay) {
  World w(1);
  for (const ExitStatus exit : {ExitStatus{0, 9, true}, ExitStatus{137, 0, true}, ExitStatus{0, 0, true}}) {
    const JobId job = w.submit(World::batch());
    w.settle();
    w.end_script(job, exit);
    EXPECT_EQ(w.state_of(job), JobState::kOutOfMemory);
    EXPECT_EQ(w.job(job).exit, (ExitStatus{0, 125, true}));
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

TEST(Attempts, NothingStartsBeforeItsNodeHasAnsweredThisController) {
  World w(2);
  JobSpec spec = World::batch(1, 8);
  spec.requeue = false;
  const JobId running = w.submit(spec);
  w.settle();
  const JobId waiting = w.submit(spec);
  const std::vector<PlannedStart> plan = w.plan();  // made before, applied afterwards
  ASSERT_EQ(plan.size(), 1u);
  const auto other = static_cast<std::uint32_t>(plan[0].grants[0].node.value);
  w.must(StartEpoch{"test"});
  EXPECT_EQ(w.node(1).link, NodeLink::kUnknown);
  const Answer answer = w.must(ApplyPlan{plan});
  EXPECT_EQ(answer.starts_applied, 0u);
  ASSERT_EQ(answer.refused.size(), 1u);
  EXPECT_EQ(answer.refused[0].reason, "NodeNotUp");
  EXPECT_EQ(answer.refused[0].detail, w.name_of(other));
  EXPECT_EQ(w.state_of(running), JobState::kRunning);  // what runs is not touched
  // The machine was started again: nothing of the job was there, so nothing is lost.
  w.reboot(other);
  EXPECT_EQ(w.state_of(waiting), JobState::kPending);
  EXPECT_EQ(w.job(waiting).restarts, 0u);
  EXPECT_EQ(w.job(waiting).attempt, 0u);
  w.settle();
  EXPECT_EQ(w.state_of(waiting), JobState::kRunning);
  EXPECT_EQ(w.job(waiting).attempt, 1u);
  // One that only answers is no node that was lost and is back.
  w.events.clear();
  w.hello(3 - other);
  EXPECT_EQ(w.state_of(running), JobState::kRunning);
  EXPECT_TRUE(std::none_of(w.events.begin(), w.events.end(), [](const Event& e) { return e.what == "NodeBack"; }));
}

// srun without an allocation: its step had ended in time, and its client could not say so before the limit struck.
TEST(Attempts, AStepThatIsTheWholeJobEndsItIfItEndedInTime) {
  for (const bool limit_first : {true, false})
    for (const bool in_time : {true, false}) {
      if (!limit_first && !in_time)
        continue;
      World w(1);
      SubmitJob ask{.spec = std::make_shared<const JobSpec>([] {
                      JobSpec spec = World::interactive(1);
                      spec.time_limit = minutes(10);
                      return spec;
                    }())};
      auto step = std::make_shared<StepSpec>();
      step->argv = {"hostname"};
      ask.first_step = step;
      const JobId job = w.submit(std::move(ask));
      w.settle();
      ASSERT_EQ(w.state.tables().step(job, 0)->state, StepState::kRunning);
      w.silent.insert(1);
      w.pass(minutes(20));
      const Duration ago = in_time ? minutes(15) : Duration{};
      const auto say = [&] {
        w.must(AgentReport{w.id(1), w.boot(1), job, 1, StepEnded{0, {{0, {3, 0, false}}}}, ago});
      };
      if (!limit_first)
        say();
      w.must(Tick{});
      ASSERT_EQ(w.state_of(job), JobState::kCompleting);
      if (limit_first)
        say();
      w.must(AgentReport{w.id(1), w.boot(1), job, 1, MemberStopped{}, {}});
      EXPECT_EQ(w.state_of(job), in_time ? JobState::kFailed : JobState::kTimeout) << limit_first;
      if (in_time) {
        EXPECT_EQ(w.job(job).exit.code, 3);
        EXPECT_EQ(w.job(job).end_reason, "NonZeroExitCode");
        EXPECT_LE(w.job(job).ended, w.job(job).started + minutes(10));
      }
    }
}

// A job of salloc, or of srun that needed the job's number first, whose limit passed while the controller was away.
class ClientThatCannotTell : public ::testing::Test {
 protected:
  ClientThatCannotTell() {
    JobSpec spec = World::interactive(1);
    spec.time_limit = minutes(10);
    job_ = w_.submit(spec);
    w_.settle();
    started_ = w_.job(job_).started;
  }
  // As the engine does it: an epoch begins at the time of the last entry before.
  void controller_is_away(Duration span) {
    w_.must(StartEpoch{"test"});
    w_.wait(span);
    w_.hello(1);
    w_.actions.clear();
  }
  void end(Duration ago) { w_.must(EndJob{job_, {}, false, ago}, kAliceCalls); }
  World w_{1};
  JobId job_;
  Instant started_;
};

TEST_F(ClientThatCannotTell, EndedWhenItSaysSoAsSoonAsItIsHeard) {
  w_.pass(minutes(9) + seconds(40));
  controller_is_away(seconds(40));
  w_.pass(seconds(5));
  EXPECT_EQ(w_.state_of(job_), JobState::kRunning) << "it may still say that it had ended";
  end(seconds(30));
  w_.obey();
  EXPECT_EQ(w_.state_of(job_), JobState::kCompleted);
  EXPECT_EQ((w_.job(job_).ended - started_).us, (minutes(9) + seconds(55)).us);
}

TEST_F(ClientThatCannotTell, SaysSoJustAfterItsLimitStruck) {
  w_.pass(minutes(9) + seconds(40));
  controller_is_away(seconds(40));
  w_.pass(seconds(11));
  ASSERT_EQ(w_.job(job_).ending, JobState::kTimeout);
  end(seconds(30));
  w_.obey();
  EXPECT_EQ(w_.state_of(job_), JobState::kCompleted);
}

TEST_F(ClientThatCannotTell, SaysNothingAndHasTimedOut) {
  w_.pass(minutes(9) + seconds(40));
  controller_is_away(seconds(40));
  w_.pass(seconds(11));
  w_.obey();
  EXPECT_EQ(w_.state_of(job_), JobState::kTimeout);
}

// The first that a controller sees of its own absence may be that timers are due.
TEST_F(ClientThatCannotTell, EvenIfTimersAreWhatTheControllerSeesFirst) {
  w_.pass(minutes(9) + seconds(40));
  w_.must(StartEpoch{"test"});
  w_.wait(seconds(40));
  w_.pass(seconds(5));
  EXPECT_EQ(w_.state_of(job_), JobState::kRunning);
  w_.pass(seconds(6));
  EXPECT_EQ(w_.job(job_).ending, JobState::kTimeout);
}

// Nobody pays less by saying that it had ended long ago.
TEST_F(ClientThatCannotTell, IsNotBelievedOfATimeWhenItCouldHaveTold) {
  w_.pass(minutes(5));
  end(seconds(50));
  w_.obey();
  EXPECT_EQ((w_.job(job_).ended - started_).us, minutes(5).us);
}

TEST_F(ClientThatCannotTell, IsBelievedOfTheAbsenceOnly) {
  w_.pass(minutes(5));
  controller_is_away(seconds(20));
  end(seconds(50));
  w_.obey();
  EXPECT_EQ((w_.job(job_).ended - started_).us, minutes(5).us);
}

TEST_F(ClientThatCannotTell, IsBelievedOfTheLastMinuteOnly) {
  w_.pass(minutes(1));
  controller_is_away(minutes(5));
  end(minutes(4));
  w_.obey();
  EXPECT_EQ((w_.job(job_).ended - started_).us, minutes(5).us);
}

TEST_F(ClientThatCannotTell, IsNotBelievedLongAfterTheAbsence) {
  w_.pass(minutes(1));
  controller_is_away(minutes(2));
  w_.pass(seconds(40));
  end(seconds(50));
  w_.obey();
  EXPECT_EQ((w_.job(job_).ended - started_).us, (minutes(3) + seconds(40)).us);
}

// srun -o %j makes its step when the job has its number: it is the whole job all the same, and a step of salloc is not.
TEST_F(ClientThatCannotTell, ButTheNodeCanSayThatItsSoleStepHadEnded) {
  for (const bool sole : {true, false}) {
    World w(1);
    JobSpec spec = World::interactive(1);
    spec.time_limit = minutes(10);
    const JobId job = w.submit(spec);
    w.settle();
    StepSpec step;
    step.argv = {"hostname"};
    step.whole = true;
    step.sole = sole;
    w.must(CreateStep{job, std::make_shared<const StepSpec>(step)}, kAliceCalls);
    w.obey();
    w.silent.insert(1);
    w.pass(minutes(20));
    ASSERT_EQ(w.job(job).ending, JobState::kTimeout);
    w.must(AgentReport{w.id(1), w.boot(1), job, 1, StepEnded{0, {{0, {}}}}, minutes(15)});
    w.must(AgentReport{w.id(1), w.boot(1), job, 1, MemberStopped{}, {}});
    EXPECT_EQ(w.state_of(job), sole ? JobState::kCompleted : JobState::kTimeout);
  }
}

TEST(Attempts, AStepInASuspendedJobIsRefusedByThatName) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.settle();
  w.must(SuspendJob{{job, {}}});
  w.obey();
  StepSpec step;
  step.argv = {"hostname"};
  const auto made = w.run(CreateStep{job, std::make_shared<const StepSpec>(step)}, kAliceCalls);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            format("Job {} is suspended: a step can be made once it has been resumed", job.value));
}

// Nobody heard for twenty minutes: the limit strikes first, and then the node says what had long happened.
TEST(Attempts, TheNodesWordOnAnEndComesBeforeOurSilence) {
  for (const bool by_itself : {true, false}) {
    World w(1);
    JobSpec spec = World::batch();
    spec.time_limit = minutes(10);
    const JobId job = w.submit(spec);
    w.settle();
    const Instant started = w.job(job).started;
    JobSpec after = World::batch();
    after.dependencies.push_back({Dependency::Type::kAfterOk, job, {}});
    const JobId waits = w.submit(after);
    w.silent.insert(1);
    w.pass(minutes(20));
    w.must(Tick{});
    ASSERT_EQ(w.state_of(job), JobState::kCompleting);
    EXPECT_EQ(w.job(job).ending, JobState::kTimeout);
    w.must(AgentReport{w.id(1), w.boot(1), job, 1, ScriptEnded{{}, by_itself}, minutes(15)});
    w.must(AgentReport{w.id(1), w.boot(1), job, 1, MemberStopped{}, minutes(15)});
    EXPECT_EQ(w.state_of(job), by_itself ? JobState::kCompleted : JobState::kTimeout);
    if (by_itself) {
      EXPECT_EQ(w.job(job).ended, started + minutes(5));
      EXPECT_EQ(w.job(job).end_reason, "");
      EXPECT_EQ(w.job(waits).hold, Hold::kNone);
    }
    // It is listed for as long as any other, though it ended long ago.
    w.pass(seconds(30));
    EXPECT_NE(w.state.tables().job(job), nullptr);
  }
}

TEST(Attempts, WhatANodeSaysOfTimeIsKeptWithinTheAttempt) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.start_what_fits();
  w.pass(seconds(10));
  w.must(AgentReport{w.id(1), w.boot(1), job, 1, AttemptStarted{}, Duration{INT64_MAX}});
  EXPECT_EQ(w.job(job).started, w.job(job).allocation->granted);
  w.must(AgentReport{w.id(1), w.boot(1), job, 1, ScriptEnded{{}, true}, Duration{INT64_MIN}});
  EXPECT_EQ(w.job(job).ended, w.now);
}

TEST(Attempts, WhatUsersDecideStays) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.settle();
  w.must(CancelJob{{job, {}}});
  (void)w.report(1, job, ScriptEnded{{}, true});
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kCancelled);
}

TEST(Attempts, ANodeThatIsAwaitedIsNotLost) {
  World w(2);
  JobSpec spec = World::batch(2, 8);
  spec.survive_node_loss = true;
  spec.requeue = false;
  const JobId job = w.submit(spec);
  w.settle();
  const std::uint32_t head = w.first_node(job);
  w.must(StartEpoch{"test"});
  EXPECT_EQ(w.refused(RemoveNode{w.name_of(head)}), Errc::kConflict);
  w.reboot(3 - head);  // before the other one has answered
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  w.lose(head);
  EXPECT_EQ(w.node(head).link, NodeLink::kLost);
  EXPECT_EQ(w.node(head).reason, "Not responding");
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

TEST(Attempts, AScriptThatMayBeRequeuedSurvivesWhatItCanDoWithoutIfItSaysSo) {
  World w(2);
  JobSpec spec = World::batch(2);
  ASSERT_TRUE(spec.requeue);
  spec.survive_node_loss = true;
  const JobId job = w.submit(spec);
  w.settle();
  const std::uint32_t head = w.first_node(job);
  w.lose(3 - head);
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  w.fence(3 - head);
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  w.lose(head);  // the script was there
  w.fence(head);
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kPending) << "it may start again";
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

constexpr const char* kGpuLost = "GPU 3 (GPU-7) of n1 has fallen off the bus: Xid 79";

TEST(Attempts, ANodeThatLosesWhatAJobComputesWithEndsItWithThatReason) {
  for (const bool requeue : {false, true}) {
    World w(2);
    JobSpec spec = World::batch();
    spec.requeue = requeue;
    const JobId job = w.submit(spec);
    w.settle();
    (void)w.report(1, job, LaunchFailed{kGpuLost, true});
    EXPECT_EQ(w.job(job).ending, JobState::kNodeFail);
    EXPECT_EQ(w.job(job).end_reason, kGpuLost);
    w.obey();
    EXPECT_EQ(w.state_of(job), requeue ? JobState::kPending : JobState::kNodeFail);
    EXPECT_FALSE(w.node(1).drain) << "the rest of the node is fit";
  }
}

TEST(Attempts, AJobThatCanDoWithoutANodeGoesOnWhenThatLosesItsGpu) {
  World w(3);
  JobSpec spec = World::interactive(3);
  spec.survive_node_loss = true;
  const JobId job = w.submit(spec);
  w.settle();
  (void)w.report(3, job, LaunchFailed{kGpuLost, true});
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  (void)w.report(3, job, MemberStopped{});
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
}

// A prolog that fails: the report comes before anything of the attempt has started there.
constexpr const char* kProlog = "Prolog error: /p: exit code 1";

TEST(Attempts, ANodeAtFaultIsClosedAndTheJobStartsElsewhere) {
  World w(2);
  JobSpec spec = World::batch();
  spec.requeue = false;
  const JobId job = w.submit(spec);
  w.start_what_fits();
  w.actions.clear();
  const std::uint32_t first = w.first_node(job);
  (void)w.report(first, job, LaunchFailed{kProlog, true});
  EXPECT_TRUE(w.node(first).drain);
  EXPECT_EQ(w.node(first).reason, format("{} (job {})", kProlog, job.value));
  EXPECT_FALSE(w.node(first).reason_by);
  EXPECT_EQ(w.state_of(job), JobState::kCompleting);
  w.obey();
  ASSERT_EQ(w.state_of(job), JobState::kPending);
  EXPECT_EQ(w.job(job).restarts, 0u) << "the node is at fault";
  EXPECT_EQ(w.job(job).hold, Hold::kBeginTime) << "a moment, as behind every requeue";
  w.pass(minutes(1));
  w.settle();
  ASSERT_EQ(w.state_of(job), JobState::kRunning);
  EXPECT_NE(w.first_node(job), first);
  w.must(UpdateNode{.name = World::name_of(first), .drain = false});
  EXPECT_TRUE(node_usable(w.node(first)));
  EXPECT_EQ(w.node(first).reason, "");
}

TEST(Attempts, AJobForWhichThreeNodesWereClosedIsHeld) {
  World w(5);
  const JobId job = w.submit(World::batch());
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(w.job(job).hold, Hold::kLaunchFailed);
    w.pass(minutes(1));
    ASSERT_EQ(w.start_what_fits(), 1u);
    w.actions.clear();
    (void)w.report(w.first_node(job), job, LaunchFailed{kProlog, true});
    w.obey();
  }
  EXPECT_EQ(w.state_of(job), JobState::kPending);
  EXPECT_EQ(w.job(job).hold, Hold::kLaunchFailed);
  std::size_t drained = 0;
  for (std::uint32_t i = 1; i <= 5; ++i) drained += w.node(i).drain ? 1 : 0;
  EXPECT_EQ(drained, 3u);
}

TEST(Attempts, AnEpilogThatFailsChangesNothingOfItsJob) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.settle();
  (void)w.report(1, job, ScriptEnded{{}, true});
  w.actions.clear();
  (void)w.report(1, job, LaunchFailed{"Epilog error: exit code 1", true});
  EXPECT_TRUE(w.node(1).drain);
  (void)w.report(1, job, MemberStopped{});
  EXPECT_EQ(w.state_of(job), JobState::kCompleted);
  // Said again, when an administrator has opened the node: a report that came twice.
  w.must(UpdateNode{.name = "n1", .drain = false});
  (void)w.report(1, job, LaunchFailed{"Epilog error: exit code 1", true});
  EXPECT_FALSE(w.node(1).drain);
}

TEST(Attempts, AnEpilogBehindAFenceIsNoFailureOfTheLaunch) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.settle();
  (void)w.report(1, job, LaunchFailed{"Epilog error: exit code 1", true});
  EXPECT_TRUE(w.node(1).drain);
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  (void)w.report(1, job, MemberStopped{.fenced = true});
  EXPECT_EQ(w.job(job).end_reason, "NodeDown n1");
}

TEST(Attempts, AReasonThatIsThereAlreadyStays) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.start_what_fits();
  w.actions.clear();
  w.must(UpdateNode{.name = "n1", .drain = true, .reason = "fan"});
  (void)w.report(1, job, LaunchFailed{kProlog, true});
  EXPECT_EQ(w.node(1).reason, "fan");
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kPending);
}

TEST(Attempts, AnInteractiveJobEndsWithANodeAtFault) {
  World w(2);
  const JobId job = w.submit(World::interactive());
  w.start_what_fits();
  w.actions.clear();
  (void)w.report(w.first_node(job), job, LaunchFailed{kProlog, true});
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kNodeFail);
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

TEST(Attempts, TheHighestWaitStatusOfItsStepsIsAJobsDerivedExit) {
  World w(1);
  const JobId job = w.submit({.spec = std::make_shared<const JobSpec>(World::interactive(1))});
  w.start_what_fits();
  w.obey();
  auto step = std::make_shared<StepSpec>();
  step->argv = {"hostname"};
  for (const ExitStatus exit : {ExitStatus{2, 0, false}, ExitStatus{7, 0, false}, ExitStatus{0, 9, false}}) {
    const StepNo number = w.must(CreateStep{job, step}).step;
    w.obey();
    (void)w.report(1, job, StepEnded{number, {{0, exit}}});
  }
  EXPECT_EQ(w.job(job).derived_exit, (ExitStatus{7, 0, false})) << "a signal is less, as wait(2) tells both";
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
  EXPECT_TRUE(std::holds_alternative<StartPart>(told[0].body));
  (void)w.report(1, job, StepStarted{0});
  EXPECT_TRUE(reconcile(w.state, w.id(1), with).empty());
  told = reconcile(w.state, w.id(1), without);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<StopPart>(told[0].body));

  const JobId service = w.submit(World::tasks(1, RestartRule::kAlways, true));
  w.settle();
  told = reconcile(w.state, w.id(1), std::vector<Holding>{with[0], {service, 1, false, {}, {}}});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<StopPart>(told[0].body));
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

TEST(Attempts, WhatANodeSaysOfItselfIsTheReasonOfItsRecord) {
  World w(1);
  const auto hello = [&](const std::string& reason, bool drain) {
    Node facts = w.node(1);
    facts.reason = reason;
    facts.drain = drain;
    w.must(NodeHello{facts});
  };
  hello("its disk is full", true);
  EXPECT_EQ(reason_of(w.node(1)).words, "Node says: its disk is full (drained while that lasts)");
  EXPECT_FALSE(node_usable(w.node(1)));
  EXPECT_TRUE(reason_of(w.node(1)).at);
  UpdateNode resumed;
  resumed.name = "n1";
  resumed.drain = false;
  w.must(resumed);
  EXPECT_FALSE(node_usable(w.node(1))) << "there is no more room for that";
  EXPECT_NE(reason_of(w.node(1)).words, "");
  hello("its memory fails", true);
  EXPECT_EQ(reason_of(w.node(1)).words, "Node says: its memory fails (drained while that lasts)");
  hello("its journal was damaged", false);
  EXPECT_EQ(reason_of(w.node(1)).words, "Node says: its journal was damaged");
  EXPECT_TRUE(node_usable(w.node(1))) << "it takes work again";
  hello("", false);
  EXPECT_EQ(reason_of(w.node(1)).words, "");
  // What an administrator decided stays.
  UpdateNode drained;
  drained.name = "n1";
  drained.drain = true;
  drained.reason = "fan";
  w.must(drained);
  hello("its disk is full", true);
  EXPECT_EQ(w.node(1).reason, "fan");
  resumed.reason = "fan is loud";  // whoever gives a reason only, or resumes with one, opens no full disk
  w.must(resumed);
  EXPECT_FALSE(node_usable(w.node(1)));
  hello("", false);
  EXPECT_EQ(w.node(1).reason, "fan is loud");
  EXPECT_TRUE(node_usable(w.node(1)));
  w.must(drained);
  hello("its disk is full", true);
  hello("", false);
  EXPECT_FALSE(node_usable(w.node(1)));
  EXPECT_EQ(w.node(1).reason, "fan");
  drained.reason.reset();  // without a reason, while the node has trouble of its own
  resumed.reason.reset();
  w.must(resumed);
  hello("its disk is full", true);
  w.must(drained);
  hello("", false);
  EXPECT_TRUE(w.node(1).drain);
}

}  // namespace
}  // namespace lockstep
