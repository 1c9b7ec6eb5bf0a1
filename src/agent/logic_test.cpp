// The agent's decisions against late, doubled and reordered messages, restarts at any point, and fences.
#include "agent/logic.h"

#include <gtest/gtest.h>

#include "agent/journal.h"
#include "model/device_loss.h"
#include "model/work_id.h"

namespace lockstep {
namespace {

const JobId kJob(5);
const WorkId kScriptKey{kJob, 1, ScriptPart{}};
const WorkId kStepKey{kJob, 1, StepPart{0}};
using What = AgentLogic::ShimOrder::What;

LaunchAttempt attempt(bool script, AttemptNo number = 1) {
  LaunchAttempt m;
  m.job = kJob;
  m.attempt = number;
  m.fence_after = minutes(10);
  m.kill_wait = seconds(30);
  m.has_script = script;
  m.script = script ? "#!/bin/sh\n" : "";
  m.process.uid = 1000;
  return m;
}
LaunchStep step(StepNo number = 0) {
  LaunchStep m;
  m.job = kJob;
  m.attempt = 1;
  m.step = number;
  m.ranks = {2, 3};
  m.process.argv = {"true"};
  return m;
}
StopWork stop_all() {
  StopWork m;
  m.job = kJob;
  m.attempt = 1;
  m.kill_wait = seconds(7);
  return m;
}
ShimEvent started(WorkId key) { return {ShimEvent::What::kStarted, key, {}, {}}; }
ShimEvent paused(WorkId key, std::uint32_t number) { return {ShimEvent::What::kPaused, key, {}, {}, number}; }
ShimEvent resumed(WorkId key, std::uint32_t number) { return {ShimEvent::What::kResumed, key, {}, {}, number}; }
ShimEvent ended(WorkId key, ExitStatus exit = {}) { return {ShimEvent::What::kEnded, key, {}, {{0, exit}}}; }

// Drives a logic the way the agent's shell does, and keeps what the shell would keep.
class AgentLogicTest : public testing::Test {
 protected:
  void SetUp() override { restart({}); }

  void restart(std::vector<WorkId> survivors, const std::vector<FoundWork>& found = {}) {
    logic_ = std::make_unique<AgentLogic>(AgentSettings{}, Node{}, journal_, survivors, now_, found);
    drain();
  }
  void drain() {
    for (auto& line : logic_->take_journal()) journal_.push_back(line);
    for (auto& o : logic_->take_orders()) orders_.push_back(std::move(o));
    for (auto& m : logic_->take_messages()) sent_.push_back(std::move(m));
  }
  void connect() {
    logic_->connected(now_);
    receive(Welcome{1, NodeId(1), seconds(3), "test"});
  }
  void receive(ToAgent message) {
    logic_->receive(message, now_);
    drain();
  }
  void event(ShimEvent event) {
    logic_->shim_event(event, now_);
    drain();
  }
  void pass(Duration time) {
    now_ = now_ + time;
    logic_->tick(now_);
    drain();
  }
  void acknowledge_all() {
    ReportAck ack;
    for (const auto& m : sent_)
      if (const auto* report = std::get_if<Report>(&m))
        ack.numbers.push_back(report->number);
    receive(ack);
  }

  // The bodies of type T sent since the last clear().
  template <class T>
  std::vector<T> told() const {
    std::vector<T> found;
    for (const auto& m : sent_)
      if (const auto* report = std::get_if<Report>(&m))
        if (const auto* body = std::get_if<T>(&report->body))
          found.push_back(*body);
    return found;
  }
  template <class T>
  std::vector<T> messages() const {
    std::vector<T> found;
    for (const auto& m : sent_)
      if (const auto* message = std::get_if<T>(&m))
        found.push_back(*message);
    return found;
  }
  std::size_t ordered(What what, WorkId key) const {
    return static_cast<std::size_t>(
        std::count_if(orders_.begin(), orders_.end(), [&](const auto& o) { return o.what == what && o.key == key; }));
  }
  void clear() {
    orders_.clear();
    sent_.clear();
  }

  Instant now_{seconds(1000).us};
  std::vector<std::string> journal_;
  std::vector<AgentLogic::ShimOrder> orders_;
  std::vector<FromAgent> sent_;
  std::unique_ptr<AgentLogic> logic_;
};

TEST_F(AgentLogicTest, ScriptFromLaunchToForgotten) {
  connect();
  receive(attempt(true));
  ASSERT_EQ(ordered(What::kStart, kScriptKey), 1u);
  EXPECT_EQ(orders_[0].start.script, "#!/bin/sh\n");
  EXPECT_FALSE(orders_[0].start.launch.to_client);
  event(started(kScriptKey));
  EXPECT_EQ(told<AttemptStarted>().size(), 1u);
  EXPECT_TRUE(logic_->runs_for(1000));
  logic_->shim_event(ended(kScriptKey, {3, 0, false}), now_);
  const auto batch = logic_->take_messages();  // both words leave together
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(std::get<ScriptEnded>(std::get<Report>(batch[0]).body).exit.code, 3);
  EXPECT_FALSE(std::get<MemberStopped>(std::get<Report>(batch[1]).body).fenced);
  EXPECT_FALSE(logic_->runs_for(1000));
  EXPECT_EQ(ordered(What::kForget, kScriptKey), 0u);
  sent_.insert(sent_.end(), batch.begin(), batch.end());
  acknowledge_all();
  EXPECT_EQ(ordered(What::kForget, kScriptKey), 1u);
  clear();
  pass(seconds(3));
  ASSERT_EQ(messages<Renew>().size(), 1u);
  EXPECT_TRUE(messages<Renew>()[0].holdings.empty());
  EXPECT_TRUE(messages<Report>().empty());
}

TEST_F(AgentLogicTest, NewFactsAreToldOnTheSameConnection) {
  const auto say = [this](const std::string& reason) {
    Node facts;
    facts.reason = reason;
    logic_->set_facts(std::move(facts), now_);
    drain();
  };
  say("before");
  EXPECT_TRUE(messages<Hello>().empty());
  logic_->connected(now_);
  drain();
  say("while the hello waits");
  say("and again");
  ASSERT_EQ(messages<Hello>().size(), 1u);
  receive(Welcome{1, NodeId(1), seconds(3), "test"});
  ASSERT_EQ(messages<Hello>().size(), 2u);
  EXPECT_EQ(messages<Hello>()[1].facts.reason, "and again");
  receive(Welcome{1, NodeId(1), seconds(3), "test"});
  say("later");
  ASSERT_EQ(messages<Hello>().size(), 3u);
  EXPECT_EQ(messages<Hello>()[2].facts.reason, "later");
}

TEST_F(AgentLogicTest, ScriptsEndStopsItsSteps) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  receive(step());
  event(started(kStepKey));
  event(ended(kScriptKey));
  EXPECT_EQ(ordered(What::kStop, kStepKey), 1u);
  EXPECT_EQ(told<ScriptEnded>().size(), 1u);
  EXPECT_TRUE(told<MemberStopped>().empty());  // the step still lives
  receive(step(1));
  EXPECT_EQ(ordered(What::kStart, {kJob, 1, StepPart{1}}), 0u);
  event(ended(kStepKey));
  EXPECT_EQ(told<StepEnded>().size(), 1u);
  EXPECT_EQ(told<MemberStopped>().size(), 1u);
}

TEST_F(AgentLogicTest, DoubledLaunchesStartOnce) {
  connect();
  receive(attempt(true));
  receive(attempt(true));
  event(started(kScriptKey));
  receive(step());
  receive(step());
  event(started(kStepKey));
  event(started(kStepKey));
  event(ended(kStepKey));
  event(ended(kStepKey));
  receive(step());
  acknowledge_all();
  receive(step());
  EXPECT_EQ(ordered(What::kStart, kScriptKey), 1u);
  EXPECT_EQ(ordered(What::kStart, kStepKey), 1u);
  EXPECT_EQ(told<StepStarted>().size(), 1u);
  EXPECT_EQ(told<StepEnded>().size(), 1u);
}

TEST_F(AgentLogicTest, LateLaunchOfAGoneAttemptIsIgnored) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  event(ended(kScriptKey));
  acknowledge_all();
  restart({});
  connect();
  clear();
  receive(attempt(true));
  EXPECT_TRUE(orders_.empty());
  ASSERT_EQ(told<MemberStopped>().size(), 1u);
  EXPECT_TRUE(told<MemberStopped>()[0].refused) << "it never ran: that is not the job's failure";
  receive(attempt(true, 2));
  EXPECT_EQ(ordered(What::kStart, {kJob, 2, ScriptPart{}}), 1u);
}

TEST_F(AgentLogicTest, StopBeforeLaunchPreventsTheLaunch) {
  connect();
  receive(stop_all());
  receive(stop_all());
  EXPECT_EQ(told<MemberStopped>().size(), 1u);
  receive(attempt(true));
  EXPECT_TRUE(orders_.empty());
  acknowledge_all();
  clear();
  receive(stop_all());
  EXPECT_EQ(told<MemberStopped>().size(), 1u);  // answered again
  restart({});
  connect();
  receive(attempt(true));
  EXPECT_TRUE(orders_.empty());
}

TEST_F(AgentLogicTest, StopOfARunningAttemptUsesItsKillWait) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  receive(stop_all());
  ASSERT_EQ(ordered(What::kStop, kScriptKey), 1u);
  EXPECT_EQ(orders_.back().kill_wait, seconds(7));
  EXPECT_TRUE(told<MemberStopped>().empty());
  event(ended(kScriptKey, {0, 15, false}));
  EXPECT_EQ(told<ScriptEnded>()[0].exit.signal, 15);
  EXPECT_FALSE(told<ScriptEnded>()[0].by_itself);
  EXPECT_EQ(told<MemberStopped>().size(), 1u);
}

// While there is nobody to tell: what is said later carries when it was, also after the agent was started again.
TEST_F(AgentLogicTest, AnEndThatNobodyHeardIsToldWithItsTime) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  acknowledge_all();
  logic_->disconnected(now_);
  const Instant end = now_;
  event(ended(kScriptKey));
  pass(minutes(3));
  restart({});
  pass(minutes(4));
  clear();
  connect();
  ASSERT_EQ(told<ScriptEnded>().size(), 1u);
  EXPECT_TRUE(told<ScriptEnded>()[0].by_itself);
  for (const auto& message : sent_)
    if (const auto* report = std::get_if<Report>(&message)) {
      EXPECT_EQ(report->made_boot_us, end.us);
      EXPECT_EQ(report->ago, minutes(7));
    }
}

TEST_F(AgentLogicTest, AllocationWithoutScriptWaitsForItsStop) {
  connect();
  receive(attempt(false));
  EXPECT_EQ(told<AttemptStarted>().size(), 1u);
  receive(step());
  event(started(kStepKey));
  event(ended(kStepKey));
  EXPECT_TRUE(told<MemberStopped>().empty());
  receive(stop_all());
  EXPECT_EQ(told<MemberStopped>().size(), 1u);
}

TEST_F(AgentLogicTest, StepOfAnUnknownAttemptIsNotStarted) {
  connect();
  receive(step());
  EXPECT_TRUE(orders_.empty());
}

TEST_F(AgentLogicTest, StepStoppedBeforeItCameNeverStarts) {
  connect();
  receive(attempt(false));
  StopWork stop = stop_all();
  stop.part = StepPart{0};
  receive(stop);
  receive(stop);
  EXPECT_EQ(told<StepEnded>().size(), 1u);
  receive(step());
  EXPECT_TRUE(orders_.empty());
}

TEST_F(AgentLogicTest, TasksAreReplacedByLaterIncarnationsOnly) {
  connect();
  receive(attempt(false));
  LaunchTask task;
  task.job = kJob;
  task.attempt = 1;
  task.task = {0, 4, 2};
  receive(task);
  const WorkId second{kJob, 1, TaskPart{0, 4, 2}};
  ASSERT_EQ(ordered(What::kStart, second), 1u);
  event(started(second));
  event(ended(second, {9, 0, false}));
  ASSERT_EQ(told<TaskEnded>().size(), 1u);
  EXPECT_EQ(told<TaskEnded>()[0].exit.code, 9);
  acknowledge_all();
  receive(task);
  task.task.incarnation = 1;
  receive(task);
  EXPECT_EQ(ordered(What::kStart, second), 1u);
  task.task.incarnation = 3;
  receive(task);
  const WorkId third{kJob, 1, TaskPart{0, 4, 3}};
  EXPECT_EQ(ordered(What::kStart, third), 1u);
  receive(SignalWork{kJob, 1, third.part, {}, 12});
  receive(StopWork{kJob, 1, third.part, seconds(1)});
  EXPECT_EQ(ordered(What::kSignal, third), 1u);
  EXPECT_EQ(ordered(What::kStop, third), 1u);
  receive(StopWork{kJob, 1, TaskPart{0, 9, 1}});
  ASSERT_EQ(told<TaskEnded>().size(), 2u) << "what was stopped before it came";
  EXPECT_EQ(told<TaskEnded>()[1].index, 9u);
}

TEST_F(AgentLogicTest, AnAddressIsGivenByANodeThatHasSome) {
  connect();
  receive(attempt(false));
  LaunchTask task;
  task.job = kJob;
  task.attempt = 1;
  task.task = {0, 4, 1};
  task.sandbox.network = TaskNetwork::kOwn;
  task.sandbox.containers.resize(1);
  task.host_name = "web-4";
  receive(task);
  ASSERT_EQ(told<TaskContainers>().size(), 1u);
  EXPECT_NE(told<TaskContainers>()[0].reason.find("no address to give"), std::string::npos);
  ASSERT_EQ(told<TaskEnded>().size(), 1u);
  EXPECT_EQ(told<TaskEnded>()[0].exit.code, 1);
  EXPECT_TRUE(orders_.empty());

  Node facts;
  facts.task_range = "10.0.1.0/24";
  logic_->set_facts(facts, now_);
  task.task = {0, 5, 1};
  receive(task);
  const WorkId key{kJob, 1, TaskPart{0, 5, 1}};
  ASSERT_EQ(ordered(What::kStart, key), 1u);
  EXPECT_EQ(orders_.back().start.place, (SandboxPlace{"web-4", "10.0.1.0/24"}));
  EXPECT_EQ(orders_.back().start.sandbox, task.sandbox);
  event(started(key));
  ShimEvent word{.what = ShimEvent::What::kContainers, .key = key};
  word.address = "10.0.1.2";
  word.containers.resize(1);
  event(word);
  ASSERT_EQ(told<TaskContainers>().size(), 2u);
  EXPECT_EQ(told<TaskContainers>()[1].address, "10.0.1.2");
  EXPECT_EQ(told<TaskContainers>()[1].incarnation, 1u);
}

TEST_F(AgentLogicTest, FailedLaunchEndsTheMember) {
  connect();
  receive(attempt(true));
  event({ShimEvent::What::kFailed, kScriptKey, "no memory", {}});
  ASSERT_EQ(told<LaunchFailed>().size(), 1u);
  EXPECT_EQ(told<LaunchFailed>()[0].why, "no memory");
  EXPECT_EQ(told<MemberStopped>().size(), 1u);
  EXPECT_TRUE(told<AttemptStarted>().empty());
}

TEST_F(AgentLogicTest, AGpuThatFailsEndsThoseWhoHaveItAndNobodyElse) {
  connect();
  LaunchAttempt with = attempt(true), without = attempt(true);
  with.devices.set(3);
  without.job = JobId(6);
  without.devices.set(2);
  receive(with);
  receive(without);
  event(started(kScriptKey));
  event(started({JobId(6), 1, ScriptPart{}}));
  clear();
  logic_->device_failed(3, "GPU 3 has fallen off the bus: Xid 79", now_);
  logic_->device_failed(3, "GPU 3 does not answer any more", now_);
  logic_->device_failed(99, "GPU 99 is none", now_);
  drain();
  ASSERT_EQ(told<LaunchFailed>().size(), 1u);
  EXPECT_EQ(told<LaunchFailed>()[0].why, "GPU 3 has fallen off the bus: Xid 79");
  EXPECT_TRUE(is_device_loss(told<LaunchFailed>()[0]));
  EXPECT_EQ(ordered(What::kStop, kScriptKey), 1u);
  EXPECT_EQ(orders_.size(), 1u);
  EXPECT_EQ(orders_[0].why, StopWhy::kNodeFail);
  event(ended(kScriptKey, {0, 15, false}));
  EXPECT_EQ(told<MemberStopped>().size(), 1u);
}

TEST_F(AgentLogicTest, FailedStepIsCodeOneForItsRanks) {
  connect();
  receive(attempt(false));
  receive(step());
  event({ShimEvent::What::kFailed, kStepKey, "no memory", {}});
  ASSERT_EQ(told<StepEnded>().size(), 1u);
  ASSERT_EQ(told<StepEnded>()[0].results.size(), 2u);
  EXPECT_EQ(told<StepEnded>()[0].results[1].rank, 3u);
  EXPECT_EQ(told<StepEnded>()[0].results[1].exit.code, 1);
}

TEST_F(AgentLogicTest, ReportsRepeatUntilAcknowledged) {
  connect();
  receive(attempt(false));
  clear();
  pass(seconds(3));
  EXPECT_EQ(told<AttemptStarted>().size(), 1u);
  logic_->disconnected(now_);
  clear();
  connect();
  EXPECT_EQ(messages<Hello>().size(), 1u);
  EXPECT_EQ(messages<Hello>()[0].holdings.size(), 1u);
  EXPECT_EQ(told<AttemptStarted>().size(), 1u);
  receive(ReportAck{{99, 98}});  // of another life
  acknowledge_all();
  acknowledge_all();
  clear();
  pass(seconds(3));
  EXPECT_TRUE(told<AttemptStarted>().empty());
}

TEST_F(AgentLogicTest, ResultsSurviveTheAgent) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  acknowledge_all();
  logic_->disconnected(now_);
  clear();
  event(ended(kScriptKey, {4, 0, false}));
  EXPECT_TRUE(sent_.empty());
  restart({kScriptKey});
  event(started(kScriptKey));
  event(ended(kScriptKey, {4, 0, false}));  // the shim tells it again
  connect();
  ASSERT_EQ(told<ScriptEnded>().size(), 1u);
  EXPECT_EQ(told<ScriptEnded>()[0].exit.code, 4);
  EXPECT_EQ(told<MemberStopped>().size(), 1u);
  std::set<std::uint64_t> numbers;
  for (const auto& report : messages<Report>()) EXPECT_TRUE(numbers.insert(report.number).second);
}

TEST_F(AgentLogicTest, SurvivorsGoOnAfterARestart) {
  connect();
  receive(attempt(true));
  receive(step());
  event(started(kScriptKey));
  acknowledge_all();
  clear();
  restart({kScriptKey, kStepKey});
  connect();
  receive(attempt(true));
  receive(step());
  EXPECT_TRUE(orders_.empty());
  event(started(kStepKey));
  event(ended(kStepKey));
  EXPECT_EQ(told<StepEnded>().size(), 1u);
}

TEST_F(AgentLogicTest, StartThatNeverHappenedIsReported) {
  connect();
  receive(attempt(true));  // journalled; the agent dies before it carries the order out
  clear();
  restart({});
  connect();
  ASSERT_EQ(told<LaunchFailed>().size(), 1u);
  EXPECT_EQ(told<MemberStopped>().size(), 1u);
  EXPECT_TRUE(orders_.empty());
}

TEST_F(AgentLogicTest, StopSurvivesTheAgent) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  receive(stop_all());
  clear();
  restart({kScriptKey});
  EXPECT_EQ(ordered(What::kStop, kScriptKey), 1u);
}

TEST_F(AgentLogicTest, StrangersAreStoppedAndForgotten) {
  restart({kStepKey});
  event(started(kStepKey));
  EXPECT_EQ(ordered(What::kStop, kStepKey), 1u);
  event(ended(kStepKey));
  EXPECT_EQ(ordered(What::kForget, kStepKey), 1u);
  EXPECT_TRUE(messages<Report>().empty());
}

TEST_F(AgentLogicTest, FenceCountsFromTheSendingOfTheAcknowledgedRenewal) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  clear();
  pass(seconds(3));
  const Instant sent{messages<Renew>()[0].sent_boot_us};
  EXPECT_EQ(sent, now_);
  now_ = now_ + seconds(40);  // the acknowledgement takes its time
  receive(RenewAck{sent.us});
  EXPECT_EQ(logic_->renewed(), sent);
  logic_->disconnected(now_);
  now_ = sent + minutes(10) - micros(1);
  pass({});
  EXPECT_EQ(ordered(What::kStop, kScriptKey), 0u);
  EXPECT_EQ(logic_->next_timer(), sent + minutes(10));
  pass(micros(1));
  ASSERT_EQ(ordered(What::kStop, kScriptKey), 1u);
  EXPECT_LE(orders_.back().kill_wait, seconds(2));
  pass(seconds(1));
  EXPECT_EQ(ordered(What::kStop, kScriptKey), 1u);
  event(ended(kScriptKey, {0, 9, false}));
  connect();
  ASSERT_EQ(told<MemberStopped>().size(), 1u);
  EXPECT_TRUE(told<MemberStopped>()[0].fenced);
}

TEST_F(AgentLogicTest, WelcomeCountsFromTheHello) {
  const Instant hello = now_;
  logic_->connected(now_);
  now_ = now_ + seconds(20);
  receive(Welcome{1, NodeId(1), seconds(3), "test"});
  EXPECT_EQ(logic_->renewed(), hello);
}

TEST_F(AgentLogicTest, RestartDoesNotMoveTheFence) {
  connect();
  receive(attempt(true));
  const Instant renewed = logic_->renewed();
  now_ = now_ + minutes(9);
  restart({kScriptKey});
  EXPECT_EQ(logic_->renewed(), renewed);
  pass(minutes(1));
  EXPECT_EQ(ordered(What::kStop, kScriptKey), 1u);
}

TEST_F(AgentLogicTest, ForeignAcknowledgementMovesNoFence) {
  connect();
  receive(attempt(true));
  const Instant renewed = logic_->renewed();
  pass(seconds(2));
  receive(RenewAck{now_.us});
  EXPECT_EQ(logic_->renewed(), renewed);
}

TEST_F(AgentLogicTest, AttemptWithoutFenceOutlivesAnyPartition) {
  connect();
  LaunchAttempt forever = attempt(true);
  forever.fence_after = kForever;
  receive(forever);
  logic_->disconnected(now_);
  EXPECT_EQ(logic_->next_timer(), kNever);
  pass(hours(1000));
  EXPECT_EQ(ordered(What::kStop, kScriptKey), 0u);
}

TEST_F(AgentLogicTest, SignalsGoWhereTheyAreMeant) {
  connect();
  receive(attempt(true));
  receive(step());
  SignalWork m{kJob, 1, {}, SignalReach::kSteps, 10};
  receive(m);
  EXPECT_EQ(ordered(What::kSignal, kStepKey), 1u);
  EXPECT_EQ(ordered(What::kSignal, kScriptKey), 0u);
  EXPECT_EQ(orders_.back().reach, Shims::Reach::kAll);
  m.reach = SignalReach::kScript;
  receive(m);
  EXPECT_EQ(ordered(What::kSignal, kScriptKey), 1u);
  EXPECT_EQ(orders_.back().reach, Shims::Reach::kFirst) << "the shell alone, not what it has started";
  m.reach = SignalReach::kEverything;
  receive(m);
  EXPECT_EQ(ordered(What::kSignal, kScriptKey), 2u);
  EXPECT_EQ(orders_.back().reach, Shims::Reach::kAll);
  m.part = StepPart{0};
  receive(m);
  EXPECT_EQ(ordered(What::kSignal, kStepKey), 3u);
  const std::size_t before = orders_.size();
  m.job = JobId(77);
  receive(m);
  EXPECT_EQ(orders_.size(), before);
}

TEST_F(AgentLogicTest, WhyItEndsIsPassedOn) {
  connect();
  receive(attempt(true));
  receive(step());
  StopWork stop{kJob, 1};
  stop.kill_wait = seconds(3);
  stop.why = StopWhy::kTimeLimit;
  receive(stop);
  for (const auto& key : {kScriptKey, kStepKey}) EXPECT_EQ(ordered(What::kStop, key), 1u);
  for (const auto& order : orders_)
    if (order.what == What::kStop)
      EXPECT_EQ(order.why, StopWhy::kTimeLimit);
}

TEST_F(AgentLogicTest, PauseIsConfirmedByEveryShim) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  receive(step());
  event(started(kStepKey));
  clear();
  receive(PauseWork{kJob, 1, true, 1});
  EXPECT_EQ(ordered(What::kPause, kScriptKey), 1u);
  EXPECT_EQ(ordered(What::kPause, kStepKey), 1u);
  event(paused(kScriptKey, 1));
  EXPECT_TRUE(told<MemberPaused>().empty());
  event(paused(kStepKey, 1));
  ASSERT_EQ(told<MemberPaused>().size(), 1u);
  EXPECT_TRUE(told<MemberPaused>()[0].paused);
  EXPECT_EQ(told<MemberPaused>()[0].number, 1u);
}

TEST_F(AgentLogicTest, NothingStartsOrRunsInAPause) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  receive(PauseWork{kJob, 1, true, 1});
  event(paused(kScriptKey, 1));
  clear();
  receive(step());
  receive(SignalWork{kJob, 1, {}, SignalReach::kEverything, 18});
  EXPECT_TRUE(orders_.empty());
  // An end leaves no time to run.
  receive(StopWork{kJob, 1, StepPart{0}, seconds(30)});
  receive(PauseWork{kJob, 1, false, 2});
  EXPECT_EQ(ordered(What::kResume, kScriptKey), 1u);
  event(resumed(kScriptKey, 2));
  ASSERT_EQ(told<MemberPaused>().size(), 1u);
  EXPECT_FALSE(told<MemberPaused>()[0].paused);
  receive(step(1));
  EXPECT_EQ(orders_.back().what, What::kStart);
  receive(PauseWork{kJob, 1, true, 3});
  clear();
  now_ = now_ + minutes(20);
  pass({});
  for (const auto& order : orders_) EXPECT_EQ(order.kill_wait, Duration{});
  EXPECT_EQ(ordered(What::kStop, kScriptKey), 1u);  // its own fence
}

TEST_F(AgentLogicTest, WhatPausesIsNotLetGoOnToEnd) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  receive(PauseWork{kJob, 1, true, 1});
  event(paused(kScriptKey, 1));
  clear();
  StopWork stop{kJob, 1};
  stop.kill_wait = seconds(30);
  receive(stop);
  ASSERT_EQ(ordered(What::kStop, kScriptKey), 1u);
  for (const auto& order : orders_) EXPECT_EQ(order.kill_wait, Duration{});
}

TEST_F(AgentLogicTest, LateWordsOfAPauseMeanNothing) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  receive(PauseWork{kJob, 1, true, 1});
  receive(PauseWork{kJob, 1, false, 2});
  receive(PauseWork{kJob, 1, true, 3});
  clear();
  receive(PauseWork{kJob, 1, false, 2});  // a copy that comes late
  EXPECT_TRUE(orders_.empty());
  event(paused(kScriptKey, 1));
  event(resumed(kScriptKey, 2));
  EXPECT_TRUE(told<MemberPaused>().empty());
  event(paused(kScriptKey, 3));
  ASSERT_EQ(told<MemberPaused>().size(), 1u);
  EXPECT_EQ(told<MemberPaused>()[0].number, 3u);
  receive(PauseWork{kJob, 1, true, 3});  // the report is repeated anyway
  EXPECT_EQ(told<MemberPaused>().size(), 1u);
  acknowledge_all();
  receive(PauseWork{kJob, 1, true, 3});  // asked again, it says so again
  EXPECT_EQ(told<MemberPaused>().size(), 2u);
}

TEST_F(AgentLogicTest, PauseOutlivesTheAgent) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  receive(step());
  event(started(kStepKey));
  receive(PauseWork{kJob, 1, true, 1});
  event(paused(kScriptKey, 1));
  // It ends before the other shim has answered: both are asked again.
  clear();
  restart({kScriptKey, kStepKey});
  EXPECT_EQ(ordered(What::kPause, kScriptKey), 1u);
  EXPECT_EQ(ordered(What::kPause, kStepKey), 1u);
  connect();
  event(paused(kScriptKey, 1));
  EXPECT_TRUE(told<MemberPaused>().empty());
  event(paused(kStepKey, 1));
  EXPECT_EQ(told<MemberPaused>().size(), 1u);
  acknowledge_all();
  for (const bool compacted : {false, true}) {
    if (compacted)
      journal_ = logic_->journal_snapshot();
    clear();
    restart({kScriptKey, kStepKey});
    EXPECT_TRUE(orders_.empty());
    connect();
    ASSERT_EQ(messages<Renew>().size(), 1u);
    EXPECT_TRUE(messages<Renew>()[0].holdings.at(0).paused);
    receive(step(1));
    EXPECT_TRUE(orders_.empty());
  }
}

TEST_F(AgentLogicTest, PauseEndsWithWhatWasToStop) {
  connect();
  receive(attempt(false));
  receive(step());
  event(started(kStepKey));
  receive(PauseWork{kJob, 1, true, 1});
  event(ended(kStepKey));
  EXPECT_EQ(told<MemberPaused>().size(), 1u);
  receive(PauseWork{JobId(77), 1, true, 1});
  EXPECT_EQ(told<MemberPaused>().size(), 1u);
}

TEST_F(AgentLogicTest, RefusedSaysNothingMore) {
  logic_->connected(now_);
  receive(Refused{"unknown node"});
  EXPECT_EQ(logic_->next_timer(), kNever);
  pass(minutes(1));
  EXPECT_EQ(sent_.size(), 1u);
}

TEST_F(AgentLogicTest, SnapshotIsAsGoodAsTheJournal) {
  connect();
  receive(stop_all());
  receive(attempt(true, 2));
  event(started({kJob, 2, ScriptPart{}}));
  LaunchStep s = step();
  s.attempt = 2;
  receive(s);
  event(ended({kJob, 2, StepPart{0}}));
  acknowledge_all();
  s.step = 1;
  receive(s);
  event(started({kJob, 2, StepPart{1}}));
  const auto full = journal_;
  const auto snapshot = logic_->journal_snapshot();
  EXPECT_LT(snapshot.size(), full.size());
  const std::vector<WorkId> survivors{{kJob, 2, ScriptPart{}}, {kJob, 2, StepPart{1}}};
  const auto replay = [&](const std::vector<std::string>& lines) {
    journal_ = lines;
    clear();
    restart(survivors);
    return logic_->journal_snapshot();
  };
  EXPECT_EQ(replay(full), snapshot);
  EXPECT_EQ(replay(snapshot), snapshot);
  connect();
  receive(attempt(true, 1));
  receive(attempt(true, 2));
  s.step = 0;
  receive(s);
  EXPECT_TRUE(orders_.empty());
}

TEST(AgentJournal, FactsRoundTrip) {
  const std::vector<JournalFact> facts = {
      SeenAttempt{kJob, 3, 1000, minutes(10), seconds(30), true, Instant{77}},
      SeenShim{{kJob, 3, TaskPart{1, 2, 3}}, {4, 5}},
      SeenShim{kScriptKey, {}},
      Stopping{kJob, 3, true},
      GoneAttempt{kJob, 3},
      GoneSteps{kJob, 3, "0-4,9"},
      GoneTask{{kJob, 3, TaskPart{1, 2, 3}}},
      Report{8, kJob, 3, StepEnded{2, {{1, {0, 9, true}}}}},
      Acknowledged{{1, 2, 3}},
      Renewed{Instant{99}},
      NextReport{12},
      Pausing{kJob, 3, true, 7, false},
      PartsOf{kJob, 3, {{0, 0, 10'000, "1g.10gb", 4}, {7, 250, 20'000, "", 0}}},
  };
  for (const auto& fact : facts) {
    const std::string line = encode_fact(fact);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto back = decode_fact(line);
    ASSERT_TRUE(back) << line;
    EXPECT_EQ(encode_fact(*back), line);
    EXPECT_EQ(back->index(), fact.index());
  }
}

TEST(AgentJournal, TornAndForeignLinesAreSkipped) {
  for (const char* line :
       {"", "attempt", "attempt 5 1 1000 600 30 1", "attempt x 1 1 1 1 1 1", "shim 1 2", "shim 1 2 3 99999999 5 6",
        "gone 5", "report {\"number\":1", "report {}", "later 1 2 3", "renewed 9999999999999999999999",
        "acknowledged 1 -", "next-report 0",
        "report {\"report\":{\"number\":0,\"job\":5,\"attempt\":1,\"body\":{\"attempt_started\":{}}}}",
        "gone-task 5-1-0", "parts 5 1 0 0 0", "parts 5 1 64 0 0 0 -", "parts 5 1 0 0 0 0 %g",
        "stopping 1 4294967296 0"})
    EXPECT_FALSE(decode_fact(line)) << line;
}

TEST_F(AgentLogicTest, MoreStepsThanAJobMayRunAreRefusedWithTheReason) {
  const std::size_t most = AgentSettings{}.steps_max;
  connect();
  receive(attempt(false));
  for (std::size_t i = 0; i < most; ++i) receive(step(static_cast<StepNo>(i)));
  EXPECT_EQ(orders_.size(), most);
  const auto one_more = static_cast<StepNo>(most);
  receive(step(one_more));
  EXPECT_EQ(orders_.size(), most);
  ASSERT_EQ(told<StepEnded>().size(), 1u);
  EXPECT_EQ(told<StepEnded>()[0].step, one_more);
  EXPECT_EQ(told<StepEnded>()[0].results[1].exit.code, 1);
  const auto refusals = logic_->take_refusals();
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(step_of(refusals[0].key)->step, one_more);
  EXPECT_NE(refusals[0].why.find("256 steps"), std::string::npos);
  receive(step(one_more));  // once more, late
  EXPECT_EQ(told<StepEnded>().size(), 1u);
  event(ended(kStepKey));
  receive(step(static_cast<StepNo>(most + 1)));  // there is room again
  EXPECT_EQ(orders_.size(), most + 1);
}

TEST_F(AgentLogicTest, MoreThanANodeHoldsIsRefused) {
  connect();
  const std::size_t most = AgentSettings{}.works_max;
  for (std::size_t i = 0; i < most; ++i) {
    LaunchAttempt m = attempt(true);
    m.job = JobId(100 + i);
    logic_->receive(m, now_);
  }
  drain();
  EXPECT_EQ(orders_.size(), most);
  receive(attempt(true));
  ASSERT_EQ(told<LaunchFailed>().size(), 1u);
  EXPECT_NE(told<LaunchFailed>()[0].why.find("4096 scripts"), std::string::npos);
  EXPECT_EQ(orders_.size(), most);
  EXPECT_EQ(told<MemberStopped>().size(), 1u);  // nothing of it is here
}

FoundWork found(const WorkId& key, bool lost = false) {
  return {key, 1000, minutes(10), seconds(30), {2, 3}, true, lost};
}

// The journal was removed, and the script and a step of it run.
TEST_F(AgentLogicTest, WithoutAJournalTheShimsTellWhatRuns) {
  restart({kScriptKey, kStepKey}, {found(kScriptKey), found(kStepKey)});
  logic_->connected(now_);
  drain();
  const auto hello = messages<Hello>();
  ASSERT_EQ(hello.size(), 1u);
  ASSERT_EQ(hello[0].holdings.size(), 1u) << "nobody is told that nothing runs";
  EXPECT_EQ(hello[0].holdings[0].job, kJob);
  EXPECT_EQ(hello[0].holdings[0].steps, std::vector<StepNo>{0});
  EXPECT_EQ(hello[0].highest_job, kJob);
  receive(Welcome{1, NodeId(1), seconds(3), "test"});
  receive(attempt(true));
  EXPECT_EQ(ordered(What::kStart, kScriptKey), 0u) << "it does not start a second time";
  EXPECT_EQ(told<AttemptStarted>().size(), 1u) << "that may have been lost with the journal";
  event(ended(kStepKey));
  event(ended(kScriptKey));
  EXPECT_EQ(told<StepEnded>().size(), 1u);
  EXPECT_EQ(told<ScriptEnded>().size(), 1u);
  EXPECT_EQ(told<MemberStopped>().size(), 1u);
  // And the next agent finds it in the journal.
  clear();
  restart({});
  connect();
  EXPECT_EQ(told<ScriptEnded>().size(), 1u);
}

TEST_F(AgentLogicTest, AnOldJournalLearnsWhatRunsSinceThen) {
  connect();
  receive(attempt(false));
  const auto old = journal_;
  receive(step(0));
  journal_ = old;
  restart({kStepKey}, {found(kStepKey)});
  clear();
  connect();
  EXPECT_EQ(ordered(What::kStop, kStepKey), 0u) << "it is no stray";
  receive(step(0));
  EXPECT_EQ(ordered(What::kStart, kStepKey), 0u);
  event(ended(kStepKey));
  EXPECT_EQ(told<StepEnded>().size(), 1u);
}

TEST_F(AgentLogicTest, WhatNobodyCanSpeakToIsReportedAsLost) {
  for (const bool known : {false, true}) {
    SetUp();
    journal_.clear();
    clear();
    restart({});
    if (known) {
      connect();
      receive(attempt(true));
      event(started(kScriptKey));
    }
    clear();
    restart({}, {found(kScriptKey, true)});
    connect();
    ASSERT_EQ(told<ScriptEnded>().size(), 1u) << known;
    EXPECT_FALSE(told<ScriptEnded>()[0].by_itself) << "the job did not fail by itself";
    ASSERT_EQ(told<MemberStopped>().size(), 1u);
    EXPECT_TRUE(told<MemberStopped>()[0].fenced) << "the node is to blame";
    clear();
    receive(attempt(true));
    EXPECT_EQ(ordered(What::kStart, kScriptKey), 0u);
  }
}

// Its end was acknowledged, and only the folder is left: that is no news.
TEST_F(AgentLogicTest, WhatIsOverIsNotTakenUpAgain) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  receive(step(0));
  event(started(kStepKey));
  event(ended(kStepKey));
  acknowledge_all();
  restart({kScriptKey, kStepKey}, {found(kScriptKey), found(kStepKey)});
  clear();
  connect();
  event(ended(kStepKey));
  EXPECT_TRUE(told<StepEnded>().empty());
  event(ended(kScriptKey));
  acknowledge_all();
  restart({kScriptKey}, {found(kScriptKey)});
  clear();
  connect();
  EXPECT_TRUE(messages<Renew>()[0].holdings.empty());
}

// A controller whose log was put back from a backup makes the attempt once more.
TEST_F(AgentLogicTest, AStartThatIsRefusedAsOldIsAnswered) {
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  event(ended(kScriptKey));
  acknowledge_all();
  clear();
  receive(attempt(true));
  EXPECT_EQ(ordered(What::kStart, kScriptKey), 0u);
  EXPECT_EQ(told<MemberStopped>().size(), 1u);
  receive(attempt(true));
  EXPECT_EQ(told<MemberStopped>().size(), 1u) << "it is being repeated anyway";
  receive(attempt(true, 2));
  EXPECT_EQ(ordered(What::kStart, {kJob, 2, ScriptPart{}}), 1u);
}

TEST_F(AgentLogicTest, TheHighestJobOutlivesTheBoot) {
  connect();
  receive(attempt(true));
  receive(stop_all());
  EXPECT_EQ(highest_job(journal_), kJob);
  journal_ = {encode_fact(HighestJob{highest_job(journal_)})};
  restart({});
  clear();
  logic_->connected(now_);
  drain();
  EXPECT_EQ(messages<Hello>()[0].highest_job, kJob);
  EXPECT_EQ(highest_job(logic_->journal_snapshot()), kJob);
}

// A controller whose log is older must not give out these numbers again.
TEST_F(AgentLogicTest, TheHelloTellsWhichStepsThereHaveBeen) {
  const auto next_step = [&] {
    clear();
    logic_->connected(now_);
    drain();
    return messages<Hello>().at(0).holdings.at(0).next_step;
  };
  connect();
  receive(attempt(true));
  event(started(kScriptKey));
  EXPECT_EQ(next_step(), 0);
  connect();
  receive(step(0));
  receive(step(1));
  event(started(kStepKey));
  event(ended(kStepKey));
  event(ended({kJob, 1, StepPart{1}}));
  acknowledge_all();
  receive(step(2));
  EXPECT_EQ(next_step(), 3);
  connect();
  event(ended({kJob, 1, StepPart{2}}));
  acknowledge_all();
  EXPECT_EQ(next_step(), 3) << "also when all have ended";
  journal_ = logic_->journal_snapshot();
  restart({kScriptKey});
  EXPECT_EQ(next_step(), 3);
  StopWork stop = stop_all();
  stop.part = StepPart{INT32_MAX};
  receive(stop);
  EXPECT_EQ(next_step(), INT32_MAX) << "there is no number above it";
}

TEST_F(AgentLogicTest, AFullDiskRefusesStartsWithItsReason) {
  connect();
  receive(attempt(false));
  logic_->refuse_starts("the disk is full");
  clear();
  receive(step(0));
  ASSERT_EQ(told<StepEnded>().size(), 1u);
  EXPECT_EQ(told<StepEnded>()[0].results[0].exit.code, 1);
  const auto refusals = logic_->take_refusals();
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_NE(refusals[0].why.find("the disk is full"), std::string::npos);
  for (const bool script : {true, false}) {
    clear();
    receive(attempt(script, script ? 2 : 3));
    ASSERT_EQ(told<LaunchFailed>().size(), 1u);
    EXPECT_NE(told<LaunchFailed>()[0].why.find("the disk is full"), std::string::npos);
    EXPECT_EQ(told<MemberStopped>().size(), 1u);
    EXPECT_TRUE(told<AttemptStarted>().empty());
  }
  logic_->refuse_starts("");
  receive(attempt(true, 4));
  EXPECT_EQ(ordered(What::kStart, {kJob, 4, ScriptPart{}}), 1u);
}

// An agent that stood still hears of ends long after them.
TEST_F(AgentLogicTest, AnEndIsReportedForWhenTheShimSaysItWas) {
  connect();
  receive(attempt(true));
  const Instant start = now_ + seconds(2), end = now_ + seconds(5);
  now_ = now_ + minutes(10);
  clear();
  ShimEvent began = started(kScriptKey), over = ended(kScriptKey);
  began.at = start;
  over.at = end;
  event(began);
  event(over);
  std::vector<std::int64_t> made;
  for (const Report& report : messages<Report>()) made.push_back(report.made_boot_us);
  EXPECT_EQ(made, (std::vector<std::int64_t>{start.us, end.us, end.us}));
  EXPECT_EQ(messages<Report>()[1].ago, now_ - end);
  clear();
  receive(attempt(true, 2));
  ShimEvent ahead = started({kJob, 2, ScriptPart{}});
  ahead.at = now_ + hours(1);
  event(ahead);
  EXPECT_EQ(messages<Report>()[0].made_boot_us, now_.us) << "nobody is ahead of the clock";
}

// What it has of devices that it shares is given up when its last word is spoken, and not forgotten by a new agent.
TEST_F(AgentLogicTest, PartsAreHeldUntilTheEndIsReported) {
  connect();
  LaunchAttempt launch = attempt(true);
  launch.parts = {{0, 0, 10'000, "1g.10gb", 4}, {2, 250, 20'000, "", 0}};
  receive(launch);
  ASSERT_EQ(logic_->parts().size(), 1u);
  EXPECT_EQ(logic_->parts()[0].parts, launch.parts);
  restart({kScriptKey});
  ASSERT_EQ(logic_->parts().size(), 1u);
  EXPECT_TRUE(logic_->parts()[0].known);
  EXPECT_EQ(logic_->parts()[0].parts, launch.parts);
  journal_ = logic_->journal_snapshot();
  restart({kScriptKey});
  EXPECT_EQ(logic_->parts()[0].parts, launch.parts);
  event(started(kScriptKey));
  event(ended(kScriptKey));
  EXPECT_TRUE(logic_->parts().empty());
}

TEST_F(AgentLogicTest, PartsOfWhatTheJournalHasLostAreNotKnown) {
  FoundWork found{.key = kScriptKey, .uid = 1000};
  found.ranks = {0};
  found.launched = true;
  journal_.clear();
  restart({kScriptKey}, {found});
  ASSERT_EQ(logic_->parts().size(), 1u);
  EXPECT_FALSE(logic_->parts()[0].known);
}

TEST_F(AgentLogicTest, ANodeThatCannotGiveWhatWasGrantedIsAtFault) {
  connect();
  clear();
  logic_->cannot_start(attempt(true), "no slice", now_);
  drain();
  EXPECT_EQ(ordered(What::kStart, kScriptKey), 0u);
  const auto reports = messages<Report>();
  ASSERT_EQ(reports.size(), 2u);
  const auto* failed = std::get_if<LaunchFailed>(&reports[0].body);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->why, "no slice");
  EXPECT_TRUE(failed->node_at_fault);
  EXPECT_TRUE(std::holds_alternative<MemberStopped>(reports[1].body));
  receive(attempt(true));
  EXPECT_EQ(ordered(What::kStart, kScriptKey), 0u) << "it stays so";
}

}  // namespace
}  // namespace lockstep
