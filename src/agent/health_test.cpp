#include "agent/health.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(HealthBook, ABadFindingClosesUntilItHasPassed) {
  HealthBook book;
  EXPECT_FALSE(book.take({"disk", "memory"}, {}, Instant{1}));
  EXPECT_EQ(book.bad(), "");
  EXPECT_TRUE(book.take({"disk", "memory"}, {{"disk", HealthLevel::kBad, "/var is 99 % full"}}, Instant{2}));
  EXPECT_EQ(book.bad(), "disk: /var is 99 % full");
  EXPECT_EQ(book.verdicts().at("disk").since, Instant{2});
  EXPECT_TRUE(book.take({"disk", "memory"}, {}, Instant{3}));
  EXPECT_EQ(book.bad(), "");
}

TEST(HealthBook, WordsStayWhileTheLevelDoes) {
  HealthBook book;
  EXPECT_TRUE(book.take({"disk"}, {{"disk", HealthLevel::kBad, "98 %"}}, Instant{1}));
  EXPECT_FALSE(book.take({"disk"}, {{"disk", HealthLevel::kBad, "99 %"}}, Instant{2}));
  EXPECT_EQ(book.bad(), "disk: 98 %");
}

TEST(HealthBook, ExactWordsAreToldWheneverTheyChange) {
  HealthBook book;
  const auto look = [&book](const char* words, std::int64_t at) {
    return book.take({"gpu"}, {{"gpu", HealthLevel::kSuspect, words, true, true}}, Instant{at});
  };
  EXPECT_TRUE(look("GPU 1 is faulty", 1));
  EXPECT_FALSE(look("GPU 1 is faulty", 2));
  EXPECT_TRUE(look("GPU 2 is faulty", 3));
  EXPECT_EQ(book.suspect(), "gpu: GPU 2 is faulty");
  EXPECT_EQ(book.verdicts().at("gpu").since, Instant{1});
}

TEST(HealthBook, WhatMayBeChanceIsSuspectFirst) {
  HealthBook book;
  const LookFinding slow{"mount", HealthLevel::kBad, "/home does not answer", false};
  EXPECT_TRUE(book.take({"mount"}, {slow}, Instant{1}));
  EXPECT_EQ(book.bad(), "");
  EXPECT_EQ(book.suspect(), "mount: /home does not answer");
  EXPECT_TRUE(book.take({"mount"}, {slow}, Instant{2}));
  EXPECT_EQ(book.bad(), "mount: /home does not answer");
  EXPECT_EQ(book.suspect(), "");
  // A look between two bad ones begins anew.
  EXPECT_TRUE(book.take({"mount"}, {}, Instant{3}));
  EXPECT_TRUE(book.take({"mount"}, {slow}, Instant{4}));
  EXPECT_EQ(book.bad(), "");
}

TEST(HealthBook, TheWorstOfOneCheckCountsAndOthersAreLeftAlone) {
  HealthBook book;
  book.take({"program"}, {{"program", HealthLevel::kBad, "no fan"}}, Instant{1});
  book.take({"disk"}, {{"disk", HealthLevel::kSuspect, "a"}, {"disk", HealthLevel::kBad, "b"}}, Instant{2});
  EXPECT_EQ(book.bad(), "disk: b; program: no fan");
}

}  // namespace
}  // namespace lockstep
