#include "wire/store_limits.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(StoreLimits, ReadAsTheyWereWritten) {
  const StoreLimits limits = decode_store_limits(encode(StoreLimits{.user_mb = 5000, .free_percent = 3}));
  EXPECT_EQ(limits.user_mb, 5000);
  EXPECT_EQ(limits.free_percent, 3u);
}

TEST(StoreLimits, WhatMakesNoSenseHasItsDefault) {
  const StoreLimits limits = decode_store_limits("user_mb -5\nfree_percent 100\nuser_mb 99999999999999999999\n\nx");
  EXPECT_EQ(limits.user_mb, 0);
  EXPECT_EQ(limits.free_percent, 10u);
}

TEST(StoreLimits, OfAUser) {
  EXPECT_EQ(user_bytes({.user_mb = 3}, 1000), 3 << 20);
  EXPECT_EQ(user_bytes({}, 1000), 500);
}

}  // namespace
}  // namespace lockstep
