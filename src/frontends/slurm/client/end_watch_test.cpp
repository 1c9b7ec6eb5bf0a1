#include "frontends/slurm/client/end_watch.h"

#include <gtest/gtest.h>

namespace lockstep::slurm {
namespace {

using Do = EndWatch::Do;
constexpr std::int64_t kPatience = 5000;

EndWatch probing() {
  EndWatch watch(kPatience);
  watch.asked(100);
  EXPECT_EQ(watch.look(3100, true), Do::kNothing);
  EXPECT_EQ(watch.look(3101, true), Do::kProbe);
  return watch;
}

TEST(EndWatch, WhoAskedForNothingIsNotWatched) {
  EndWatch watch(kPatience);
  watch.heard(1);
  EXPECT_EQ(watch.look(1'000'000, true), Do::kNothing);
  EXPECT_EQ(watch.due_ms(true), INT64_MAX);
}

TEST(EndWatch, SilenceOnANewConnectionIsTheEndOnceTheControllerIsThere) {
  EndWatch watch = probing();
  watch.attached(4000);
  EXPECT_EQ(watch.due_ms(true), 9001);
  EXPECT_EQ(watch.look(9000, true), Do::kNothing);
  EXPECT_EQ(watch.look(9001, true), Do::kAskController);
  EXPECT_EQ(watch.look(60'000, true), Do::kAskController);
  watch.controller_answered(60'100);
  EXPECT_EQ(watch.look(60'101, true), Do::kGiveUp);
  EXPECT_EQ(watch.look(90'000, true), Do::kNothing) << "once";
}

TEST(EndWatch, WhileNoSecondConnectionCanBeMadeTheFirstIsKept) {
  EndWatch watch = probing();
  EXPECT_EQ(watch.look(600'000, true), Do::kNothing);
  EXPECT_EQ(watch.due_ms(true), INT64_MAX);
  EndWatch broken = watch;
  broken.lost(600'000);
  EXPECT_EQ(broken.look(605'000, false), Do::kNothing) << "as long as ever is left to make another";
  EXPECT_EQ(broken.look(605'001, false), Do::kGiveUp);
  watch.heard(600'001);
  EXPECT_FALSE(watch.is_probing());
  EXPECT_EQ(watch.look(605'001, true), Do::kNothing);
  EXPECT_EQ(watch.look(605'002, true), Do::kProbe);
}

TEST(EndWatch, WithoutAnyConnectionPatienceIsBounded) {
  EndWatch watch = probing();
  EXPECT_EQ(watch.due_ms(false), 8102);
  EXPECT_EQ(watch.look(8101, false), Do::kNothing);
  EXPECT_EQ(watch.look(8102, false), Do::kGiveUp);
  EXPECT_FALSE(watch.controller_answers());
}

TEST(EndWatch, TasksThatTakeLongAreWaitedForAndAskedForAgain) {
  EndWatch watch = probing();
  for (std::int64_t now = 4000; now < 100'000; now += 6000) {
    watch.attached(now);
    watch.heard(now + 10);
    EXPECT_EQ(watch.look(now + 10 + kPatience, true), Do::kNothing);
    EXPECT_EQ(watch.look(now + 11 + kPatience, true), Do::kProbe);
  }
  watch.asked(200'000);
  EXPECT_EQ(watch.look(203'000, true), Do::kNothing);
}

}  // namespace
}  // namespace lockstep::slurm
