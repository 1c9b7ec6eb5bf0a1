#include "base/interval_set.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"

namespace lockstep {
namespace {

IntervalSet parsed(std::string_view text) {
  auto set = IntervalSet::parse(text);
  EXPECT_TRUE(set.ok()) << text;
  return set.ok() ? *set : IntervalSet();
}

TEST(IntervalSet, ParsesWhatPeopleWrite) {
  EXPECT_EQ(parsed("5").text(), "5");
  EXPECT_EQ(parsed("0-7").text(), "0-7");
  EXPECT_EQ(parsed("1,3,5-9").text(), "1,3,5-9");
  EXPECT_EQ(parsed("0-20:4").text(), "0,4,8,12,16,20");
  EXPECT_EQ(parsed("0-21:4").text(), "0,4,8,12,16,20");
  EXPECT_EQ(parsed("3-3").text(), "3");
  EXPECT_EQ(parsed("0-7:1").text(), "0-7");
  EXPECT_EQ(parsed("5-6,1-4").text(), "1-6");      // any order; neighbours melt
  EXPECT_EQ(parsed("1-5,2-3,4,1").text(), "1-5");  // overlaps too
  EXPECT_EQ(parsed("0-4294967295").text(), "0-4294967295");
  EXPECT_EQ(parsed("4294967290-4294967295:5").text(), "4294967290,4294967295");
  EXPECT_EQ(parsed("007").text(), "7");
}

TEST(IntervalSet, RefusesTheRest) {
  for (const std::string_view text : {"",    " ",    "-",     "a",      "1-",      "-1",         "1,",
                                      ",1",  "1,,2", "1 ,2",  " 1",     "1 ",      "3-1",        "1-2-3",
                                      "1:2", "1-5:", "1-5:0", "1-5:-1", "1-5:2:2", "4294967296", "99999999999999999999",
                                      "0x1", "1.5",  "+1",    "1-5,x",  "[1-2]"}) {
    const auto set = IntervalSet::parse(text);
    ASSERT_FALSE(set.ok()) << text;
    EXPECT_EQ(set.error().code, Errc::kInvalid);
    EXPECT_FALSE(set.error().message.empty());
  }
  EXPECT_NE(IntervalSet::parse("1,2,x").error().message.find("column 5"), std::string::npos);
}

TEST(IntervalSet, HugeRangesCostNothingButHugeStridesAreRefused) {
  EXPECT_EQ(parsed("1-10000000").intervals().size(), 1u);
  EXPECT_EQ(parsed("1-10000000").size(), 10'000'000u);
  EXPECT_EQ(parsed("0-4294967295").size(), std::uint64_t{1} << 32);
  EXPECT_FALSE(IntervalSet::parse("0-4294967295:2").ok());
  EXPECT_EQ(parsed("0-199999:2").size(), 100'000u);
}

TEST(IntervalSet, EdgesOfTheRange) {
  IntervalSet set(UINT32_MAX, UINT32_MAX);
  set.insert(0);
  EXPECT_EQ(set.text(), "0,4294967295");
  set.insert(UINT32_MAX - 1);
  EXPECT_EQ(set.text(), "0,4294967294-4294967295");
  set.erase(UINT32_MAX);
  set.erase(0);
  EXPECT_EQ(set.text(), "4294967294");
  set.insert(0, UINT32_MAX);
  EXPECT_EQ(set.size(), std::uint64_t{1} << 32);
  set.erase(0, UINT32_MAX);
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.size(), 0u);
  EXPECT_EQ(set.text(), "");
}

TEST(IntervalSet, FrontAndBack) {
  const IntervalSet set = parsed("3-5,9");
  EXPECT_EQ(set.front(), 3u);
  EXPECT_EQ(set.back(), 9u);
  EXPECT_DEATH(IntervalSet().front(), "CHECK failed");
  EXPECT_DEATH(IntervalSet().back(), "CHECK failed");
  EXPECT_DEATH(IntervalSet(2, 1), "CHECK failed");
}

// Against std::set: the same members, and the intervals stay sorted, disjoint and apart.
TEST(IntervalSet, BehavesLikeAPlainSet) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    IntervalSet set;
    std::set<std::uint32_t> plain;
    for (int step = 0; step < 60; ++step) {
      const auto low = static_cast<std::uint32_t>(rng.below(64));
      const auto high = low + static_cast<std::uint32_t>(rng.below(rng.chance(0.5) ? 1 : 12));
      if (rng.chance(0.5)) {
        set.insert(low, high);
        for (std::uint32_t i = low; i <= high; ++i) plain.insert(i);
      } else {
        set.erase(low, high);
        for (std::uint32_t i = low; i <= high; ++i) plain.erase(i);
      }
      ASSERT_EQ(set.size(), plain.size()) << "seed " << seed;
      for (std::uint32_t i = 0; i < 80; ++i) ASSERT_EQ(set.contains(i), plain.contains(i)) << "seed " << seed;
      const auto& parts = set.intervals();
      for (std::size_t i = 0; i < parts.size(); ++i) {
        ASSERT_LE(parts[i].low, parts[i].high);
        if (i) {
          ASSERT_GT(parts[i].low, parts[i - 1].high + 1);
        }
      }
      if (!set.empty()) {
        ASSERT_EQ(parsed(set.text()), set);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
