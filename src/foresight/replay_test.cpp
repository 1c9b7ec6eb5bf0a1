// A small history, replayed as it was and in a changed cluster.
#include "foresight/replay.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "core/testing.h"
#include "wire/foresight.h"

namespace lockstep {
namespace {

constexpr std::int64_t kDay = 1'700'000'000;  // wall clock, s

JobRow row(std::uint64_t id, std::int64_t submit_s, std::int64_t start_s, std::int64_t run_s, std::uint32_t nodes) {
  JobRow r;
  r.job = JobId{id};
  r.user = "alice";
  r.partition = "main";
  r.submitted_us = r.eligible_us = (kDay + submit_s) * 1'000'000;
  r.started_us = start_s < 0 ? 0 : (kDay + start_s) * 1'000'000;
  r.ended_us = start_s < 0 ? (kDay + submit_s + 5) * 1'000'000 : (kDay + start_s + run_s) * 1'000'000;
  r.limit_s = 3600;
  r.nodes = r.tasks = nodes;
  r.cores = nodes * 4;
  r.devices = nodes * 8;
  r.devices_text = "gpu:h100=" + std::to_string(nodes * 8);
  return r;
}

TEST(Replay, TheSameQueueOnTheSameAndOnMoreNodes) {
  World world(2);
  // Recorded with a needless wait of the second job: it could have started beside the first.
  const std::vector<JobRow> rows = {row(1, 0, 0, 600, 1), row(2, 10, 600, 300, 1), row(3, 20, 900, 100, 2),
                                    row(4, 30, -1, 0, 1)};
  const auto same = replay(world.state.tables(), rows, {});
  ASSERT_TRUE(same.ok()) << same.error().message;
  ASSERT_EQ(same->jobs.size(), 3u);
  EXPECT_EQ(same->jobs[0].start_s, kDay);
  EXPECT_EQ(same->jobs[1].start_s, kDay + 10);
  EXPECT_EQ(same->jobs[1].recorded_s, kDay + 600);
  EXPECT_EQ(same->jobs[2].start_s, kDay + 600);  // when both are over
  EXPECT_EQ(same->devices, 16u);
  ASSERT_EQ(same->left_out.size(), 1u);
  EXPECT_EQ(same->left_out[0].second, "it never ran");

  const auto changes = decode_changes(R"({"add_nodes":{"like":"n1","count":2}})");
  ASSERT_TRUE(changes.ok());
  const auto more = replay(world.state.tables(), rows, *changes);
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(more->jobs[2].start_s, kDay + 20);
  EXPECT_EQ(more->devices, 32u);
}

// What a node does not confirm belongs to jobs of today.
TEST(Replay, ANodeThatIsClosedForAJobOfToday) {
  World world(1);
  world.pass(minutes(10));
  const JobId job = world.submit(World::batch());
  world.settle();
  world.silent.insert(1);
  world.must(CancelJob{.target = {.job = job}});
  world.pass(minutes(2));
  ASSERT_TRUE(node_drained(world.node(1)));
  const std::vector<JobRow> rows = {row(1, 0, 0, 600, 1), row(2, 10, 600, 300, 1)};
  const auto resumed = decode_changes(R"([{"resume":["n1"]}])");
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  for (const auto& changes : {std::vector<ChangeAsk>{}, *resumed}) {
    const auto past = replay(world.state.tables(), rows, changes);
    ASSERT_TRUE(past.ok()) << past.error().message;
    ASSERT_EQ(past->jobs.size(), 2u);
    EXPECT_EQ(past->jobs[0].start_s, kDay);
  }
}

TEST(Replay, FiguresOfBothWorlds) {
  World world(2);
  const std::vector<JobRow> rows = {row(1, 0, 0, 600, 2), row(2, 0, 600, 600, 2)};
  const auto changes = decode_changes(R"({"add_nodes":{"like":"n1","count":2}})");
  const auto out = what_if_past(world.state.tables(), rows, *changes);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->jobs, 2u);
  EXPECT_TRUE(out->by_gpus);
  EXPECT_EQ(out->recorded.mean_wait_s, 300);
  EXPECT_EQ(out->as_is.mean_wait_s, 300);
  EXPECT_EQ(out->as_is.slowdown_milli, 1500);
  EXPECT_EQ(out->as_is.used_permille, 1000);
  EXPECT_EQ(out->changed.mean_wait_s, 0);
  EXPECT_EQ(out->changed.used_permille, 1000);
}

TEST(Replay, WhatCannotRunIsLeftOut) {
  World world(2);
  const std::vector<JobRow> rows = {row(1, 0, 0, 600, 1), row(2, 10, 600, 300, 9)};
  const auto out = replay(world.state.tables(), rows, {});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->jobs.size(), 1u);
  ASSERT_EQ(out->left_out.size(), 1u);
  EXPECT_EQ(out->left_out[0].first, JobId{2});
  EXPECT_FALSE(replay(world.state.tables(), std::span<const JobRow>{}, {}).ok());
}

TEST(Replay, LongerThanTheLimitEndsAtTheLimit) {
  World world(1);
  std::vector<JobRow> rows = {row(1, 0, 0, 5000, 1), row(2, 10, 5000, 60, 1)};
  const auto out = replay(world.state.tables(), rows, {});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->jobs[1].start_s, kDay + 3600);
}

TEST(Replay, AThousandJobsComeToAnEnd) {
  World world(4);
  std::vector<JobRow> rows;
  Rng rng(7);
  std::int64_t at = 0;
  for (std::uint64_t id = 1; id <= 1000; ++id) {
    at += rng.between(0, 300);
    rows.push_back(row(id, at, at + 1000, rng.between(1, 3000), static_cast<std::uint32_t>(rng.between(1, 3))));
  }
  const auto out = replay(world.state.tables(), rows, {});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->jobs.size(), 1000u);
  for (const ReplayedJob& job : out->jobs) EXPECT_GE(job.start_s, job.submitted_s);
}

}  // namespace
}  // namespace lockstep
