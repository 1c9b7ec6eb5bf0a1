#include "base/ip_range.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(IpRange, ComesBackAsItWas) {
  const auto range = parse_ip_range("10.77.128.0/25");
  ASSERT_TRUE(range);
  EXPECT_EQ(text_of(*range), "10.77.128.0/25");
  EXPECT_EQ(ip_text(range->last()), "10.77.128.127");
  EXPECT_TRUE(range->contains(*parse_ip("10.77.128.3")));
  EXPECT_FALSE(range->contains(*parse_ip("10.77.128.128")));
}

TEST(IpRange, WhatMeansNothingIsNone) {
  for (const char* text : {"", "10.0.0.0", "10.0.0.1/25", "10.0.0/24", "10.0.0.0/", "10.0.0.0/7", "10.0.0.0/31",
                           "256.0.0.0/8", "10.0.0.0000/24", "10.-1.0.0/24", "10.0.0.0/24/1", "a.b.c.d/24"})
    EXPECT_FALSE(parse_ip_range(text)) << text;
}

TEST(IpRange, OverlapsWhatSharesAnAddress) {
  const auto overlap = [](const char* a, const char* b) { return parse_ip_range(a)->overlaps(*parse_ip_range(b)); };
  EXPECT_TRUE(overlap("10.0.0.0/24", "10.0.0.128/25"));
  EXPECT_TRUE(overlap("10.0.0.128/25", "10.0.0.0/24"));
  EXPECT_FALSE(overlap("10.0.0.0/25", "10.0.0.128/25"));
}

}  // namespace
}  // namespace lockstep
