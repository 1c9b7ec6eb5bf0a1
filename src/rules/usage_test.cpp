#include "rules/usage.h"

#include <gtest/gtest.h>

#include "model/accounting.h"
#include "model/allocation.h"
#include "model/records.h"
#include "model/spec.h"
#include "model/tres.h"

namespace lockstep {
namespace {

constexpr Duration kWeek = hours(7 * 24);

TEST(Usage, HalvesEveryHalfLife) {
  EXPECT_EQ(decayed(1000, kWeek, kWeek), 500);
  EXPECT_EQ(decayed(1000, kWeek * 3, kWeek), 125);
  EXPECT_EQ(decayed(1000, kWeek / 2, kWeek), 707);
  EXPECT_EQ(decayed(1000, Duration{}, kWeek), 1000);
  EXPECT_EQ(decayed(1000, kWeek * 100, Duration{}), 1000);  // never fades
  EXPECT_EQ(decayed(INT64_MAX, Duration{}, kWeek), INT64_MAX);
  EXPECT_EQ(decayed(1000, kWeek * 1000, kWeek), 0);
}

TEST(Usage, AccruesLessThanItSpendsBecauseTheOldPartFades) {
  EXPECT_EQ(accrued_ms(4, seconds(10), Duration{}), 40'000);
  EXPECT_EQ(accrued_ms(4, seconds(-1), kWeek), 0);
  // Over one half-life: half_life / ln 2 × (1 - 1/2) = 0.7213 of it.
  EXPECT_NEAR(static_cast<double>(accrued_ms(1, kWeek, kWeek)) / static_cast<double>(kWeek.millis()), 0.72135, 0.0001);
  // Forever: half_life / ln 2.
  EXPECT_NEAR(static_cast<double>(accrued_ms(1, kWeek * 60, kWeek)) / static_cast<double>(kWeek.millis()), 1.44270,
              0.0001);
}

TEST(Usage, InPiecesIsTheSameAsAtOnce) {
  const std::int64_t at_once = accrued_ms(8, hours(10), kWeek);
  const std::int64_t first = accrued_ms(8, hours(4), kWeek);
  EXPECT_NEAR(static_cast<double>(decayed(first, hours(6), kWeek) + accrued_ms(8, hours(6), kWeek)),
              static_cast<double>(at_once), 2);
}

TEST(Usage, AmountsAndFactor) {
  Tres tres;
  tres.cpu = 16;
  tres.memory_mb = 64'000;
  tres.gpus = 8;
  tres.others = {{"gres/gpu:h100", 8}};
  const Spent spent = accrued(tres, seconds(100), Duration{}, 2000);
  EXPECT_EQ(spent.tres.cpu, 16 * 100'000 * 2);
  EXPECT_EQ(spent.tres.memory_mb, 64'000 * 100 * 2);
  EXPECT_EQ(spent.tres.others[0].count, 8 * 100'000 * 2);
  EXPECT_EQ(spent.wall_ms, 200'000);
}

TEST(Usage, FloorsOfTheCalendar) {
  Policy policy;
  const WallTime now{1'700'000'000'000'000};  // Tuesday 2023-11-14 22:13:20
  const auto floor = [&](Policy::Reset reset) {
    policy.reset = reset;
    return usage_floor(policy, now).seconds();
  };
  EXPECT_EQ(floor(Policy::Reset::kNone), 0);
  EXPECT_EQ(floor(Policy::Reset::kDaily), 1'699'920'000);      // 2023-11-14
  EXPECT_EQ(floor(Policy::Reset::kWeekly), 1'699'747'200);     // Sunday 2023-11-12
  EXPECT_EQ(floor(Policy::Reset::kMonthly), 1'698'796'800);    // 2023-11-01
  EXPECT_EQ(floor(Policy::Reset::kQuarterly), 1'696'118'400);  // 2023-10-01
  EXPECT_EQ(floor(Policy::Reset::kYearly), 1'672'531'200);     // 2023-01-01
}

struct World {
  Directory directory;
  JobSpec spec;
  Allocation allocation;
  World() {
    User user;
    user.id = UserId(1);
    user.meta.name = "ann";
    directory.users[user.id] = std::make_shared<const User>(user);
    spec.user = UserId(1);
    spec.account = "physics";
    spec.qos = "normal";
    allocation.tres.cpu = 4;
    allocation.tres.billing = 4;
    allocation.granted = Instant{1'000'000};
  }
  void keep(Usage usage) { directory.usages[usage.meta.name] = std::make_shared<const Usage>(std::move(usage)); }
};

TEST(Usage, ARunningJobCountsAsMuchAsOneThatEndsNow) {
  World w;
  const RunningUse use{&w.spec, &w.allocation};
  const Instant end{1'000'000 + hours(30).us};
  const Spendings running(w.directory, std::span(&use, 1), end, {});
  const Spent before = running.of_user("physics", UserId(1));
  EXPECT_GT(before.tres.cpu, 4 * hours(28).millis());
  w.keep(charged(w.directory, nullptr, use, end, {}, end));
  const Spendings ended(w.directory, {}, end, {});
  EXPECT_EQ(ended.of_user("physics", UserId(1)), before);
  EXPECT_EQ(ended.of_qos("normal"), before);
  // A second job on top of what has faded meanwhile.
  w.allocation.granted = end + kWeek;
  w.keep(charged(w.directory, w.directory.usages.begin()->second.get(), use, end + kWeek + seconds(10), {},
                 end + kWeek + seconds(10)));
  const Spent both = Spendings(w.directory, {}, end + kWeek + seconds(10), {}).of_user("physics", UserId(1));
  EXPECT_NEAR(static_cast<double>(both.tres.cpu), static_cast<double>(before.tres.cpu) / 2 + 40'000, 8000);
  EXPECT_EQ(w.directory.usages.size(), 1u);
}

TEST(Usage, AResetForgetsWhatWasBefore) {
  World w;
  const RunningUse use{&w.spec, &w.allocation};
  const Instant end = w.allocation.granted + seconds(100);
  w.keep(charged(w.directory, nullptr, use, end, {}, end));
  EXPECT_EQ(Spendings(w.directory, {}, end + seconds(10), end + seconds(5)).leaves().size(), 0u);
  // Of a job that runs across it only the later part counts.
  World other;
  const RunningUse runs{&other.spec, &other.allocation};
  const Spendings across(other.directory, std::span(&runs, 1), end, end - seconds(1));
  EXPECT_NEAR(static_cast<double>(across.of_user("physics", UserId(1)).wall_ms), 1000, 1);
  const Usage again = charged(w.directory, w.directory.usages.begin()->second.get(), use, end + seconds(20),
                              end + seconds(5), end + seconds(20));
  EXPECT_NEAR(static_cast<double>(again.wall_ms), 15'000, 1);
}

TEST(Usage, NoDecayKeepsAll) {
  World w;
  Qos qos;
  qos.meta.name = "normal";
  qos.no_decay = true;
  qos.usage_factor_milli = 500;
  w.directory.qos["normal"] = std::make_shared<const Qos>(qos);
  const RunningUse use{&w.spec, &w.allocation};
  const Usage usage =
      charged(w.directory, nullptr, use, w.allocation.granted + kWeek, {}, w.allocation.granted + kWeek);
  EXPECT_EQ(usage.spent.cpu, 4 * kWeek.millis() / 2);
  w.keep(usage);
  EXPECT_EQ(Spendings(w.directory, {}, w.allocation.granted + kWeek * 9, {}).of_qos("normal").tres.cpu,
            usage.spent.cpu);
}

}  // namespace
}  // namespace lockstep
