// Prices: bounds that hold for all prices, and what they must say of small clusters whose answer is known.
#include "sched/pack_prices.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace lockstep {
namespace {

PackShape share(std::uint16_t milli, std::int64_t cores = 1, std::uint64_t kinds = ~std::uint64_t{0}) {
  return {.cpu_milli = cores * 1000, .devices = 1, .milli = milli, .kinds = kinds};
}
PackShape gang(std::uint8_t devices, std::int64_t cores = 1) {
  return {.cpu_milli = cores * 1000, .devices = devices, .milli = 1000};
}
PackRoom idle(std::uint8_t devices, std::int64_t cores, std::uint16_t kind = 0) {
  PackRoom room{.cpu_milli = cores * 1000, .memory_mib = 1 << 20, .kind = kind, .devices = devices};
  std::fill_n(room.free_milli.begin(), devices, 1000);
  return room;
}
PackRoom with_free(std::uint16_t milli) {
  PackRoom room = idle(1, 8);
  room.free_milli[0] = milli;
  return room;
}

using Mix = std::vector<PackClass>;

PackRoom sorted(PackRoom room) {
  std::sort(room.free_milli.begin(), room.free_milli.begin() + room.devices, std::greater<>{});
  return room;
}

PackPrices settled(const Mix& mix, std::span<const PackStock> rooms, std::size_t kinds = 1, int steps = 2000) {
  double gpu = 0, cpu = 0;
  for (const PackStock& stock : rooms) {
    gpu += stock.count * stock.room.devices * kPackDeviceMilli;
    cpu += stock.count * static_cast<double>(stock.room.cpu_milli);
  }
  PackPrices prices({}, kinds, static_cast<std::int64_t>(gpu), static_cast<std::int64_t>(cpu), mix);
  prices.step(rooms, steps);
  return prices;
}

TEST(PackPrices, SmallRequestsThatFillLeftoversAreNearlyFree) {
  Mix mix;
  mix.push_back({share(800), 10});
  mix.push_back({share(200), 1});
  const std::size_t filler = 1;
  const std::vector<PackStock> rooms{{idle(4, 64), 50}};
  const PackPrices prices = settled(mix, rooms);
  EXPECT_LT(prices.price(filler), 40);
  EXPECT_LT(prices.value(with_free(200)), 40);
  EXPECT_GT(prices.value(with_free(800)), 750);
}

TEST(PackPrices, HolesOfTheRightSizeAreWorthKeeping) {
  Mix mix;
  mix.push_back({share(700), 10});
  mix.push_back({share(300), 10});
  mix.push_back({share(500), 10});
  const std::vector<PackStock> rooms{{idle(4, 64), 50}};
  const PackPrices prices = settled(mix, rooms);
  const float half_in_half = prices.value(with_free(500));
  const float half_in_larger = prices.value(with_free(700)) - prices.value(with_free(200));
  EXPECT_GT(half_in_larger, half_in_half + 100);  // a 500 in the hole of a 300 costs a 700
  EXPECT_NEAR(prices.value(with_free(300)) + prices.value(with_free(700)), prices.value(with_free(1000)), 60);
}

TEST(PackPrices, DevicesThatSomeInsistOnAreDear) {
  Mix mix;
  mix.push_back({share(1000, 1), 2});
  mix.push_back({share(1000, 1, 0b10), 1});
  const std::vector<PackStock> rooms{{idle(2, 32, 0), 40}, {idle(2, 32, 1), 10}};
  const PackPrices prices = settled(mix, rooms, 2);
  EXPECT_GT(prices.value(idle(1, 16, 1)), 1.5f * prices.value(idle(1, 16, 0)));
}

TEST(PackPrices, CoresAreDearWhereTheyRunOutFirst) {
  Mix mix;
  mix.push_back({share(1000, 4), 1});
  mix.push_back({share(1000, 12), 1});
  const std::vector<PackStock> rooms{{idle(4, 16), 20}, {idle(4, 64), 20}};
  const PackPrices prices = settled(mix, rooms);
  const auto cost_of_cores = [&](const PackRoom& room, std::int64_t cores) {
    PackRoom after = room;
    after.cpu_milli -= cores * 1000;
    return prices.value(room) - prices.value(after);
  };
  EXPECT_GT(cost_of_cores(idle(4, 16), 8), 300);
  EXPECT_LT(cost_of_cores(idle(4, 64), 8), 60);
}

TEST(PackPrices, BreakingAnIdleNodeCostsMoreWhereGangsCome) {
  Mix mix;
  mix.push_back({share(1000), 8});
  mix.push_back({gang(4), 4});
  PackRoom broken = idle(4, 64);
  take(broken, share(1000), 0);
  const std::vector<PackStock> rooms{{idle(4, 64), 20}, {broken, 10}};
  const PackPrices prices = settled(mix, rooms);
  PackRoom after_idle = idle(4, 64), after_broken = broken;
  take(after_idle, share(1000), 0);
  take(after_broken, share(1000), 1);
  EXPECT_GT(prices.value(idle(4, 64)) - prices.value(after_idle), prices.value(broken) - prices.value(after_broken));
}

TEST(PackPrices, ServedTellsHowMuchOfTheMixFits) {
  Mix mix;
  mix.push_back({share(500), 1});
  const std::vector<PackStock> rooms{{idle(4, 64), 25}};
  EXPECT_NEAR(settled(mix, rooms).served(), 200, 2);
}

TEST(PackPrices, AnEmptyMixAndRoomsWithoutDevicesAreWorthNothing) {
  const PackRoom host{.cpu_milli = 8000, .memory_mib = 1000};
  PackPrices prices({}, 1, 0, 0, {});
  prices.step({});
  EXPECT_EQ(prices.steps(), 0u);
  EXPECT_EQ(prices.value(host), 0);
  EXPECT_EQ(settled({{share(1000), 1}}, std::vector<PackStock>{{host, 3}}).value(host), 0);
}

TEST(PackPrices, EqualRoomsCountAsOneWithTheirNumber) {
  const Mix mix{{share(700, 3), 2}, {share(300, 9), 3}, {gang(2, 20), 1}};
  PackRoom used = idle(4, 40);
  take(used, share(700, 3), 2);
  std::vector<PackStock> apart(5, {idle(4, 64), 1});
  apart.insert(apart.end(), 3, {used, 1});
  const PackPrices one = settled(mix, apart, 1, 50),
                   other = settled(mix, std::vector<PackStock>{{idle(4, 64), 5}, {used, 3}}, 1, 50);
  for (std::size_t i = 0; i < mix.size(); ++i) EXPECT_NEAR(one.price(i), other.price(i), 0.01);
}

// Whatever the prices, what is placed never brings more than the rooms were worth, and taking never adds value.
TEST(PackPrices, ValueBoundsEveryFilling) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    Mix mix;
    for (int i = 0; i < 12; ++i) {
      const auto cores = static_cast<std::int64_t>(rng.below(16));
      if (rng.chance(0.2))
        mix.push_back({gang(static_cast<std::uint8_t>(rng.between(2, 8)), cores), rng.unit() + 0.01});
      else
        mix.push_back(
            {share(static_cast<std::uint16_t>(10 * rng.between(1, 100)), cores, rng.between(1, 3)), rng.unit() + 0.01});
    }
    std::vector<PackStock> rooms;
    for (int i = 0; i < 10; ++i)
      rooms.push_back({idle(static_cast<std::uint8_t>(rng.between(0, 8)), rng.between(4, 96),
                            static_cast<std::uint16_t>(rng.below(2))),
                       1});
    const PackPrices prices = settled(mix, rooms, 2, static_cast<int>(rng.below(200)) + 1);
    for (auto& [room, count] : rooms) {
      const float worth = prices.value(room);
      float brought = 0, last = worth;
      for (int tries = 0; tries < 60; ++tries) {
        const std::size_t place = rng.below(mix.size());
        const PackShape& shape = mix[place].shape;
        if (!fits(room, shape))
          continue;
        // What a request costs is what the room loses, on the device where that is least.
        const PackCost cost = prices.cost(prices.sum_of(room), prices.value(room), sorted(room), shape);
        float lost = prices.value(room);
        for (int d = 0; d < room.devices; ++d) {
          if (shape.devices == 1 && room.free_milli[d] < shape.milli)
            continue;
          PackRoom after = room;
          take(after, shape, shape.devices == 1 ? d : -1);
          lost = std::min(lost, prices.value(room) - prices.value(after));
          if (shape.devices == 1 && room.free_milli[d] == cost.from) {
            EXPECT_NEAR(prices.value(room) - prices.value(after), static_cast<double>(cost.milli), 1)
                << "seed " << seed;
          }
        }
        ASSERT_NEAR(lost, static_cast<double>(cost.milli), 1) << "seed " << seed;
        take(room, shape, shape.devices == 1 ? tightest_device(room, shape.milli) : -1);
        brought += static_cast<float>(prices.price(place));
        const float now = prices.value(room);
        ASSERT_LE(now, last + 0.01f * worth) << "seed " << seed;
        last = now;
      }
      ASSERT_LE(brought + last, worth * 1.001f + 1) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace lockstep
