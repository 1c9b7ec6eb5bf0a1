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
  EXPECT_EQ(device_program({{195, 0}, {195, 3}}).size(), 16u);
}

}  // namespace
}  // namespace lockstep
