// Turns: what goes ahead of what, by how much at most, and that nothing overflows.
#include "rules/order.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace lockstep {
namespace {

const Instant kSubmitted = Instant{} + hours(1000);

Turn turn(std::int64_t size, Duration predicted, Duration backlog = hours(10), Instant submitted = kSubmitted) {
  return turn_of({}, {.submitted = submitted,
                      .size = size,
                      .capacity = 512,
                      .predicted = predicted,
                      .spread = spread_of({}, backlog)});
}

TEST(Order, TheDefaultIsValidAndNonsenseIsRefusedByField) {
  EXPECT_TRUE(OrderPolicy{}.validate().ok());
  const auto field = [](auto change) {
    OrderPolicy policy;
    change(policy);
    return policy.validate().error().field;
  };
  EXPECT_EQ(field([](OrderPolicy& p) { p.spread_min = {}; }), "spread_max");
  EXPECT_EQ(field([](OrderPolicy& p) { p.spread_max = seconds(1); }), "spread_max");
  EXPECT_EQ(field([](OrderPolicy& p) { p.backlog_permille = -1; }), "backlog_permille");
  EXPECT_EQ(field([](OrderPolicy& p) { p.doubling_permille = -1; }), "doubling_permille");
  EXPECT_EQ(field([](OrderPolicy& p) { p.short_run = {}; }), "short_run");
  EXPECT_EQ(field([](OrderPolicy& p) { p.steep = -1; }), "steep");
  EXPECT_EQ(field([](OrderPolicy& p) { p.spare_permille = 1001; }), "spare_permille");
  EXPECT_EQ(field([](OrderPolicy& p) { p.predicted_min = {}; }), "predicted_min");
  EXPECT_EQ(field([](OrderPolicy& p) { p.filler_permille = 0; }), "filler_permille");
  EXPECT_EQ(field([](OrderPolicy& p) { p.overdue_after = seconds(-1); }), "overdue_after");
}

TEST(Order, ShortGoesAheadOfLong) {
  EXPECT_LT(turn(4, minutes(10)).at, turn(4, hours(10)).at);
  for (Duration p = seconds(5); p < hours(500); p = p * 2) EXPECT_LT(turn(8, p).at, turn(8, p * 2).at) << p.us;
  EXPECT_EQ(turn(8, seconds(1)).at, turn(8, seconds(5)).at);  // shorter than that are alike
}

// Who needs the whole cluster waits for everybody anyway: it is not put back for its length, and overdue at its turn.
TEST(Order, TheWidestIsSparedWhatTheOthersGoAhead) {
  const auto behind = [](std::int64_t size) { return turn(size, hours(10)).at - turn(1, hours(1)).at; };
  EXPECT_LT(behind(512), behind(257));
  EXPECT_LT(behind(257), behind(64));
  EXPECT_LT(behind(64), behind(1));
  EXPECT_LT((turn(512, hours(10)).at - kSubmitted).us * 4, (turn(1, hours(10)).at - kSubmitted).us * 3);
  EXPECT_EQ(turn(512, hours(10)).overdue_at, turn(512, hours(10)).at);
  EXPECT_EQ(overdue_after({}, 256, 512), OrderPolicy{}.overdue_after / 2);
  EXPECT_EQ(overdue_after({}, 513, 512), Duration{});  // nodes may have gone since it was taken
}

TEST(Order, WaitingLongEnoughOvertakesEverythingThatComesLater) {
  const Turn longest = turn(1, hours(24 * 300));
  const Turn tiny = turn(1, seconds(1));
  const Duration between = longest.at - tiny.at;
  EXPECT_GT(between, Duration{});
  EXPECT_GT(turn(1, seconds(1), hours(10), kSubmitted + between + seconds(1)).at, longest.at);
  EXPECT_LT(between, spread_of({}, hours(10)) * 6);  // whatever the jobs
}

TEST(Order, TheSpreadFollowsTheBacklogUpToItsBound) {
  const auto between = [](Duration backlog) {
    return turn(8, hours(50), backlog).at - turn(8, minutes(1), backlog).at;
  };
  EXPECT_LT(between(Duration{}), between(hours(10)));
  EXPECT_LT(between(hours(10)), between(hours(100)));
  EXPECT_EQ(between(hours(10'000)), between(kForever));
}

TEST(Order, OverdueComesSomeSpreadsAfterTheTurn) {
  const OrderPolicy policy;
  const Turn idle = turn(1, hours(1), Duration{});
  EXPECT_EQ(idle.overdue_at - idle.at, overdue_after(policy, 1, 512));
  EXPECT_GT(idle.overdue_at - idle.at, policy.overdue_after * 9 / 10);
}

// Against floating point: the integers are right to a thousandth of a spread.
TEST(Order, AgreesWithTheFormula) {
  const OrderPolicy policy;
  Rng rng(3);
  for (int i = 0; i < 5000; ++i) {
    const std::int64_t capacity = rng.between(1, 1 << rng.between(0, 20)), size = rng.between(1, capacity);
    const Duration predicted = seconds(rng.between(1, std::int64_t{1} << rng.between(0, 24)));
    const Duration backlog = seconds(rng.between(0, 4'000'000));
    const Duration spread = spread_of(policy, backlog);
    EXPECT_NEAR(static_cast<double>(spread.us),
                std::min(static_cast<double>(policy.spread_min.us) +
                             static_cast<double>(backlog.us) * static_cast<double>(policy.backlog_permille) / 1000,
                         static_cast<double>(policy.spread_max.us)),
                2);
    const double share = static_cast<double>(size) / static_cast<double>(capacity);
    const double length = static_cast<double>(std::max(predicted, policy.predicted_min).us);
    const double steep = static_cast<double>(policy.steep) * length;
    const double doublings = std::log2(length / static_cast<double>(policy.short_run.us));
    const double spreads = static_cast<double>(policy.doubling_permille) / 1000 * doublings +
                           steep / (steep + static_cast<double>(spread.us)) *
                               (1 - static_cast<double>(policy.spare_permille) / 1000 * share);
    const Turn turn = turn_of(policy, {kSubmitted, size, capacity, predicted, spread});
    EXPECT_NEAR(static_cast<double>((turn.at - kSubmitted).us), static_cast<double>(spread.us) * spreads,
                static_cast<double>(spread.us) * 0.001)
        << size << " of " << capacity << ", " << predicted.seconds() << " s, backlog " << backlog.seconds() << " s";
  }
}

TEST(Order, ExtremesStayFinite) {
  for (const Duration predicted : {Duration{}, seconds(1), kForever})
    for (const Duration backlog : {Duration{}, kForever})
      for (const std::int64_t size : {std::int64_t{1}, std::int64_t{1} << 40}) {
        const Turn turn = turn_of({}, {kSubmitted, size, std::int64_t{1} << 40, predicted, spread_of({}, backlog)});
        EXPECT_LT(turn.at, kSubmitted + hours(24 * 365));
        EXPECT_GT(turn.at + hours(24 * 365), kSubmitted);
        EXPECT_GE(turn.overdue_at, turn.at);
      }
}

TEST(Backlog, AddsAndTakesAway) {
  Backlog backlog;
  backlog.add(100, hours(2));
  backlog.add(50, hours(4));
  EXPECT_EQ(backlog.drain_time(100), hours(4));
  backlog.remove(100, hours(2));
  EXPECT_EQ(backlog.drain_time(100), hours(2));
  backlog.remove(50, hours(4));
  EXPECT_EQ(backlog.drain_time(1), Duration{});
  for (int i = 0; i < 100; ++i) backlog.add(std::int64_t{1} << 40, kForever);
  EXPECT_EQ(backlog.drain_time(1), kForever);
}

TEST(Filler, IsTestedWithItsPredictionUntilTheFirstIsOverdue) {
  const OrderPolicy policy;
  EXPECT_EQ(filler_time(policy, hours(10), hours(1), true), hours(10));
  EXPECT_EQ(filler_time(policy, hours(10), hours(1), false).us, hours(1).us / 1000 * policy.filler_permille);
  EXPECT_LE(filler_time(policy, hours(1), hours(5), false), hours(1));  // never above the limit
  EXPECT_LE(filler_time(policy, kForever, kForever, false), kForever);
}

}  // namespace
}  // namespace lockstep
