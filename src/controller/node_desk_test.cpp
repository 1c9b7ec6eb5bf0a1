#include "controller/node_desk.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "controller/composer.h"
#include "controller/node_desk_rig.h"

namespace lockstep {
namespace {

class DeskTest : public ::testing::Test, protected DeskRig {
 protected:
  void SetUp() override { begin(); }
};

// A wide job with a large environment or script: its launches go out some at a time, and who is told to stop first
// starts nothing.
class DeskLaunchTest : public DeskTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(LongWords, DeskLaunchTest, ::testing::Values("fat", "scripted"));

TEST_P(DeskLaunchTest, AreComposedAsTheyGoOut) {
  constexpr std::uint64_t kNodes = 12;
  auto spec = std::make_shared<JobSpec>();
  spec->name = GetParam();
  spec->user = engine->state().tables().user("local", 1000)->id;
  spec->groups.resize(1);
  spec->groups[0].launch = Launch::kScript;
  spec->groups[0].tasks = spec->groups[0].nodes = {kNodes, kNodes};
  spec->script = "a-blob";
  PlannedStart start;
  start.partition = "main";
  for (std::uint64_t i = 1; i <= kNodes; ++i) {
    hello(i, machine("n" + std::to_string(i)));
    start.grants.push_back({.node = node("n" + std::to_string(i)).id, .tasks = 1});
    start.grants.back().cores.set(0);
  }
  start.job = commit(SubmitJob{spec, std::nullopt, nullptr, {}})->job;
  start.read = engine->state().tables().job(start.job)->meta.seq;
  ASSERT_EQ(commit(ApplyPlan{{start}})->starts_applied, 1u);
  std::size_t launched = 0;
  const auto count = [&] {
    std::size_t now_out = 0;
    for (std::uint64_t i = 1; i <= kNodes; ++i) now_out += take<LaunchAttempt>(i).size();
    launched += now_out;
    return now_out;
  };
  pump();
  EXPECT_EQ(count(), 3u);
  EXPECT_LE(desk->next_timer(), now) << "the rest would wait for something else to happen";
  renew(kNodes);  // it holds nothing, but its turn will come
  EXPECT_EQ(count(), 0u);
  desk->tick(engine->state(), now);
  pump();
  EXPECT_EQ(count(), 3u);
  ASSERT_TRUE(commit(CancelJob{{start.job, {}}}).ok());
  pump();
  EXPECT_EQ(count(), 0u);
  EXPECT_GT(desk->next_timer(), now);
  EXPECT_EQ(launched, 6u);
  for (std::uint64_t i = 1; i <= kNodes; ++i) {
    const auto stops = take<StopWork>(i);
    ASSERT_EQ(stops.size(), 1u);
    EXPECT_EQ(stops[0].why, StopWhy::kCancelled);
  }
}

// Sixteen of them held the core's thread for 144 ms, because what launches only name was not counted.
TEST_F(DeskTest, EnvironmentsAreReadAsLaunchesGoOut) {
  constexpr std::uint64_t kNodes = 4;
  std::size_t read = 0;
  composer = make_composer(
      [&](const BlobId& id) -> Result<std::string> {
        read += id.starts_with("environment");
        return "LONG=" + id + std::string(5'000'000, 'x') + '\0';
      },
      {});
  start_desk();
  ApplyPlan plan;
  for (std::uint64_t i = 1; i <= kNodes; ++i) {
    hello(i, machine(format("n{}", i)));
    auto spec = std::make_shared<JobSpec>();
    spec->name = "long";
    spec->user = engine->state().tables().user("local", 1000)->id;
    spec->groups.resize(1);
    spec->groups[0].launch = Launch::kNothing;
    spec->environment = format("environment {}", i);
    PlannedStart start;
    start.partition = "main";
    start.grants = {{.node = node(format("n{}", i)).id, .tasks = 1}};
    start.grants.back().cores.set(0);
    start.job = commit(SubmitJob{spec, std::nullopt, nullptr, {}})->job;
    start.read = engine->state().tables().job(start.job)->meta.seq;
    plan.starts.push_back(start);
  }
  ASSERT_EQ(commit(plan)->starts_applied, kNodes);
  for (std::size_t turn = 1; turn <= kNodes; ++turn) {
    EXPECT_EQ(read, turn);
    pump();
    desk->tick(engine->state(), now);
  }
  pump();
  std::size_t launched = 0;
  for (std::uint64_t i = 1; i <= kNodes; ++i) launched += take<LaunchAttempt>(i).size();
  EXPECT_EQ(launched, kNodes);
}

TEST_F(DeskTest, AHelloIsWelcomedOnceItIsDurable) {
  hello(1, machine("n1"));
  const auto welcome = take<Welcome>(1);
  ASSERT_EQ(welcome.size(), 1u);
  EXPECT_EQ(welcome[0].node, node("n1").id);
  EXPECT_EQ(welcome[0].renew_every.us, settings.lease_term.us / 3);
  EXPECT_EQ(node("n1").link, NodeLink::kUp);
}

TEST_F(DeskTest, AHelloUnderAnotherNameOrVersionIsRefused) {
  desk->connected(1, "n1", now);
  Hello lie;
  lie.facts = machine("n2");
  desk->receive(1, lie, engine->state(), now);
  pump();
  EXPECT_EQ(take<Refused>(1).size(), 1u);
  EXPECT_EQ(engine->state().tables().node("n2"), nullptr);

  desk->connected(2, "n1", now);
  Hello old;
  old.facts = machine("n1");
  old.protocol_min = old.protocol_max = kProtocolMax + 1;
  desk->receive(2, old, engine->state(), now);
  pump();
  EXPECT_EQ(take<Refused>(2).size(), 1u);
}

TEST_F(DeskTest, ARenewalIsAcknowledgedWithItsOwnTime) {
  hello(1, machine("n1"));
  renew(1);
  const auto acks = take<RenewAck>(1);
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].sent_boot_us, now.us);
  desk->connected(2, "n1", now);
  renew(2);  // before its hello
  EXPECT_TRUE(take<RenewAck>(2).empty());
}

TEST_F(DeskTest, ANewerLinkTakesOver) {
  hello(1, machine("n1"));
  hello(2, machine("n1"));
  EXPECT_EQ(take<Refused>(1).size(), 1u);
  renew(1);
  EXPECT_TRUE(take<RenewAck>(1).empty());
  desk->disconnected(1, now);
  renew(2);
  EXPECT_EQ(take<RenewAck>(2).size(), 1u);
}

TEST_F(DeskTest, ALinkIsCutWhenItsCertificateCountsNoMore) {
  join("n1", "c1");
  hello_as(1, machine("n1"), "c1");
  ASSERT_EQ(take<Welcome>(1).size(), 1u);
  desk->connected(2, "n1", now, "c1");  // has not said hello yet
  ASSERT_TRUE(commit(UpdateNode{.name = "n1", .revoke = true}).ok());
  pump();
  EXPECT_EQ(take<Refused>(1).size(), 1u);
  EXPECT_EQ(take<Refused>(2).size(), 1u);
  renew(1);
  EXPECT_TRUE(take<RenewAck>(1).empty());
  hello_as(3, machine("n1"), "c1");
  EXPECT_EQ(take<Refused>(3).size(), 1u);
  EXPECT_EQ(node("n1").link, NodeLink::kLost);

  join("n1", "c2");
  hello_as(4, machine("n1", "boot-2"), "c2");
  EXPECT_EQ(take<Welcome>(4).size(), 1u);
  join("n1", "c3");  // given to another machine while it is up
  EXPECT_EQ(take<Refused>(4).size(), 1u);
}

TEST_F(DeskTest, AnOldCertificateDoesNotCutTheOneThatCounts) {
  join("n1", "c1");
  hello_as(1, machine("n1"), "c1");
  join("n1", "c2");
  hello_as(2, machine("n1", "boot-2"), "c2");
  ASSERT_EQ(take<Welcome>(2).size(), 1u);
  hello_as(3, machine("n1", "boot-3"), "c1");
  EXPECT_EQ(take<Refused>(3).size(), 1u);
  EXPECT_TRUE(take<Refused>(2).empty());
  renew(2);
  EXPECT_EQ(take<RenewAck>(2).size(), 1u);
  EXPECT_EQ(node("n1").boot_id, "boot-2");
}

TEST_F(DeskTest, ARemovedNodesLinkIsCut) {
  join("n1", "c1");
  hello_as(1, machine("n1"), "c1");
  ASSERT_TRUE(commit(NodeLost{node("n1").id}).ok());
  ASSERT_TRUE(commit(RemoveNode{"n1"}).ok());
  pump();
  EXPECT_EQ(take<Refused>(1).size(), 1u);
  hello_as(2, machine("n1"), "c1");
  EXPECT_EQ(take<Refused>(2).size(), 1u);
  EXPECT_EQ(engine->state().tables().node("n1"), nullptr);
}

TEST_F(DeskTest, AStartIsSentToItsNode) {
  hello(1, machine("n1"));
  hello(2, machine("n2"));
  const JobId job = start_job("n1");
  const auto launches = take<LaunchAttempt>(1);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].job, job);
  EXPECT_TRUE(take<LaunchAttempt>(2).empty());
}

TEST_F(DeskTest, WhatCannotBeComposedIsReportedAsFailed) {
  hello(1, machine("n1"));
  const JobId job = start_job("n1", "unlaunchable");
  EXPECT_TRUE(take<LaunchAttempt>(1).empty());
  const Job* now_job = engine->state().tables().job(job);
  ASSERT_NE(now_job, nullptr);
  EXPECT_NE(now_job->state, JobState::kStarting);
}

TEST_F(DeskTest, AReportIsAcknowledgedAfterItsCommitOnly) {
  hello(1, machine("n1"));
  const JobId job = start_job("n1");
  desk->receive(1, Report{7, job, 1, AttemptStarted{}}, engine->state(), now);
  EXPECT_TRUE(desk->take_messages().empty());
  log.next = TestLog::Append::kFails;
  pump();
  EXPECT_TRUE(take<ReportAck>(1).empty());
  // Said again meanwhile: still one command.
  desk->receive(1, Report{7, job, 1, AttemptStarted{}}, engine->state(), now);
  EXPECT_TRUE(desk->take_commands().empty());
  log.next = TestLog::Append::kWorks;
  pass(seconds(2));
  const auto acks = take<ReportAck>(1);
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].numbers, std::vector<std::uint64_t>{7});
  EXPECT_EQ(engine->state().tables().job(job)->state, JobState::kRunning);
}

// The end of a script counts from when the node saw it: the agent says how long ago, and its clock says it of words
// that waited in the socket of a controller that stood still.
TEST_F(DeskTest, AnEndIsWhenTheNodeSawIt) {
  hello(1, machine("n1"));
  for (const bool stood_still : {false, true}) {
    const JobId job = start_job("n1");
    desk->receive(1, Report{1, job, 1, AttemptStarted{}, now.us, {}}, engine->state(), now);
    pump();
    renew(1);
    const Instant end = now + seconds(5);
    stand_still(seconds(25));
    Report said{2, job, 1, ScriptEnded{{}, true}, end.us, stood_still ? Duration{} : now - end};
    desk->receive(1, said, engine->state(), now);
    pump();
    EXPECT_EQ(engine->state().tables().job(job)->ended, end) << stood_still;
    desk->receive(1, Report{3, job, 1, MemberStopped{}, end.us, {}}, engine->state(), now);
    pump();
    EXPECT_EQ(engine->state().tables().job(job)->state, JobState::kCompleted);
    EXPECT_EQ(engine->state().tables().job(job)->ended, end) << stood_still;
    ASSERT_EQ(take<ReportAck>(1).empty(), false);
  }
}

TEST_F(DeskTest, AReportNobodyWantsIsAcknowledgedToo) {
  hello(1, machine("n1"));
  desk->receive(1, Report{3, JobId{999}, 1, AttemptStarted{}}, engine->state(), now);
  pump();
  EXPECT_EQ(take<ReportAck>(1).size(), 1u);
}

TEST_F(DeskTest, ANodeThatStaysSilentIsLostAtTheExactMoment) {
  hello(1, machine("n1"));
  pass(settings.node_timeout - micros(1));
  EXPECT_EQ(node("n1").link, NodeLink::kUp);
  pass(micros(1));
  EXPECT_EQ(node("n1").link, NodeLink::kLost);
  EXPECT_EQ(take<Refused>(1).size(), 1u);
  // Its late renewal must not be acknowledged: the fence has begun to count.
  renew(1);
  EXPECT_TRUE(take<RenewAck>(1).empty());
  hello(2, machine("n1"));
  EXPECT_EQ(node("n1").link, NodeLink::kUp);
}

TEST_F(DeskTest, RenewalsKeepANode) {
  hello(1, machine("n1"));
  for (int i = 0; i < 40; ++i) {
    pass(seconds(3));
    renew(1);
  }
  EXPECT_EQ(node("n1").link, NodeLink::kUp);
}

TEST_F(DeskTest, ANewControllerGivesEveryNodeAFullTimeout) {
  hello(1, machine("n1"));
  now = now + hours(5);  // the controller was down
  ASSERT_TRUE(commit(StartEpoch{"test"}).ok());
  start_desk();
  pass(settings.node_timeout - micros(1));
  EXPECT_EQ(node("n1").link, NodeLink::kUnknown);
  pass(micros(1));
  EXPECT_EQ(node("n1").link, NodeLink::kLost);
}

TEST_F(DeskTest, WithoutProofALostNodesWorkWaitsForTheFence) {
  hello(1, machine("n1"));
  const JobId job = start_job("n1");
  desk->receive(1, Report{1, job, 1, AttemptStarted{}}, engine->state(), now);
  pump();
  renew(1);
  const Instant acked = now;
  const Duration fence = engine->state().tables().job(job)->allocation->fence_after;
  ASSERT_LT(fence, kForever);
  pass(acked + fence + settings.drift - micros(1) - now);
  EXPECT_EQ(node("n1").link, NodeLink::kLost);
  ASSERT_NE(engine->state().tables().job(job)->allocation, nullptr);
  EXPECT_FALSE(engine->state().load(node("n1").id).cores == CoreSet{});
  pass(micros(1));
  EXPECT_TRUE(engine->state().load(node("n1").id).cores == CoreSet{});
  EXPECT_EQ(engine->state().tables().job(job)->state, JobState::kPending);  // requeued
}

TEST_F(DeskTest, AFenceHookIsAskedWhenTheLinkBreaksAndItsProofHealsAtOnce) {
  hello(1, machine("n1", "boot-1", true));
  const JobId job = start_job("n1");
  desk->receive(1, Report{1, job, 1, AttemptStarted{}}, engine->state(), now);
  pump();
  desk->disconnected(1, now);
  pass(micros(1));
  ASSERT_EQ(asked.size(), 1u);
  pass(seconds(3));  // no proof: asked again
  EXPECT_GE(asked.size(), 3u);
  EXPECT_EQ(node("n1").link, NodeLink::kAway);
  desk->fenced(node("n1").id, "its process is gone");
  pump();
  EXPECT_EQ(node("n1").link, NodeLink::kLost);
  EXPECT_EQ(engine->state().tables().job(job)->state, JobState::kPending);
  asked.clear();
  pass(minutes(1));
  EXPECT_TRUE(asked.empty());  // it is known now
}

TEST_F(DeskTest, AProofThatComesAfterTheNodeIsBackIsIgnored) {
  hello(1, machine("n1", "boot-1", true));
  desk->disconnected(1, now);
  pass(micros(1));
  hello(2, machine("n1", "boot-1", true));
  desk->fenced(node("n1").id, "a hook that is late");
  pump();
  EXPECT_EQ(node("n1").link, NodeLink::kUp);
}

// Its machine may be off: what starts there before its agent is heard again might wait for minutes.
TEST_F(DeskTest, ANodeWithoutAConnectionGetsNothingNewBeforeItsNextHello) {
  hello(1, machine("n1"));
  const JobId before = start_job("n1");
  desk->disconnected(1, now);
  pump();
  EXPECT_EQ(node("n1").link, NodeLink::kAway);
  EXPECT_EQ(engine->state().tables().job(before)->state, JobState::kStarting) << "what is there goes on";
  EXPECT_FALSE(node_usable(node("n1")));
  hello(2, machine("n1"));
  EXPECT_EQ(node("n1").link, NodeLink::kUp);
  desk->disconnected(2, now);
  pump();
  pass(settings.node_timeout + seconds(1));
  EXPECT_EQ(node("n1").link, NodeLink::kLost);
}

TEST_F(DeskTest, WhatIsSaidOfAnEarlierConnectionChangesNothing) {
  hello(1, machine("n1"));
  const Instant first = node("n1").seen_at;
  pass(seconds(1));
  hello(2, machine("n1"));
  ASSERT_TRUE(commit(NodeAway{node("n1").id, first}).ok());
  EXPECT_EQ(node("n1").link, NodeLink::kUp);
  ASSERT_TRUE(commit(NodeAway{node("n1").id, node("n1").seen_at}).ok());
  EXPECT_EQ(node("n1").link, NodeLink::kAway);
  renew(2);
  const auto refused = take<Refused>(2);
  ASSERT_EQ(refused.size(), 1u) << "it is to say hello again";
  EXPECT_EQ(refused[0].why, "its connection was taken for broken: connect again");
}

TEST_F(DeskTest, AReconnectedNodeIsToldWhatItLacksAndWhatItMustStop) {
  hello(1, machine("n1"));
  const JobId job = start_job("n1");
  take<LaunchAttempt>(1);
  desk->disconnected(1, now);
  Holding stranger;
  stranger.job = JobId{4242};
  stranger.attempt = 1;
  hello(2, machine("n1"), {stranger});
  ASSERT_EQ(take<LaunchAttempt>(2).size(), 1u);
  const auto stops = take<StopWork>(2);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].job, JobId{4242});
  (void)job;
}

TEST_F(DeskTest, ALaunchThatWasLostIsSentAgain) {
  hello(1, machine("n1"));
  start_job("n1");
  ASSERT_EQ(take<LaunchAttempt>(1).size(), 1u);
  renew(1);  // holds nothing yet: it may be under way
  EXPECT_TRUE(take<LaunchAttempt>(1).empty());
  pass(settings.resend_after);
  renew(1);
  EXPECT_EQ(take<LaunchAttempt>(1).size(), 1u);
}

TEST_F(DeskTest, OurOwnPauseIsNobodysSilence) {
  hello(1, machine("n1"));
  pass(settings.node_timeout - seconds(1));
  for (const Duration pause : {seconds(2), seconds(45), minutes(10)}) {
    stand_still(pause);
    pass(settings.lease_term - seconds(1));  // agents have a whole lease to be heard
    EXPECT_EQ(node("n1").link, NodeLink::kUp) << pause.seconds();
  }
  renew(1);
  EXPECT_EQ(take<RenewAck>(1).size(), 1u);
  pass(settings.node_timeout - seconds(1));
  EXPECT_EQ(node("n1").link, NodeLink::kUp);
  pass(seconds(1));
  EXPECT_EQ(node("n1").link, NodeLink::kLost);  // and real silence still counts
}

TEST_F(DeskTest, APauseThatWasCountedIsCountedOnce) {
  hello(1, machine("n1"));
  hello(2, machine("n2"));
  stand_still(minutes(5));
  pass(seconds(20));
  renew(2);
  pass(settings.node_timeout - seconds(20));
  EXPECT_EQ(node("n1").link, NodeLink::kLost);
  pass(seconds(19));
  EXPECT_EQ(node("n2").link, NodeLink::kUp);
  pass(seconds(1));
  EXPECT_EQ(node("n2").link, NodeLink::kLost);
}

TEST_F(DeskTest, NoLossIsDecidedWhileBeatsAreMissing) {
  hello(1, machine("n1"));
  pass(seconds(1));
  // The core's thread runs and its timers fire, but the I/O thread, through which every renewal comes, does not.
  for (int i = 0; i < 600; ++i) {
    now = now + millis(100);
    if (desk->next_timer() <= now)
      desk->tick(engine->state(), now);
    pump();
    EXPECT_TRUE(desk->next_timer() > now) << "it would spin";
  }
  EXPECT_EQ(node("n1").link, NodeLink::kUp);
  pass(settings.node_timeout);
  EXPECT_EQ(node("n1").link, NodeLink::kLost);
}

TEST_F(DeskTest, TheFenceDoesNotWaitForOurPauses) {
  hello(1, machine("n1"));
  const JobId job = start_job("n1");
  renew(1);
  const Duration fence = engine->state().tables().job(job)->allocation->fence_after;
  pass(settings.node_timeout);
  ASSERT_EQ(node("n1").link, NodeLink::kLost);
  stand_still(fence - settings.node_timeout + settings.drift);  // the agent's clock went on: it has stopped the job
  pass(micros(1));
  EXPECT_EQ(engine->state().tables().job(job)->state, JobState::kPending);
}

TEST_F(DeskTest, ASilentNodesWorkGoesOnUntilItIsProvenStopped) {
  hello(1, machine("n1"));
  const JobId again = start_job("n1"), once = start_job("n1", "job", false);
  Holding holds_again{again, 1}, holds_once{once, 1};
  pass(minutes(10));
  ASSERT_EQ(node("n1").link, NodeLink::kLost);
  for (const JobId job : {again, once}) EXPECT_EQ(engine->state().tables().job(job)->state, JobState::kStarting);
  hello(2, machine("n1"), {holds_again, holds_once});
  EXPECT_EQ(node("n1").link, NodeLink::kUp);
  EXPECT_TRUE(take<StopWork>(2).empty());
  pass(settings.give_up_after + settings.drift);
  EXPECT_EQ(engine->state().tables().job(again)->state, JobState::kPending);  // its fence has stopped it
  const Job& given_up = *engine->state().tables().job(once);
  EXPECT_EQ(given_up.state, JobState::kCompleting);
  EXPECT_EQ(given_up.ending, JobState::kNodeFail);
  EXPECT_FALSE(engine->state().load(node("n1").id).cores == CoreSet{});  // nothing proves that it has stopped
}

TEST_F(DeskTest, WhatHasNoFenceIsNotGivenUpForOurPauses) {
  hello(1, machine("n1"));
  const JobId once = start_job("n1", "job", false);
  pass(settings.node_timeout);
  ASSERT_EQ(node("n1").link, NodeLink::kLost);
  stand_still(hours(1));
  pass(settings.lease_term);
  EXPECT_EQ(engine->state().tables().job(once)->state, JobState::kStarting);
}

TEST_F(DeskTest, AFenceHookIsToldHowLongTheSilenceLasts) {
  hello(1, machine("n1", "boot-1", true));
  pass(seconds(2));
  stand_still(minutes(3));
  pass(millis(100));
  desk->disconnected(1, now);  // the agent gave up on us
  pass(micros(1));
  ASSERT_FALSE(asked.empty());
  EXPECT_LT(asked.back().silence, seconds(4));
  pass(seconds(10));
  EXPECT_GE(asked.back().silence, seconds(11));
}

TEST_F(DeskTest, NothingIsDueWhenNothingIsGoingOn) { EXPECT_EQ(desk->next_timer(), kNever); }

// The machine that loses its name may be off already: its hook is asked, or the new one would wait for the fence.
TEST_F(DeskTest, ANodeWhoseLinkIsCutIsAskedAbout) {
  start_desk();
  join("n1", "c1");
  hello_as(1, machine("n1", "boot-1", true), "c1");
  ASSERT_EQ(take<Welcome>(1).size(), 1u);
  asked.clear();
  join("n1", "c2");
  EXPECT_EQ(take<Refused>(1).size(), 1u);
  pass(seconds(2));
  EXPECT_FALSE(asked.empty());
}

// The log was put back from a backup: the node holds an attempt that it has not made yet.
TEST_F(DeskTest, AttemptsThatTheLogHasNotMadeAreSkipped) {
  hello(1, machine("n1"));
  const JobId job = start_job("n1");
  ASSERT_EQ(engine->state().tables().job(job)->attempt, 1u);
  const auto spec = std::make_shared<JobSpec>(*engine->state().tables().job(job)->spec);
  const JobId waiting = commit(SubmitJob{spec, std::nullopt, nullptr, {}})->job;
  desk->disconnected(1, now);
  ASSERT_TRUE(commit(StartEpoch{"test"}).ok());
  start_desk();
  desk->connected(2, "n1", now);
  Hello said{1, 1, machine("n1"), {{job, 1, false, {}, {}, false, 3}, {waiting, 2, false, {}, {}, false}}};
  said.highest_job = JobId(waiting.value + 7);
  desk->receive(2, said, engine->state(), now);
  pump();
  EXPECT_EQ(engine->state().tables().job(waiting)->attempt, 2u);
  EXPECT_EQ(engine->state().tables().cluster->next_job, waiting.value + 8);
  EXPECT_EQ(engine->state().tables().job(job)->attempt, 1u);
  EXPECT_EQ(engine->state().tables().job(job)->next_step, 3) << "the node has used the numbers below";
}

}  // namespace
}  // namespace lockstep
