#include "controller/turn_watch.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using enum TurnWatch::Loop;

TEST(TurnWatch, CountsWhatTookTooLongByLoopAndKind) {
  TurnWatch watch;
  watch.took(kCore, "cancel", "u1 cancel 7 0", kSlowTurn, Instant{1});
  EXPECT_TRUE(watch.snapshot().slow.empty());
  EXPECT_EQ(watch.snapshot().longest[0].us, kSlowTurn.us);
  watch.took(kCore, "cancel", "u1 cancel 7 0", millis(30), Instant{2});
  watch.took(kCore, "cancel", "u2 cancel 8 0", millis(25), Instant{3});
  watch.took(kIo, "GET /v1/jobs", "GET /v1/jobs", millis(90), Instant{4});
  const auto seen = watch.snapshot();
  ASSERT_EQ(seen.slow.size(), 2u);
  EXPECT_EQ(seen.slow[0].what, "cancel");
  EXPECT_EQ(seen.slow[0].count, 2u);
  EXPECT_EQ(seen.slow[0].longest.us, millis(30).us);
  EXPECT_EQ(seen.longest[1].us, millis(90).us);
  const std::string text = metrics_text(seen);
  EXPECT_NE(text.find("lockstep_slow_turns_total{loop=\"core\",what=\"cancel\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("lockstep_longest_turn_us{loop=\"io\"} 90000\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
