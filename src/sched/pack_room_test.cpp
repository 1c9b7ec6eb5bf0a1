// Fit and take on packing's plain values.
#include "sched/pack_room.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

PackRoom room_of(std::initializer_list<std::uint16_t> free, std::int64_t cpu_milli = 16000) {
  PackRoom room{
      .cpu_milli = cpu_milli, .memory_mib = 1000, .kind = 1, .devices = static_cast<std::uint8_t>(free.size())};
  std::copy(free.begin(), free.end(), room.free_milli.begin());
  return room;
}

TEST(PackRoom, FitLooksAtEveryResource) {
  const PackRoom room = room_of({1000, 400, 1000});
  EXPECT_TRUE(fits(room, {.cpu_milli = 16000, .memory_mib = 1000, .devices = 2, .milli = 1000}));
  EXPECT_FALSE(fits(room, {.cpu_milli = 16001}));
  EXPECT_FALSE(fits(room, {.memory_mib = 1001}));
  EXPECT_FALSE(fits(room, {.devices = 3, .milli = 1000}));
  EXPECT_TRUE(fits(room, {.devices = 1, .milli = 400, .kinds = 0b10}));
  EXPECT_FALSE(fits(room, {.devices = 1, .milli = 400, .kinds = 0b101}));
  EXPECT_TRUE(fits(room_of({}), {.cpu_milli = 1}));
  EXPECT_FALSE(fits(room_of({}), {.devices = 1, .milli = 1}));
}

TEST(PackRoom, TightestDeviceIsTheFirstOfTheLeastThatIsEnough) {
  const PackRoom room = room_of({1000, 300, 500, 300});
  EXPECT_EQ(tightest_device(room, 300), 1);
  EXPECT_EQ(tightest_device(room, 310), 2);
  EXPECT_EQ(tightest_device(room, 501), 0);
  EXPECT_EQ(tightest_device(room_of({400}), 500), -1);
}

TEST(PackRoom, TakeGivesGangsTheLowestWholeDevices) {
  PackRoom room = room_of({1000, 400, 1000, 1000});
  take(room, {.cpu_milli = 6000, .memory_mib = 100, .devices = 2, .milli = 1000}, -1);
  EXPECT_EQ(room.cpu_milli, 10000);
  EXPECT_EQ(room.memory_mib, 900);
  EXPECT_EQ(room.free_milli[0], 0);
  EXPECT_EQ(room.free_milli[1], 400);
  EXPECT_EQ(room.free_milli[2], 0);
  EXPECT_EQ(room.free_milli[3], 1000);
  take(room, {.devices = 1, .milli = 400}, 1);
  EXPECT_EQ(free_gpu_milli(room), 1000);
}

TEST(PackRoomDeath, TakingWhatIsNotThereIsABug) {
  PackRoom room = room_of({300});
  EXPECT_DEATH(take(room, {.devices = 1, .milli = 400}, 0), "CHECK failed");
  EXPECT_DEATH(take(room, {.cpu_milli = 16001}, -1), "CHECK failed");
}

}  // namespace
}  // namespace lockstep
