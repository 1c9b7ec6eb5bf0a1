#include "shim/sandbox_logic.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lockstep
