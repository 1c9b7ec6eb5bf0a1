#include "controller/turns.h"

#include <gtest/gtest.h>

#include "base/mutant.h"
#include "controller/test_world.h"

namespace lockstep {
namespace {

class TurnsTest : public ::testing::Test {
 protected:
  // Work of so many slices, each of which takes a slice of time.
  void work(const Payer& payer, int slices) {
    turns.add(payer, [this, payer, slices] { slice(payer, slices); });
  }
  void slice(const Payer& payer, int left) {
    now_us += 4'000;
    order += payer.name.back();
    if (left > 1)
      turns.go_on([this, payer, left] { slice(payer, left - 1); });
  }

  TestLoop loop;
  std::int64_t now_us = 0;
  std::string order;  // whose slices ran
  TurnLimits limits{.rate_per_s = 100, .rate_burst = 10, .pending_max = 5};
  FairTurns turns{loop, limits, [this] { return now_us; }};
  const Payer ann{"local:a", false}, bob{"local:b", false}, root{"local:r", true};
};

TEST_F(TurnsTest, AFloodCostsAnotherCallerHalfOfTheThread) {
  for (int i = 0; i < 20; ++i) work(ann, 5);
  work(bob, 4);
  loop.until([&] { return turns.waiting() == 0; });
  // From the moment Bob came, every other slice is his until he is done.
  const auto first = order.find('b'), last = order.rfind('b');
  EXPECT_LE(first, 2u) << order;
  EXPECT_LE(last - first, 7u) << order;
  EXPECT_EQ(order.size(), 104u);
}

TEST_F(TurnsTest, LooksOfWhatWaitsAreNoRequests) {
  int looks = 0;
  for (int i = 0; i < 20; ++i) turns.add_later(ann, [&] { ++looks; });
  EXPECT_TRUE(turns.admit(ann, 1).ok());
  loop.until([&] { return turns.waiting() == 0; });
  EXPECT_EQ(looks, 20);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(turns.admit(ann, 1).ok());
    turns.add_later(bob, [&] { ++looks; });
  }
  EXPECT_EQ(turns.waiting(), 5u);
}

TEST_F(TurnsTest, ManyCallersDoNotDelayAnAdministrator) {
  for (char c = 'a'; c <= 'q'; ++c) work({std::string("local:") + c, false}, 20);
  work(root, 5);
  loop.until([&] { return turns.waiting() == 0; });
  EXPECT_LE(order.rfind('r') - order.find('r'), 10u) << order;
  EXPECT_LE(order.find('r'), 2u) << order;
}

TEST_F(TurnsTest, ACallerIsServedInOrderAndFinishesWhatItBegan) {
  std::string log;
  turns.add(ann, [&] {
    log += '1';
    now_us += 5'000;
    turns.add(ann, [&] { log += '3'; });
    turns.go_on([&] { log += '2'; });
  });
  loop.until([&] { return turns.waiting() == 0; });
  EXPECT_EQ(log, "123");
}

TEST_F(TurnsTest, OneTurnRunsNoLongerThanASlice) {
  turns.add(ann, [&] {
    for (int i = 0; i < 5; ++i) work(ann, 1);
  });
  EXPECT_EQ(order.size(), 1u);  // one slice is full; the others wait until the thread has looked elsewhere
  loop.until([&] { return turns.waiting() == 0; });
  EXPECT_EQ(order.size(), 5u);
}

TEST_F(TurnsTest, WhatCostsMoreThanItTakesIsPaidFor) {
  for (int i = 0; i < 20; ++i)
    turns.add_later(ann, [this] {
      turns.costs(4'000);  // of work that comes later, and elsewhere
      order += 'a';
      if (order.size() == 2)
        for (int j = 0; j < 8; ++j) work(bob, 1);
    });
  loop.until([&] { return turns.waiting() == 0; });
  EXPECT_LE(order.rfind('b') - order.find('b'), 16u) << order;
  EXPECT_LE(std::count(order.begin() + 2, order.begin() + 10, 'b'), 5) << order;
}

TEST_F(TurnsTest, RatesAreOfEachCaller) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(turns.admit(ann, 1).ok());
  const auto refused = turns.admit(ann, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "rate");
  EXPECT_TRUE(turns.admit(bob, 10).ok());
  EXPECT_FALSE(turns.admit(bob, 1).ok());
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(turns.admit(root, 50).ok());
  now_us += 50'000;  // five more at a hundred a second
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(turns.admit(ann, 1).ok());
  EXPECT_FALSE(turns.admit(ann, 1).ok());
}

TEST_F(TurnsTest, WhatWaitsIsBoundedForEachCaller) {
  turns.add(ann, [&] {
    for (int i = 0; i < 5; ++i) turns.add(ann, [] {});
    const auto refused = turns.admit(ann, 1);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().field, "pending");
    EXPECT_TRUE(turns.admit(bob, 1).ok());
  });
  loop.until([&] { return turns.waiting() == 0; });
}

}  // namespace
}  // namespace lockstep
