#include "agent/shortages.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using enum Shortage::What;

constexpr std::int64_t kMi = 1 << 20;

Instant at(std::int64_t second) { return Instant{seconds(second).us}; }

TEST(Shortages, WhatFallsBelowItsBoundIsToldWhileItLasts) {
  ShortageBook book{NodePressure{}};
  EXPECT_FALSE(book.take({{kMemory, 100 * kMi, 1000 * kMi}, {kDisk, 100, 1000}}, at(1))) << "at its bound is enough";
  EXPECT_TRUE(book.all().empty());
  EXPECT_TRUE(book.take({{kMemory, 99 * kMi, 1000 * kMi}}, at(2)));
  ASSERT_EQ(book.all().size(), 1u);
  EXPECT_EQ(book.all()[0], (Shortage{.what = kMemory, .acute = true, .available = 99 * kMi, .threshold = 100 * kMi}));
  EXPECT_TRUE(book.take({{kMemory, 50 * kMi, 1000 * kMi}}, at(12))) << "each look is told";
  EXPECT_EQ(book.all()[0].available, 50 * kMi);
}

TEST(Shortages, ItIsSaidForAWhileAfterwards) {
  ShortageBook book{NodePressure{.lasts_s = 300}};
  EXPECT_TRUE(book.take({{kDisk, 99, 1000}}, at(10)));
  EXPECT_TRUE(book.take({{kDisk, 500, 1000}}, at(20))) << "it is over";
  ASSERT_EQ(book.all().size(), 1u);
  EXPECT_FALSE(book.all()[0].acute);
  EXPECT_FALSE(book.take({{kDisk, 500, 1000}}, at(300))) << "nothing new";
  EXPECT_TRUE(book.take({{kDisk, 500, 1000}}, at(310)));
  EXPECT_TRUE(book.all().empty());
  EXPECT_FALSE(book.take({{kDisk, 500, 1000}}, at(320)));
}

TEST(Shortages, EachIsItsOwn) {
  ShortageBook book{NodePressure{.disk_files = "", .processes = "10"}};
  EXPECT_TRUE(book.take({{kProcesses, 9, 100}, {kDiskFiles, 0, 100}, {kImages, 14, 100}}, at(1)));
  ASSERT_EQ(book.all().size(), 2u);
  EXPECT_EQ(book.all()[0].what, kImages);
  EXPECT_EQ(book.all()[1].what, kProcesses);
  EXPECT_FALSE(book.take({}, at(1000))) << "what was not looked at stays";
  EXPECT_EQ(book.all().size(), 2u);
  EXPECT_FALSE(book.take({{kMemory, 0, 0}}, at(1000))) << "nothing is known of it";
}

}  // namespace
}  // namespace lockstep
