#include "io/shortage_looks.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/temp_dir.h"

namespace lockstep {
namespace {

TEST(ShortageLooks, AWholeMachineIsMeasuredByWhatItHasLeft) {
  const TempDir dir;
  const Stocks stocks = look_at_stocks({.disk = dir.path(), .processes = true});
  for (const auto* one : {&stocks.memory, &stocks.disk, &stocks.processes}) {
    ASSERT_TRUE(*one);
    EXPECT_GT((*one)->total, 0);
    EXPECT_GE((*one)->available, 0);
    EXPECT_LE((*one)->available, (*one)->total);
  }
}

TEST(ShortageLooks, APartOfADiskIsMeasuredByWhatLiesThere) {
  const TempDir dir;
  const auto before = look_at_stocks({.disk = dir.path(), .disk_mb = 10}).disk;
  ASSERT_TRUE(before);
  EXPECT_EQ(before->total, 10 << 20);
  std::ofstream(dir.path() + "/file") << std::string(3 << 20, 'x');
  const auto after = look_at_stocks({.disk = dir.path(), .disk_mb = 10}).disk;
  ASSERT_TRUE(after);
  EXPECT_LE(after->available, before->available - (3 << 20));
  std::ofstream(dir.path() + "/more") << std::string(8 << 20, 'x');
  EXPECT_EQ(look_at_stocks({.disk = dir.path(), .disk_mb = 10}).disk->available, 0);
}

TEST(ShortageLooks, WhatNobodyCanTellIsNotSaid) {
  const Stocks stocks = look_at_stocks({.disk = "/no/such/folder", .memory_mb = 100});
  EXPECT_FALSE(stocks.memory) << "no groups tell what its own work holds";
  EXPECT_FALSE(stocks.disk);
  EXPECT_FALSE(stocks.processes);
}

}  // namespace
}  // namespace lockstep
