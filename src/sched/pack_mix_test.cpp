// Counting arrivals by class.
#include "sched/pack_mix.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep {
namespace {

PackShape share(std::uint16_t milli) { return {.cpu_milli = 1000, .memory_mib = milli, .devices = 1, .milli = milli}; }

TEST(PackMix, ClassesLeaveMemoryOut) {
  PackMix mix;
  PackShape other = share(500);
  other.memory_mib = 7;
  EXPECT_EQ(mix.add(share(500)), mix.add(other));
  EXPECT_EQ(mix.add(share(250)), 1u);
  ASSERT_EQ(mix.classes().size(), 2u);
  EXPECT_DOUBLE_EQ(mix.classes()[0].weight, 2);
  EXPECT_DOUBLE_EQ(mix.total(), 3);
}

TEST(PackMix, OlderArrivalsFade) {
  PackMix mix(100);
  mix.add(share(500));
  for (int i = 0; i < 100; ++i) mix.add(share(250));
  EXPECT_EQ(mix.add(share(750)), 2u);
  EXPECT_NEAR(mix.classes()[2].weight / mix.classes()[0].weight, std::exp2(1.01), 1e-9);
  for (int i = 0; i < 10000; ++i) mix.add(share(250));
  EXPECT_LT(mix.classes()[0].weight / mix.total(), 1e-12);
  EXPECT_NEAR(mix.classes()[1].weight / mix.total(), 1, 1e-9);
}

TEST(PackMix, TheLightestClassMakesRoom) {
  PackMix mix(0, 2);
  mix.add(share(500));
  mix.add(share(500));
  mix.add(share(250));
  EXPECT_EQ(mix.add(share(125)), 1u);
  ASSERT_EQ(mix.classes().size(), 2u);
  EXPECT_EQ(mix.classes()[1].shape.milli, 125);
  EXPECT_DOUBLE_EQ(mix.total(), 3);
  EXPECT_EQ(mix.add(share(250)), 1u);
}

}  // namespace
}  // namespace lockstep
