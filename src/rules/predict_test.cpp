// What is learned from ended jobs, for whom, and that nothing else follows from it.
#include "rules/predict.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/text.h"

namespace lockstep {
namespace {

RunKinds kinds(std::string_view user, std::int64_t size, Duration limit, std::string_view name = {}) {
  return run_kinds({.user = user, .name = name, .size = size, .limit = limit});
}

TEST(RunPredictor, PredictsTheLimitWhileNothingIsKnown) {
  const RunPredictor predictor;
  EXPECT_EQ(predictor.predict(kinds("ada", 4, hours(10)), hours(10)), hours(10));
}

TEST(RunPredictor, ComesToKnowAUserAndStaysBetweenASecondAndTheLimit) {
  RunPredictor predictor;
  const RunKinds ada = kinds("ada", 4, hours(10));
  Duration before = hours(10);
  for (int i = 0; i < 20; ++i) {
    predictor.observe(ada, hours(10), hours(1));
    const Duration now = predictor.predict(ada, hours(10));
    EXPECT_LE(now, before);
    before = now;
  }
  EXPECT_NEAR(static_cast<double>(before.seconds()), 3600, 600);
  for (int i = 0; i < 50; ++i) predictor.observe(ada, hours(10), Duration{});
  EXPECT_GE(predictor.predict(ada, hours(10)), seconds(1));
  for (int i = 0; i < 50; ++i) predictor.observe(ada, hours(10), hours(11));  // ended late: not above the limit
  EXPECT_LE(predictor.predict(ada, hours(10)), hours(10));
}

TEST(RunPredictor, TellsUsersApartAndSharesWhatItKnowsOfTheWhole) {
  RunPredictor predictor;
  for (int i = 0; i < 30; ++i) {
    predictor.observe(kinds("ada", 4, hours(10)), hours(10), minutes(6));
    predictor.observe(kinds("bob", 4, hours(10)), hours(10), hours(9));
  }
  const Duration ada = predictor.predict(kinds("ada", 4, hours(10)), hours(10));
  const Duration bob = predictor.predict(kinds("bob", 4, hours(10)), hours(10));
  const Duration cyd = predictor.predict(kinds("cyd", 4, hours(10)), hours(10));
  EXPECT_LT(ada, hours(2));
  EXPECT_GT(bob, hours(7));
  EXPECT_GT(cyd, ada);
  EXPECT_LT(cyd, bob);
}

TEST(RunPredictor, TheNameMattersMoreThanTheSize) {
  RunPredictor predictor;
  for (int i = 0; i < 30; ++i) {
    predictor.observe(kinds("ada", 4, hours(10), "train"), hours(10), hours(9));
    predictor.observe(kinds("ada", 4, hours(10), "smoke"), hours(10), minutes(1));
  }
  EXPECT_LT(predictor.predict(kinds("ada", 8, hours(10), "smoke"), hours(10)),
            predictor.predict(kinds("ada", 8, hours(10), "train"), hours(10)) / 2);
}

TEST(RunPredictor, ForgetsOldHabits) {
  RunPredictor predictor;
  const RunKinds ada = kinds("ada", 4, hours(10));
  for (int i = 0; i < 500; ++i) predictor.observe(ada, hours(10), hours(9));
  for (int i = 0; i < 60; ++i) predictor.observe(ada, hours(10), hours(1));
  EXPECT_LT(predictor.predict(ada, hours(10)), hours(2));
}

TEST(RunPredictor, JobsWithoutALimitTeachNothingAndAreNotPredicted) {
  RunPredictor predictor;
  for (const Duration limit : {Duration{}, kForever, kForever + seconds(1), Duration{-5}}) {
    const RunKinds none = kinds("ada", 4, limit);
    predictor.observe(none, limit, hours(1));
    EXPECT_EQ(predictor.predict(none, limit), limit);
  }
  EXPECT_TRUE(predictor.saved().empty());
}

TEST(RunPredictor, KinAreEqualOnlyForJobsAlikeInEverything) {
  const auto kin = [](std::string_view user, std::int64_t size, Duration limit, std::string_view name) {
    return run_kin(kinds(user, size, limit, name));
  };
  EXPECT_EQ(kin("ada", 4, hours(1), "x"), kin("ada", 4, hours(1), "x"));
  EXPECT_NE(kin("ada", 4, hours(1), "x"), kin("bob", 4, hours(1), "x"));
  EXPECT_NE(kin("ada", 4, hours(1), "x"), kin("ada", 8, hours(1), "x"));
  EXPECT_NE(kin("ada", 4, hours(1), "x"), kin("ada", 4, hours(2), "x"));
  EXPECT_NE(kin("ada", 4, hours(1), "x"), kin("ada", 4, hours(1), "y"));
  EXPECT_EQ(kin("", 4, hours(1), "x"), kin("", 4, hours(1), ""));  // without a user the name says nothing
}

// What two planners learn from the same ends is the same, whether one of them was restored in between or not.
TEST(RunPredictor, ARestoredOneGoesOnAsIfNothingHadHappened) {
  Rng rng(7);
  RunPredictor whole;
  for (int i = 0; i < 400; ++i) {
    if (i % 100 == 99)
      whole = RunPredictor::restored(whole.saved());
    const Duration limit = hours(rng.between(1, 30));
    whole.observe(kinds(format("u{}", rng.below(5)), rng.between(1, 3), limit), limit, minutes(rng.between(0, 1800)));
  }
  Rng again(7);
  RunPredictor other;
  for (int i = 0; i < 400; ++i) {
    const Duration limit = hours(again.between(1, 30));
    other.observe(kinds(format("u{}", again.below(5)), again.between(1, 3), limit), limit,
                  minutes(again.between(0, 1800)));
  }
  EXPECT_EQ(whole.saved(), other.saved());
  EXPECT_FALSE(whole.saved().empty());
}

TEST(RunPredictor, NeverKeepsMoreThanItsBound) {
  RunPredictor predictor;
  for (int i = 0; i < 60'000; ++i)
    predictor.observe(kinds(format("u{}", i), 1 + i % 7, hours(1) + seconds(i)), hours(1) + seconds(i), minutes(1));
  EXPECT_LE(predictor.saved().size(), 200'000u);
  EXPECT_LT(predictor.predict(kinds("new", 1, hours(1)), hours(1)), minutes(10));  // the whole is not forgotten
}

}  // namespace
}  // namespace lockstep
