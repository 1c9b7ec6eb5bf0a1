#include "shim/sandbox_logic.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace lockstep {
namespace {

using What = SandboxLogic::Order::What;
using Orders = std::vector<SandboxLogic::Order>;

SandboxContainer container(const std::string& name, ContainerKind kind = ContainerKind::kMain,
                           RestartRule restart = RestartRule::kNever) {
  SandboxContainer one;
  one.name = name;
  one.kind = kind;
  one.restart = restart;
  one.argv = {"true"};
  return one;
}

Probe probe(Probe::What what) {
  Probe one;
  one.what = what;
  one.how = Probe::How::kTcp;
  one.period = seconds(1);
  one.failures = 2;
  return one;
}

Instant at(std::int64_t s) { return Instant{} + seconds(100 + s); }

SandboxLogic logic_of(std::vector<SandboxContainer> containers) {
  Sandbox sandbox;
  sandbox.containers = std::move(containers);
  return SandboxLogic(std::move(sandbox), seconds(5), at(0));
}

// What was ordered. What starts begins at once.
Orders orders(SandboxLogic& logic, Instant now = at(0)) {
  Orders all;
  for (Orders some; !(some = logic.take_orders()).empty(); all.insert(all.end(), some.begin(), some.end()))
    for (const auto& order : some)
      if (order.what == What::kStart)
        logic.began(order.container, now);
  return all;
}

ContainerState state(const SandboxLogic& logic, std::size_t i) { return logic.containers()[i].state; }

TEST(SandboxLogic, InitContainersRunOneAfterTheOtherBeforeTheMainOnes) {
  auto logic = logic_of(
      {container("main"), container("first", ContainerKind::kInit), container("second", ContainerKind::kInit)});
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 1}}));
  logic.ended(1, {}, at(1));
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 2}}));
  EXPECT_EQ(state(logic, 0), ContainerState::kWaiting);
  logic.ended(2, {}, at(2));
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 0}}));
  EXPECT_FALSE(logic.over());
  logic.ended(0, {3, 0, false}, at(3));
  EXPECT_TRUE(logic.over());
  EXPECT_EQ(logic.result().code, 3);
}

TEST(SandboxLogic, AnInitContainerThatFailsForGoodEndsTheSandbox) {
  auto logic = logic_of({container("setup", ContainerKind::kInit), container("main")});
  orders(logic);
  logic.ended(0, {7, 0, false}, at(1));
  EXPECT_TRUE(orders(logic).empty());
  EXPECT_TRUE(logic.over());
  EXPECT_EQ(logic.result().code, 7);
  EXPECT_EQ(state(logic, 1), ContainerState::kWaiting) << "it never started";
}

TEST(SandboxLogic, AnInitContainerIsTriedAgainByItsRule) {
  auto logic = logic_of({container("setup", ContainerKind::kInit, RestartRule::kOnFailure), container("main")});
  orders(logic);
  logic.ended(0, {7, 0, false}, at(1));
  EXPECT_EQ(logic.next_timer(), at(2));
  logic.tick(at(2));
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 0}}));
  logic.ended(0, {}, at(3));
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 1}}));
  EXPECT_EQ(logic.containers()[0].restarts, 1u);
}

TEST(SandboxLogic, ARestartIsTheContainersAloneAndWaitsLongerEachTime) {
  auto logic = logic_of({container("stays"), container("fails", ContainerKind::kMain, RestartRule::kAlways)});
  orders(logic);
  std::int64_t now = 0;
  for (const std::int64_t wait : {1, 2, 4, 8}) {
    logic.ended(1, {1, 0, false}, at(now));
    EXPECT_EQ(logic.containers()[1].reason, "CrashLoopBackOff");
    EXPECT_EQ(logic.next_timer(), at(now + wait));
    now += wait;
    logic.tick(at(now));
    EXPECT_EQ(orders(logic), (Orders{{What::kStart, 1}}));
    EXPECT_EQ(state(logic, 0), ContainerState::kRunning);
  }
  EXPECT_EQ(logic.containers()[1].restarts, 4u);
  EXPECT_FALSE(logic.over());
}

// As Kubernetes' node agents do it: the first time at once, then 10 s, 20 s … 5 min.
TEST(SandboxLogic, WhoAsksForAFrontEndWaitsAsThatSays) {
  Sandbox sandbox;
  sandbox.front_end_files = true;
  sandbox.containers = {container("fails", ContainerKind::kMain, RestartRule::kAlways)};
  SandboxLogic logic(std::move(sandbox), seconds(5), at(0));
  logic.hold({}, at(0));
  orders(logic);
  std::int64_t now = 0;
  for (const std::int64_t wait : {0, 10, 20, 40, 80, 160, 300, 300}) {
    logic.ended(0, {1, 0, false}, at(now));
    EXPECT_EQ(logic.containers()[0].reason, wait == 0 ? "ContainerCreating" : "CrashLoopBackOff");
    EXPECT_EQ(logic.next_timer(), at(now + wait));
    if (wait == 80)
      EXPECT_EQ(logic.containers()[0].message, "back-off 1m20s restarting failed container=fails");
    now += wait;
    logic.tick(at(now));
    EXPECT_EQ(orders(logic, at(now)), (Orders{{What::kStart, 0}}));
  }
  now += 600;
  logic.ended(0, {1, 0, false}, at(now));
  EXPECT_EQ(logic.next_timer(), at(now)) << "it ran for long, and begins anew";
}

TEST(SandboxLogic, FailuresOfAProbeAreTheMoreSeldomToldTheMoreThereAre) {
  SandboxContainer one = container("main");
  one.probes = {probe(Probe::What::kReadiness)};
  auto logic = logic_of({one});
  orders(logic);
  std::vector<std::uint32_t> told;
  for (std::int64_t s = 0; s < 100; ++s) {
    logic.tick(at(s));
    logic.probed(0, 0, false, at(s), format("no {}", s));
    const std::vector<FailedProbe>& all = logic.notes(0).failed_probes;
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].what, Probe::What::kReadiness);
    if (told.empty() || told.back() != all[0].times) {
      told.push_back(all[0].times);
      EXPECT_EQ(all[0].output, format("no {}", s));
    }
  }
  EXPECT_EQ(told, (std::vector<std::uint32_t>{1, 2, 3, 4, 8, 16, 32, 64}));
  logic.tick(at(400));
  logic.probed(0, 0, false, at(400), "still");
  EXPECT_EQ(logic.notes(0).failed_probes.at(0).times, 101u) << "after five minutes in any case";
  logic.tick(at(401));
  logic.probed(0, 0, true, at(401));
  EXPECT_TRUE(logic.notes(0).failed_probes.empty()) << "it is well";
}

TEST(SandboxLogic, AnImageThatComesIsTold) {
  auto logic = logic_of({container("main")});
  logic.take_orders();
  logic.fetches_image(0);
  EXPECT_EQ(logic.containers()[0].reason, "FetchingImage");
  logic.cannot_yet(0, "ErrImagePull", "manifest unknown", at(1));
  EXPECT_EQ(logic.containers()[0].reason, "ErrImagePull");
  logic.tick(at(3));
  logic.take_orders();
  logic.fetches_image(0);
  EXPECT_EQ(logic.containers()[0].reason, "ErrImagePull") << "until that is otherwise";
  logic.uses_image(0, "sha256:abc", millis(40));
  logic.began(0, at(4));
  EXPECT_EQ(logic.notes(0).fetch_time, millis(40));
  EXPECT_EQ(logic.containers()[0].reason, "");
}

TEST(SandboxLogic, RestartsAreBounded) {
  SandboxContainer one = container("fails", ContainerKind::kMain, RestartRule::kOnFailure);
  one.restarts_max = 1;
  auto logic = logic_of({one});
  orders(logic);
  logic.ended(0, {1, 0, false}, at(0));
  logic.tick(at(1));
  orders(logic);
  logic.ended(0, {2, 0, false}, at(1));
  EXPECT_TRUE(logic.over());
  EXPECT_EQ(logic.result().code, 2);
  EXPECT_EQ(logic.containers()[0].restarts, 1u);
}

TEST(SandboxLogic, SidecarsEndWithTheLastMainContainerAndAreKilledIfTheyDoNot) {
  auto logic = logic_of({container("helper", ContainerKind::kSidecar), container("main")});
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 0}, {What::kStart, 1}}));
  logic.ended(1, {}, at(1));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 0}}));
  EXPECT_FALSE(logic.over());
  logic.tick(at(6));
  EXPECT_EQ(orders(logic), (Orders{{What::kKill, 0}}));
  logic.ended(0, {0, 9, false}, at(6));
  EXPECT_TRUE(logic.over());
  EXPECT_TRUE(logic.result().ok());
}

TEST(SandboxLogic, ASidecarStartsAgainWhateverItsEnd) {
  auto logic = logic_of({container("helper", ContainerKind::kSidecar), container("main")});
  orders(logic);
  logic.ended(0, {}, at(1));
  logic.tick(at(2));
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 0}}));
}

TEST(SandboxLogic, TheMainContainersWaitForTheStartupOfASidecar) {
  SandboxContainer helper = container("helper", ContainerKind::kSidecar);
  helper.probes = {probe(Probe::What::kStartup)};
  auto logic = logic_of({helper, container("main")});
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 0}}));
  EXPECT_FALSE(logic.containers()[0].ready);
  logic.tick(at(0));
  EXPECT_EQ(orders(logic), (Orders{{What::kProbe, 0, 0}}));
  logic.probed(0, 0, true, at(1));
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 1}}));
  EXPECT_TRUE(logic.containers()[0].ready);
}

TEST(SandboxLogic, ReadinessFollowsItsProbe) {
  SandboxContainer one = container("main");
  one.probes = {probe(Probe::What::kReadiness)};
  auto logic = logic_of({one});
  orders(logic);
  logic.tick(at(0));
  EXPECT_FALSE(logic.containers()[0].ready);
  logic.probed(0, 0, true, at(0));
  EXPECT_TRUE(logic.containers()[0].ready);
  for (const std::int64_t s : {1, 2}) {
    EXPECT_TRUE(logic.containers()[0].ready) << "one failure is not enough";
    logic.tick(at(s));
    logic.probed(0, 0, false, at(s));
  }
  EXPECT_FALSE(logic.containers()[0].ready);
  EXPECT_EQ(state(logic, 0), ContainerState::kRunning);
}

// Endpoints that go serve until they are gone: a container that is told to stop is ready as long as its probe says so.
TEST(SandboxLogic, WhatIsToldToStopIsReadyUntilItHasStopped) {
  SandboxContainer one = container("main");
  one.probes = {probe(Probe::What::kReadiness), probe(Probe::What::kLiveness)};
  auto logic = logic_of({one, container("plain")});
  orders(logic);
  logic.tick(at(0));
  logic.probed(0, 0, true, at(0));
  logic.probed(0, 1, true, at(0));
  orders(logic);
  logic.told_to_end(at(1));
  EXPECT_TRUE(logic.containers()[0].ready);
  EXPECT_TRUE(logic.containers()[1].ready);
  orders(logic);
  logic.tick(at(2));
  EXPECT_EQ(orders(logic), (Orders{{What::kProbe, 0, 0}})) << "whether it lives is asked no more";
  logic.probed(0, 0, false, at(2));
  logic.tick(at(3));
  logic.probed(0, 0, false, at(3));
  EXPECT_FALSE(logic.containers()[0].ready);
  logic.ended(1, {}, at(4));
  EXPECT_FALSE(logic.containers()[1].ready);
}

TEST(SandboxLogic, ALivenessProbeThatFailsEndsTheContainerWhichStartsAgainByItsRule) {
  SandboxContainer one = container("main", ContainerKind::kMain, RestartRule::kOnFailure);
  one.probes = {probe(Probe::What::kLiveness)};
  auto logic = logic_of({one});
  orders(logic);
  for (const std::int64_t s : {0, 1}) {
    logic.tick(at(s));
    EXPECT_EQ(orders(logic), (Orders{{What::kProbe, 0, 0}}));
    logic.probed(0, 0, false, at(s));
  }
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 0}}));
  EXPECT_EQ(logic.notes(0).failed_probes, (std::vector<FailedProbe>{{Probe::What::kLiveness, 2, 1, ""}}));
  logic.ended(0, {0, 15, false}, at(2));
  EXPECT_EQ(state(logic, 0), ContainerState::kWaiting);
  EXPECT_EQ(logic.containers()[0].reason, "LivenessProbeFailed");
  logic.probed(0, 0, false, at(2));
  EXPECT_TRUE(orders(logic).empty()) << "a probe of a life that is over";
}

TEST(SandboxLogic, WhatIsBeingMadeIsWaitedForAndNotProbed) {
  SandboxContainer one = container("main", ContainerKind::kMain, RestartRule::kOnFailure);
  one.probes = {probe(Probe::What::kLiveness)};
  auto logic = logic_of({one});
  EXPECT_EQ(logic.take_orders(), (Orders{{What::kStart, 0}}));
  EXPECT_EQ(state(logic, 0), ContainerState::kWaiting);
  EXPECT_EQ(logic.containers()[0].reason, "ContainerCreating");
  logic.tick(at(500));
  EXPECT_TRUE(logic.take_orders().empty());
  EXPECT_EQ(logic.next_timer(), kNever);
  logic.ended(0, {1, 0, false}, at(500));
  EXPECT_EQ(logic.containers()[0].reason, "CreateContainerError");
  logic.tick(at(501));
  EXPECT_EQ(orders(logic, at(501)), (Orders{{What::kStart, 0}}));
  EXPECT_EQ(state(logic, 0), ContainerState::kRunning);
  logic.tick(at(501));
  EXPECT_EQ(logic.take_orders(), (Orders{{What::kProbe, 0, 0}}));
}

TEST(SandboxLogic, ToldToEndNothingStartsAgain) {
  auto logic = logic_of({container("main", ContainerKind::kMain, RestartRule::kAlways),
                         container("fails", ContainerKind::kMain, RestartRule::kAlways)});
  orders(logic);
  logic.ended(1, {1, 0, false}, at(0));
  logic.told_to_end(at(0));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 0}}));
  logic.ended(0, {0, 15, false}, at(1));
  EXPECT_TRUE(logic.over());
  EXPECT_EQ(logic.next_timer(), kNever);
  EXPECT_EQ(logic.containers()[1].restarts, 0u);
}

TEST(SandboxLogic, HeldContainersSayWhyAndStartWhenTheyMay) {
  Sandbox sandbox;
  sandbox.containers = {container("main"), container("other")};
  sandbox.front_end_files = true;
  SandboxLogic logic(sandbox, seconds(5), at(0));
  EXPECT_TRUE(orders(logic).empty()) << "nobody has asked the front end yet";
  logic.hold({{"main", "CreateContainerConfigError", "secret \"x\" not found"}}, at(1));
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 1}}));
  EXPECT_EQ(logic.containers()[0].reason, "CreateContainerConfigError");
  EXPECT_EQ(logic.containers()[0].message, "secret \"x\" not found");
  EXPECT_EQ(logic.next_timer(), kNever) << "it starts when it is let";
  logic.tick(at(2));
  EXPECT_TRUE(orders(logic).empty());
  logic.hold({}, at(3));
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 0}}));
  EXPECT_EQ(logic.containers()[0].message, "");
}

TEST(SandboxLogic, WhatIsNotThereIsTriedAgainAndCountsAsNoLife) {
  auto logic = logic_of({container("main")});
  ASSERT_EQ(logic.take_orders(), (Orders{{What::kStart, 0}}));
  logic.cannot_yet(0, "ErrImagePull", "no such image", at(0));
  EXPECT_EQ(logic.containers()[0].reason, "ErrImagePull");
  EXPECT_EQ(logic.containers()[0].message, "no such image");
  EXPECT_EQ(logic.next_timer(), at(2));
  logic.tick(at(2));
  ASSERT_EQ(logic.take_orders(), (Orders{{What::kStart, 0}}));
  logic.cannot_yet(0, "ErrImagePull", "no such image", at(2));
  EXPECT_EQ(logic.containers()[0].reason, "ImagePullBackOff");
  EXPECT_EQ(logic.next_timer(), at(6));
  EXPECT_EQ(logic.containers()[0].restarts, 0u);
  logic.told_to_end(at(3));
  EXPECT_TRUE(logic.over());
}

TEST(SandboxLogic, HooksStandBehindTheBeginningAndBeforeTheEnd) {
  SandboxContainer one = container("main", ContainerKind::kMain, RestartRule::kAlways);
  one.begun.how = one.ending.how = ContainerHook::How::kExec;
  one.probes = {probe(Probe::What::kReadiness)};
  auto logic = logic_of({one});
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 0}, {What::kBegunHook, 0}}));
  logic.tick(at(5));
  EXPECT_TRUE(orders(logic).empty()) << "no probe before its hook";
  EXPECT_FALSE(logic.containers()[0].begun);
  logic.hooked(0, true, at(6));
  EXPECT_TRUE(logic.containers()[0].begun);
  logic.tick(at(6));
  EXPECT_EQ(orders(logic), (Orders{{What::kProbe, 0, 0}}));
  logic.told_to_end(at(7));
  EXPECT_EQ(orders(logic), (Orders{{What::kEndingHook, 0}}));
  logic.hooked(0, false, at(8));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 0}})) << "whatever became of it";
  logic.tick(at(12));
  EXPECT_EQ(orders(logic), (Orders{{What::kKill, 0}})) << "the hook took of the same time";
}

TEST(SandboxLogic, AFirstHookThatFailsEndsTheContainer) {
  SandboxContainer one = container("main", ContainerKind::kMain, RestartRule::kAlways);
  one.begun.how = ContainerHook::How::kHttp;
  auto logic = logic_of({one});
  orders(logic);
  logic.hooked(0, false, at(1));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 0}}));
  logic.ended(0, {0, 15, false}, at(1), "last words");
  EXPECT_EQ(logic.containers()[0].last_message, "last words");
  EXPECT_EQ(logic.containers()[0].last_reason, "PostStartHookError");
  EXPECT_EQ(state(logic, 0), ContainerState::kWaiting);
}

TEST(SandboxLogic, SidecarsEndOneAfterTheOtherTheLastOneFirst) {
  auto logic = logic_of(
      {container("first", ContainerKind::kSidecar), container("second", ContainerKind::kSidecar), container("main")});
  orders(logic);
  logic.told_to_end(at(0));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 2}}));
  logic.ended(2, {}, at(1));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 1}}));
  logic.ended(1, {}, at(4));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 0}}));
  logic.tick(at(5));
  EXPECT_TRUE(orders(logic).empty()) << "a little time is left to it in any case";
  logic.tick(at(6));
  EXPECT_EQ(orders(logic), (Orders{{What::kKill, 0}}));
  logic.ended(0, {0, 9, false}, at(6));
  EXPECT_TRUE(logic.over());
}

TEST(SandboxLogic, LastHooksBeginAtOnceAndSidecarsEndWhenItIsTheirTurn) {
  std::vector<SandboxContainer> all = {container("first", ContainerKind::kSidecar),
                                       container("second", ContainerKind::kSidecar), container("main")};
  for (SandboxContainer& one : all) one.ending.how = ContainerHook::How::kExec;
  auto logic = logic_of(all);
  orders(logic);
  logic.told_to_end(at(0));
  EXPECT_EQ(orders(logic), (Orders{{What::kEndingHook, 0}, {What::kEndingHook, 1}, {What::kEndingHook, 2}}));
  logic.hooked(0, true, at(1));
  EXPECT_TRUE(orders(logic).empty()) << "it is not its turn";
  logic.hooked(2, true, at(1));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 2}}));
  logic.ended(2, {}, at(2));
  EXPECT_TRUE(orders(logic).empty()) << "its hook still runs";
  logic.hooked(1, true, at(3));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 1}}));
  logic.ended(1, {}, at(3));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 0}})) << "its hook is done, and runs no second time";
  logic.ended(0, {}, at(4));
  EXPECT_TRUE(logic.over());
}

TEST(SandboxLogic, ReadinessMayTakeSeveralSuccesses) {
  SandboxContainer one = container("main");
  one.probes = {probe(Probe::What::kReadiness)};
  one.probes[0].successes = 2;
  auto logic = logic_of({one});
  orders(logic);
  for (const std::int64_t s : {0, 1}) {
    EXPECT_FALSE(logic.containers()[0].ready);
    logic.tick(at(s));
    logic.probed(0, 0, true, at(s));
  }
  EXPECT_TRUE(logic.containers()[0].ready);
}

TEST(SandboxLogic, WhatIsAddedStartsAtOnceRunsOnceAndIsWaitedForByNobody) {
  auto logic = logic_of({container("setup", ContainerKind::kInit), container("main")});
  orders(logic);
  logic.add(container("looks", ContainerKind::kAdded), at(1));
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 2}}));
  EXPECT_EQ(state(logic, 1), ContainerState::kWaiting) << "the init container is not done";
  logic.ended(2, {3, 0, false}, at(2));
  EXPECT_EQ(state(logic, 2), ContainerState::kEnded);
  logic.ended(0, {}, at(3));
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 1}}));
  logic.add(container("stays", ContainerKind::kAdded), at(4));
  orders(logic);
  logic.ended(1, {}, at(5));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 3}})) << "it ends with the main one";
  logic.ended(3, {0, 15, false}, at(6));
  EXPECT_TRUE(logic.over());
  EXPECT_TRUE(logic.result().ok()) << "how it ended is not how the task did";
  logic.add(container("late", ContainerKind::kAdded), at(7));
  EXPECT_TRUE(orders(logic).empty());
}

TEST(SandboxLogic, WhatIsToBeSomethingElseIsStartedAnewWhateverItsRule) {
  auto logic = logic_of({container("main")});
  orders(logic);
  logic.renew(0, at(1));
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 0}}));
  logic.ended(0, {0, 15, false}, at(2));
  EXPECT_FALSE(logic.over());
  EXPECT_EQ(logic.containers()[0].restarts, 1u);
  logic.tick(at(2));
  EXPECT_EQ(orders(logic, at(2)), (Orders{{What::kStart, 0}})) << "without a pause";
  logic.ended(0, {}, at(3));
  EXPECT_TRUE(logic.over()) << "by its rule from then on";
  logic.renew(0, at(4));
  EXPECT_TRUE(orders(logic).empty());
}

TEST(SandboxLogic, WhatWaitsForAnImageIsTriedAtOnceWithAnother) {
  auto logic = logic_of({container("main")});
  logic.take_orders();
  logic.cannot_yet(0, "ErrImagePull", "no such image", at(1));
  logic.tick(at(1));
  EXPECT_TRUE(orders(logic).empty());
  logic.renew(0, at(1));
  logic.tick(at(1));
  EXPECT_EQ(orders(logic), (Orders{{What::kStart, 0}}));
}

TEST(SandboxLogic, WhoIsPutOutEndsAtOnceAndHasFailed) {
  auto logic = logic_of({container("main", ContainerKind::kMain, RestartRule::kAlways)});
  orders(logic);
  logic.evict("Evicted: too much", at(1));
  logic.evict("Evicted: once more", at(1));
  EXPECT_EQ(logic.why_evicted(), "Evicted: too much");
  EXPECT_EQ(orders(logic), (Orders{{What::kTerm, 0}}));
  logic.tick(at(1));
  EXPECT_EQ(orders(logic), (Orders{{What::kKill, 0}})) << "without a grace";
  logic.ended(0, {0, 9, false}, at(1));
  EXPECT_TRUE(logic.over());
  EXPECT_FALSE(logic.result().ok());
}

}  // namespace
}  // namespace lockstep
