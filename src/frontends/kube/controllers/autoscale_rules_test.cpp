#include "frontends/kube/controllers/autoscale_rules.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

constexpr Instant kNow{1'000'000'000'000};

ScalePod pod_using(std::int64_t used, std::int64_t requested = 1000) { return {used, requested, true}; }

std::int64_t replicas(std::int64_t current, const std::vector<ScalePod>& pods, ScaleTarget target) {
  const auto made = propose_replicas(current, pods, target, {});
  return made.ok() ? made->replicas : -1;
}

TEST(AutoscaleRules, GrowsAndShrinksByTheRatioOfUseToTarget) {
  EXPECT_EQ(replicas(3, {pod_using(300), pod_using(500), pod_using(700)}, {true, 30}), 5);  // 50 % of them, 30 wanted
  EXPECT_EQ(replicas(3, {pod_using(100), pod_using(100), pod_using(100)}, {true, 50}), 1);
  EXPECT_EQ(replicas(3, {pod_using(540), pod_using(540), pod_using(540)}, {true, 50}), 3);  // within a tenth
  EXPECT_EQ(replicas(2, {pod_using(900), pod_using(900)}, {false, 300}), 6);
  const auto told = propose_replicas(2, {pod_using(250), pod_using(350)}, {true, 100}, {});
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->utilization, 30);
  EXPECT_EQ(told->average, 300);
}

TEST(AutoscaleRules, PodsThatAreNotMeasuredNeverMakeItGoFurther) {
  const ScalePod missing{std::nullopt, 1000, true}, unready{std::nullopt, 1000, false};
  EXPECT_EQ(replicas(4, {pod_using(1000), missing, missing, missing}, {true, 50}), 4);  // idle ones: 25 %
  EXPECT_EQ(replicas(4, {pod_using(100), pod_using(100), missing, missing}, {true, 100}), 3);
  EXPECT_EQ(replicas(3, {pod_using(1000), pod_using(1000), unready}, {true, 50}), 4);
  EXPECT_EQ(replicas(2, {pod_using(100), unready}, {true, 50}), 1);  // unready ones are no reason to stay
  const auto none = propose_replicas(1, {missing}, {true, 50}, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message, "did not receive metrics for targeted pods (pods might be unready)");
}

TEST(AutoscaleRules, WithoutABehaviourItDoublesAndWaitsBeforeItShrinks) {
  ScaleHistory history{{{kNow - seconds(400), 8}, {kNow - seconds(100), 2}}, {}, {}};
  const ScaleBehavior plain;
  ScaleStep step = next_step(8, 2, 1, 20, plain, history, kNow);
  EXPECT_EQ(step.replicas, 8);  // 8 was wanted until 100 s ago
  EXPECT_STREQ(step.held, "ScaleDownStabilized");
  step = next_step(8, 2, 1, 20, plain, history, kNow + seconds(201));
  EXPECT_EQ(step.replicas, 2);
  EXPECT_EQ(step.held, nullptr);
  step = next_step(3, 50, 1, 20, plain, {}, kNow);
  EXPECT_EQ(step.replicas, 6);
  EXPECT_STREQ(step.limited, "ScaleUpLimit");
  EXPECT_EQ(next_step(1, 50, 1, 3, plain, {}, kNow).replicas, 3);
  EXPECT_STREQ(next_step(1, 50, 1, 3, plain, {}, kNow).limited, "TooManyReplicas");
  EXPECT_STREQ(next_step(2, 1, 2, 3, plain, {}, kNow).limited, "TooFewReplicas");
}

TEST(AutoscaleRules, PoliciesBoundWhatAPeriodMayBring) {
  ScaleBehavior slow;
  slow.plain = false;
  slow.up = {ScaleDirection::Select::kMost, {}, {{false, 2, seconds(60)}, {true, 10, seconds(60)}}};
  slow.down = {ScaleDirection::Select::kLeast, {}, {{false, 4, seconds(60)}, {true, 10, seconds(60)}}};
  EXPECT_EQ(next_step(10, 100, 1, 100, slow, {}, kNow).replicas, 12);
  const ScaleHistory grown{{}, {{kNow - seconds(30), 2}}, {}};
  EXPECT_EQ(next_step(12, 100, 1, 100, slow, grown, kNow).replicas, 12);
  EXPECT_EQ(next_step(12, 100, 1, 100, slow, grown, kNow + seconds(31)).replicas, 14);
  EXPECT_EQ(next_step(80, 10, 1, 100, slow, {}, kNow).replicas, 76);  // 4 pods are less than 10 %
  EXPECT_STREQ(next_step(80, 10, 1, 100, slow, {}, kNow).limited, "ScaleDownLimit");
  slow.down.select = ScaleDirection::Select::kDisabled;
  EXPECT_EQ(next_step(80, 10, 1, 100, slow, {}, kNow).replicas, 80);
}

TEST(AutoscaleRules, HistoryKeepsWhatAWindowReaches) {
  ScaleHistory history;
  const ScaleBehavior plain;
  for (int i = 0; i < 1000; ++i) note_wanted(history, 3 + i % 2, plain, kNow + seconds(i));
  EXPECT_LE(history.wanted.size(), 302u);
  note_scaled(history, 3, 5, kNow + seconds(1000));
  note_wanted(history, 5, plain, kNow + seconds(1001));
  EXPECT_EQ(history.ups.size(), 1u);
  note_wanted(history, 5, plain, kNow + seconds(1100));
  EXPECT_TRUE(history.ups.empty());
}

}  // namespace
}  // namespace lockstep::kube
