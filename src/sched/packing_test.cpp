// The packing score as a scheduler uses it.
#include "sched/packing.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace lockstep {
namespace {

PackShape share(std::uint16_t milli) { return {.cpu_milli = 1000, .devices = 1, .milli = milli}; }
PackRoom room_of(std::initializer_list<std::uint16_t> free) {
  PackRoom room{.cpu_milli = 64000, .memory_mib = 1 << 20, .devices = static_cast<std::uint8_t>(free.size())};
  std::copy(free.begin(), free.end(), room.free_milli.begin());
  return room;
}
PackMix pairs() {
  PackMix mix;
  mix.add(share(650), 10);
  mix.add(share(350), 10);
  mix.add(share(1000), 10);
  return mix;
}
constexpr std::int64_t kGpu = 80 * kPackDeviceMilli, kCpu = 20 * 64000;

TEST(Packing, PrefersTheHoleThatFitsOnANodeAndBetweenNodes) {
  Packer packer({}, PackMixSource::kTold, pairs(), 1, kGpu, kCpu);
  std::vector<PackRoom> rooms(20, room_of({1000, 1000, 1000, 1000}));
  rooms.push_back(room_of({1000, 650, 350}));
  ASSERT_TRUE(packer.arrives(share(350), rooms));
  const PackRoom& holed = rooms.back();
  const PackCost in_hole = packer.cost(holed, packer.value(holed), share(350));
  const PackCost on_idle = packer.cost(rooms[0], packer.value(rooms[0]), share(350));
  EXPECT_EQ(in_hole.device, 2);
  EXPECT_LE(in_hole.milli, on_idle.milli + 5);
  EXPECT_EQ(packer.cost(holed, packer.value(holed), share(650)).device, 1);
  EXPECT_EQ(packer.cost(holed, packer.value(holed), share(1000)).device, 0);
  EXPECT_EQ(packer.cost(holed, packer.value(holed), {.cpu_milli = 1000}).device, -1);
}

TEST(Packing, ALearntMixComesToTheSameAsATold) {
  const PackSettings settings;
  std::vector<PackRoom> rooms(20, room_of({1000, 1000, 1000, 1000}));
  Packer told(settings, PackMixSource::kTold, pairs(), 1, kGpu, kCpu);
  Packer learning(settings, PackMixSource::kLearnt, PackMix(), 1, kGpu, kCpu);
  Rng rng(7);
  const PackMix mix = pairs();
  for (int i = 0; i < 3000; ++i) {
    const PackShape& shape = mix.classes()[rng.below(3)].shape;
    told.arrives(shape, rooms);
    learning.arrives(shape, rooms);
  }
  const float whole = told.value(room_of({1000}));
  EXPECT_GT(whole, 900);
  EXPECT_NEAR(learning.value(room_of({1000})), whole, 50);
  // How a pair shares the price of its device is open; together they come to it.
  EXPECT_NEAR(learning.value(room_of({650})) + learning.value(room_of({350})), whole, 80);
}

TEST(Packing, PricesMoveNowAndThenAndReplayExactly) {
  const PackSettings settings{.settle_steps = 10, .arrivals_per_step = 4};
  const std::vector<PackRoom> rooms(20, room_of({1000, 1000, 500, 300}));
  Packer one(settings, PackMixSource::kLearnt, PackMix(), 1, kGpu, kCpu);
  Packer two(settings, PackMixSource::kLearnt, PackMix(), 1, kGpu, kCpu);
  int moved = 0;
  for (int i = 0; i < 400; ++i) {
    const PackShape shape = share(static_cast<std::uint16_t>(100 + 50 * (i % 7)));
    const bool moves = one.arrives(shape, rooms);
    EXPECT_EQ(moves, two.arrives(shape, rooms));
    moved += moves;
    ASSERT_EQ(one.value(rooms[0]), two.value(rooms[0]));
  }
  EXPECT_GT(moved, 90);
  EXPECT_LT(moved, 130);
}

}  // namespace
}  // namespace lockstep
