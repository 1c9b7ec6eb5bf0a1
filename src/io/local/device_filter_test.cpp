#include "io/local/device_filter.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(DeviceFilter, NumbersOfFiles) {
  const auto null = device_number("/dev/null");
  ASSERT_TRUE(null.ok());
  EXPECT_EQ(*null, (DeviceNumber{1, 3}));
  EXPECT_FALSE(device_number("/dev/no-such-device").ok());
  EXPECT_FALSE(device_number("/").ok());
}

TEST(DeviceFilter, TheProgramIsAsLongAsItsList) {
  EXPECT_EQ(device_program({}).size(), 6u);
  EXPECT_EQ(device_program({.denied = {{195, 0}, {195, 3}}, .families = {}}).size(), 16u);
  EXPECT_EQ(device_program({.denied = {}, .families = {{237, {1, 2}, {}}}}).size(), 6u + 2 + 6 + 2);
}

}  // namespace
}  // namespace lockstep
