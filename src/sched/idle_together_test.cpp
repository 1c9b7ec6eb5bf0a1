#include "sched/idle_together.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(IdleTogether, a_node_that_is_busy_much_longer_is_kept_no_longer) {
  EXPECT_EQ(busy_longer(hours(30), hours(10)), Duration{});
  EXPECT_EQ(busy_longer(hours(30), Duration{}), Duration{});
}

TEST(IdleTogether, a_node_that_is_soon_idle_is_kept_by_the_difference) {
  EXPECT_EQ(busy_longer(Duration{}, hours(10)), hours(10));
  EXPECT_EQ(busy_longer(hours(10), hours(30)), hours(20));
}

TEST(IdleTogether, guesses_that_agree_may_both_be_wrong) {
  EXPECT_EQ(busy_longer(hours(8), hours(8)), hours(2));
  Duration last = hours(8);
  for (int h = 0; h <= 30; ++h) {  // the longer the node is busy anyway, the less it costs
    const Duration now = busy_longer(hours(h), hours(8));
    EXPECT_LE(now, last) << h;
    EXPECT_GE(now, hours(8 - h)) << h;
    last = now;
  }
}

TEST(IdleTogether, jobs_without_an_end_do_not_overflow) {
  EXPECT_EQ(busy_longer(Duration{}, kForever), kForever);
  EXPECT_EQ(busy_longer(kForever, hours(1)), Duration{});
  EXPECT_EQ(busy_longer(kForever, kForever).us, kForever.us / 4);
}

TEST(IdleTogether, a_fuller_node_is_worth_hours) {
  EXPECT_LT(node_cost(0, hours(20), hours(24)), node_cost(1, hours(20), hours(24)));
  EXPECT_LT(node_cost(1, hours(30), hours(10)), node_cost(0, Duration{}, hours(10)));
}

}  // namespace
}  // namespace lockstep
