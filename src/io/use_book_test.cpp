#include "io/use_book.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const WorkId kScript{JobId(12), 1, ScriptPart{}}, kStep{JobId(12), 1, StepPart{0}};

WorkLook look_of(const WorkId& key, std::vector<TaskLook> tasks, Duration user, std::int64_t read = 0) {
  WorkLook look;
  look.key = key;
  look.user = user;
  look.read_bytes = read;
  look.tasks = std::move(tasks);
  return look;
}

GpuSample gpu(std::uint32_t index, std::int32_t utilization, std::vector<GpuProcess> processes) {
  GpuSample sample;
  sample.index = index;
  sample.answers = true;
  sample.utilization = utilization;
  sample.memory_used_mb = 500;
  sample.power_mw = 71'900;
  sample.celsius = 40;
  sample.processes = std::move(processes);
  return sample;
}

TEST(UseBook, PeaksAreOfEachRankAndTimesOnlyGrow) {
  UseBook book;
  book.see({look_of(kStep, {{0, 100, seconds(1)}, {3, 700, seconds(2)}}, seconds(3), 10)});
  book.see({look_of(kStep, {{0, 400, seconds(2)}, {3, 200, seconds(4)}}, seconds(2), 5)});
  const auto work = book.work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].job, JobId(12));
  const WorkUse& use = work[0].use;
  EXPECT_EQ(use.tasks, 2u);
  EXPECT_EQ(use.memory_peak, 700);
  EXPECT_EQ(use.memory_peak_rank, 3u);
  EXPECT_EQ(use.memory_sum, 1100);
  EXPECT_EQ(use.user, seconds(3)) << "processes that have ended took their share with them";
  EXPECT_EQ(use.read_bytes, 10);
  EXPECT_EQ(use.least_cpu, seconds(2));
  EXPECT_EQ(use.least_cpu_rank, 0u);
}

TEST(UseBook, TheEndTakesWhatSaysMore) {
  UseBook book;
  book.see({look_of(kStep, {{0, 900, seconds(1)}}, seconds(1))});
  WorkUse counted;
  counted.tasks = 1;
  counted.memory_peak = counted.memory_sum = 300;  // its largest process
  counted.user = seconds(5);
  counted.least_cpu = seconds(5);
  const WorkUse use = book.complete(kStep, counted);
  EXPECT_EQ(use.memory_peak, 900);
  EXPECT_EQ(use.memory_sum, 900);
  EXPECT_EQ(use.user, seconds(5));
  EXPECT_EQ(use.least_cpu, seconds(5));
  EXPECT_EQ(book.complete(kScript, counted), counted) << "nothing was seen of it";
  EXPECT_EQ(book.complete(kStep, WorkUse{}).memory_peak, 900) << "its shim could not say";
}

TEST(UseBook, GpuTimeIsOfThosePartsWhoseProcessesAreThere) {
  UseBook book;
  const auto work_of = [](pid_t pid) -> std::optional<WorkId> {
    return pid == 7 ? std::optional(kScript) : pid < 10 ? std::optional(kStep) : std::nullopt;
  };
  const std::vector<GpuSample> samples = {gpu(0, 50, {{8, 1000}, {9, 500}, {99, 5000}}), gpu(1, 80, {{7, 10}, {8, 20}}),
                                          gpu(2, 60, {{7, 30, 45}, {8, 20, 15}}), gpu(3, 90, {})};
  const auto shares = gpu_shares(samples, work_of);
  ASSERT_EQ(shares.size(), 5u);
  book.see(samples, shares, seconds(2));
  const WorkUse step = book.complete(kStep, WorkUse{}), script = book.complete(kScript, WorkUse{});
  EXPECT_EQ(step.gpu, millis(1000 + 800 + 300));
  EXPECT_EQ(step.gpu_memory_peak, std::int64_t{1500} << 20) << "the sum of its processes on one GPU";
  EXPECT_EQ(script.gpu, millis(800 + 900)) << "half of what nobody tells apart";
  const auto devices = book.take_devices();
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_EQ(devices[3], (DeviceSample{3, 90, 500, 71, 40}));
  EXPECT_TRUE(book.work().empty()) << "no task of them has been seen yet";
}

TEST(UseBook, DevicesAreAveragedOverTheTimeSinceTheyWereTaken) {
  UseBook book;
  book.see({gpu(0, 100, {})}, {}, seconds(1));
  book.see({gpu(0, 0, {})}, {}, seconds(3));
  EXPECT_EQ(book.take_devices()[0].busy_percent, 25u);
  book.see({gpu(0, 100, {})}, {}, seconds(1));
  EXPECT_EQ(book.take_devices()[0].busy_percent, 100u);
}

TEST(UseBook, WhatIsGoneIsForgotten) {
  UseBook book;
  book.see({look_of(kStep, {{0, 1, {}}}, {}), look_of(kScript, {{0, 1, {}}}, {})});
  book.see({look_of(kScript, {}, {})});
  ASSERT_EQ(book.work().size(), 1u) << "a script between two processes is there still";
  EXPECT_EQ(book.work()[0].part, WorkPart(ScriptPart{}));
}

TEST(UseBook, AnotherAgentGoesOnFromItsLines) {
  UseBook before, after;
  before.see({look_of(kStep, {{0, 900, seconds(1)}, {1, 100, seconds(1)}}, seconds(2))});
  before.see({}, {{kStep, 0, 100, 50}}, seconds(4));
  after.restore(before.lines());
  after.restore({"nonsense", "12-1-0", "12-1-0 1 2 3", ""});
  after.see({}, {{kStep, 0, 50, 50}}, seconds(2));
  after.see({look_of(kStep, {{0, 200, seconds(3)}, {1, 300, seconds(3)}}, seconds(6))});
  const WorkUse use = after.complete(kStep, WorkUse{});
  EXPECT_EQ(use.gpu, seconds(3));
  EXPECT_EQ(use.gpu_memory_peak, std::int64_t{100} << 20);
  EXPECT_EQ(use.memory_peak, 900);
  EXPECT_EQ(use.memory_sum, 1000);
  EXPECT_EQ(use.user, seconds(6));
}

}  // namespace
}  // namespace lockstep
