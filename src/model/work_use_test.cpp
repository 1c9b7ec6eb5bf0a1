#include "model/work_use.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

WorkUse of_one(std::uint32_t rank, std::int64_t memory, Duration cpu) {
  WorkUse use;
  use.user = cpu;
  use.tasks = 1;
  use.memory_peak = use.memory_sum = memory;
  use.memory_peak_rank = use.least_cpu_rank = rank;
  use.least_cpu = cpu;
  return use;
}

TEST(WorkUse, AddsUp) {
  WorkUse all;
  all.add(WorkUse{});
  EXPECT_EQ(all.tasks, 0u);
  for (const WorkUse& one : {of_one(2, 100, seconds(3)), of_one(5, 300, seconds(9)), of_one(7, 200, seconds(1))})
    all.add(one);
  EXPECT_EQ(all.tasks, 3u);
  EXPECT_EQ(all.user, seconds(13));
  EXPECT_EQ(all.memory_sum, 600);
  EXPECT_EQ(all.memory_peak, 300);
  EXPECT_EQ(all.memory_peak_rank, 5u);
  EXPECT_EQ(all.least_cpu, seconds(1));
  EXPECT_EQ(all.least_cpu_rank, 7u);
}

TEST(WorkUse, ItsTextComesBack) {
  WorkUse use = of_one(3, 1 << 30, millis(1234));
  use.system = millis(7);
  use.read_bytes = 512;
  use.written_bytes = INT64_MAX;
  EXPECT_EQ(parse_work_use(text_of(use)), use);
  for (const char* text : {"", "1", "1 2 3 4 5 6 7 8 9", "1 2 3 4 5 6 7 8 9 10 11", "1 2 3 4 -5 6 7 8 9 10",
                           "1 2 3 4 4294967296 6 7 8 9 10", "x 2 3 4 5 6 7 8 9 10"})
    EXPECT_FALSE(parse_work_use(text)) << text;
}

}  // namespace
}  // namespace lockstep
