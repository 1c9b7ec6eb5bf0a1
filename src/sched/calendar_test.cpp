#include "sched/calendar.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace lockstep {
namespace {

constexpr Instant kNow{1'700'000'000'000'000};

Node machine(std::uint32_t cores, std::uint32_t devices, std::int64_t memory_mb) {
  Node node;
  node.cores = cores;
  node.memory_mb = memory_mb;
  for (std::uint32_t d = 0; d < devices; ++d) node.devices.push_back({.type = "h100"});
  return node;
}

TEST(TimeGrid, columns_follow_each_other_and_minutes_find_theirs) {
  const TimeGrid grid(kNow);
  const auto base = static_cast<std::uint32_t>(kNow.us / 60'000'000);
  EXPECT_EQ(grid.start_min(0), base);
  for (Column c = 0; c + 1 < TimeGrid::columns(); ++c) {
    const std::uint32_t start = grid.start_min(c), next = grid.start_min(c + 1);
    ASSERT_LT(start, next);
    ASSERT_EQ(grid.at_or_after(start), c);
    ASSERT_EQ(grid.at_or_before(start), c);
    ASSERT_EQ(grid.at_or_after(start + 1), c + 1);
    ASSERT_EQ(grid.at_or_before(next - 1), c);
    ASSERT_EQ(grid.end_of(c, 1), c + 1);
    ASSERT_EQ(grid.end_of(c, next - start), c + 1);
    ASSERT_EQ(grid.end_of(c, next - start + 1), std::min(c + 2, TimeGrid::columns()));
  }
  EXPECT_EQ(grid.at_or_after(0), 0u);
  EXPECT_EQ(grid.at_or_after(UINT32_MAX), TimeGrid::columns());
  EXPECT_EQ(grid.at_or_before(UINT32_MAX), TimeGrid::columns() - 1);
  EXPECT_EQ(grid.end_of(3, UINT32_MAX), TimeGrid::columns());
}

TEST(Calendar, begins_with_what_running_jobs_give_back) {
  std::deque<AlikeNodes> classes;
  classes.emplace_back(machine(8, 4, 1000), std::vector<PartitionNo>{0});
  const auto base = static_cast<std::uint32_t>(kNow.us / 60'000'000);
  classes[0].usable = 3;
  classes[0].now = {.nodes = 1, .devices = 2, .cores = 5, .memory = 100};
  classes[0].later[base - 7] = {.devices = 1};  // overdue: not now, but expected at any moment
  classes[0].later[base + 10] = {.nodes = 1, .devices = -3};
  Calendar calendar;
  calendar.begin(kNow, classes);
  EXPECT_EQ(calendar.room(0, 0), (Room{1, 2, 5, 100}));
  EXPECT_EQ(calendar.room(0, 1), (Room{1, 3, 5, 100}));
  EXPECT_EQ(calendar.room(0, 9), (Room{1, 3, 5, 100}));
  EXPECT_EQ(calendar.room(0, 10), (Room{2, 0, 5, 100}));
  EXPECT_EQ(calendar.room(0, TimeGrid::columns() - 1), (Room{2, 0, 5, 100}));
}

TEST(Calendar, parts_go_beside_others_before_they_break_a_free_node) {
  std::deque<AlikeNodes> classes;
  classes.emplace_back(machine(8, 4, 1000), std::vector<PartitionNo>{0});
  classes[0].now = {.nodes = 2, .devices = 1, .cores = 8, .memory = 1000};
  Calendar calendar;
  calendar.begin(kNow, classes);
  const Demand one{.nodes = 1, .devices = 1, .cores = 1, .memory = 10};
  calendar.book(one, 2, 5);
  EXPECT_EQ(calendar.room(0, 2), (Room{2, 0, 7, 990}));
  calendar.book(one, 2, 5);
  EXPECT_EQ(calendar.room(0, 4), (Room{1, 3, 14, 1980}));
  EXPECT_EQ(calendar.room(0, 5), (Room{2, 1, 8, 1000}));
  // Members of a gang want a node each.
  const Demand four{.nodes = 5, .devices = 1, .cores = 1, .memory = 10};
  EXPECT_FALSE(calendar.fits(four, 2, 3));
  EXPECT_EQ(calendar.most(four, 2, 3), 4);
  EXPECT_EQ(calendar.most(four, 5, 9), 3);
  EXPECT_EQ(calendar.earliest({.nodes = 2, .takes_node = true}, 0, 3), 5u);
  EXPECT_EQ(calendar.earliest({.nodes = 3, .takes_node = true}, 0, 1), kNoColumn);
}

// One column at a time, by the definition in calendar.h.
struct SlowPool {
  std::vector<Room> columns;
  std::int32_t devices, cores, memory;

  bool fits(const Demand& d, Column c) const {
    const Room& r = columns[c];
    if (d.takes_node)
      return r.nodes >= d.nodes;
    return beside(d, c) + std::max(0, r.nodes) >= d.nodes;
  }
  std::int32_t beside(const Demand& d, Column c) const {
    std::int32_t n = 0;
    const Room& r = columns[c];
    while (n < d.nodes && r.devices >= (n + 1) * d.devices && r.cores >= (n + 1) * d.cores &&
           r.memory >= (n + 1) * d.memory)
      ++n;
    return n;
  }
  void book(const Demand& d, Column from, Column to) {
    for (Column c = from; c < to; ++c) {
      Room& r = columns[c];
      if (d.takes_node) {
        r.nodes -= d.nodes;
        continue;
      }
      const std::int32_t broken = d.nodes - beside(d, c);
      r.nodes -= broken;
      r.devices += broken * devices - d.nodes * d.devices;
      r.cores += broken * cores - d.nodes * d.cores;
      r.memory += broken * memory - d.nodes * d.memory;
    }
  }
};

TEST(Calendar, agrees_with_a_column_by_column_one) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    std::deque<AlikeNodes> classes;
    classes.emplace_back(machine(16, 4, 800), std::vector<PartitionNo>{0});
    AlikeNodes& cls = classes[0];
    cls.now = {.nodes = static_cast<std::int32_t>(rng.between(0, 5))};
    const auto base = static_cast<std::uint32_t>(kNow.us / 60'000'000);
    for (int i = 0; i < 40; ++i)
      cls.later[base + static_cast<std::uint32_t>(rng.below(1 + rng.below(20'000)))] +=
          {.nodes = static_cast<std::int32_t>(rng.below(2)), .devices = 1, .cores = 3, .memory = 50};
    Calendar calendar;
    calendar.begin(kNow, classes);
    const TimeGrid& grid = calendar.grid();
    SlowPool slow{{}, 4, 16, 800};
    for (Column c = 0; c < TimeGrid::columns(); ++c) slow.columns.push_back(calendar.room(0, c));
    for (int i = 0; i < 150; ++i) {
      Demand demand{.nodes = static_cast<std::int32_t>(rng.between(1, 4)), .takes_node = rng.chance(0.5)};
      demand.devices = static_cast<std::int32_t>(rng.between(0, 2));
      demand.cores = static_cast<std::int32_t>(rng.between(1, 8));
      demand.memory = static_cast<std::int32_t>(rng.between(0, 300));
      const auto minutes = static_cast<std::uint32_t>(rng.between(1, 1 + rng.between(0, 5000)));
      const auto from = static_cast<Column>(rng.between(0, 200));
      Column expected = kNoColumn;
      for (Column s = from; s < TimeGrid::columns() && expected == kNoColumn; ++s) {
        bool whole = true;
        for (Column c = s; whole && c < grid.end_of(s, minutes); ++c) whole = slow.fits(demand, c);
        if (whole)
          expected = s;
      }
      ASSERT_EQ(calendar.earliest(demand, from, minutes), expected) << "booking " << i;
      if (expected == kNoColumn)
        continue;
      calendar.book(demand, expected, grid.end_of(expected, minutes));
      slow.book(demand, expected, grid.end_of(expected, minutes));
      for (Column c = 0; c < TimeGrid::columns(); ++c)
        ASSERT_EQ(calendar.room(0, c), slow.columns[c]) << "column " << c;
    }
  }
}

}  // namespace
}  // namespace lockstep
