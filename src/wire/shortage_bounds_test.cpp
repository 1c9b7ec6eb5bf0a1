#include "wire/shortage_bounds.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ShortageBounds, SharesAndAmounts) {
  EXPECT_EQ(*parse_shortage_bound(""), ShortageBound());
  EXPECT_EQ(*parse_shortage_bound("0"), ShortageBound());
  EXPECT_EQ(*parse_shortage_bound("10%"), (ShortageBound{0, 10}));
  EXPECT_EQ(*parse_shortage_bound("100Mi"), (ShortageBound{100 << 20, 0}));
  EXPECT_EQ(*parse_shortage_bound("2G"), (ShortageBound{2'000'000'000, 0}));
  EXPECT_EQ(*parse_shortage_bound("5000"), (ShortageBound{5000, 0}));
  for (const char* bad : {"x", "%", "-1", "101%", "1.5Gi", "Mi", "10 %", "9999999999Ti", "99999999999999999999"})
    EXPECT_FALSE(parse_shortage_bound(bad).ok()) << bad;
}

}  // namespace
}  // namespace lockstep
