// Two looks make a rate; the same look told twice makes none.
#include "views/live_use.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr NodeId kNode{1};
constexpr JobId kJob{7};

struct Cluster {
  Tables tables;
  Node node;
  LiveUse live;

  Cluster() {
    node.id = kNode;
    node.meta.name = "n1";
    auto job = std::make_shared<Job>();
    job->id = kJob;
    job->meta.seq = 1;
    auto spec = std::make_shared<JobSpec>();
    spec->groups = std::vector<GroupSpec>(1);
    job->spec = spec;
    job->state = JobState::kRunning;
    Allocation allocation;
    allocation.attempt = 1;
    Grant grant;
    grant.node = kNode;
    allocation.grants = std::vector<Grant>{grant};
    job->allocation = std::make_shared<const Allocation>(allocation);
    tables.apply({1, Ref<Job>(job), false});
  }

  void look(std::int64_t boot_s, std::int64_t cpu_ms, std::int64_t container_ms, JobId job = kJob) {
    Telemetry told;
    told.seen_boot_us = seconds(boot_s).us;
    told.cpu = millis(cpu_ms);
    told.memory_used_mb = 100;
    told.containers.push_back({job, 1, TaskPart{0, 0, 1}, "c", millis(container_ms), 4096});
    live.take(tables, node, std::move(told), Instant{seconds(boot_s).us});
  }
  std::vector<ContainerUse> uses() const {
    std::vector<ContainerUse> out;
    for (const auto& [work, all] : *live.containers(kNode)) out.insert(out.end(), all.begin(), all.end());
    return out;
  }
};

TEST(LiveUse, TwoLooksMakeARate) {
  Cluster c;
  EXPECT_EQ(c.live.containers(kNode), nullptr);
  c.look(100, 5'000, 1'000);
  EXPECT_TRUE(c.uses().empty());
  EXPECT_EQ(c.live.node(kNode)->window.us, 0);
  c.look(110, 10'000, 3'500);
  ASSERT_EQ(c.uses().size(), 1u);
  EXPECT_EQ(c.uses()[0].cpu_nanos, 250'000'000);
  EXPECT_EQ(c.uses()[0].memory, 4096);
  EXPECT_EQ(c.uses()[0].window, seconds(10));
  EXPECT_EQ(c.live.node(kNode)->cpu_nanos, 500'000'000);
  EXPECT_EQ(c.live.node(kNode)->memory_used_mb, 100);
  c.look(110, 10'000, 3'500);  // told again, because something else was
  ASSERT_EQ(c.uses().size(), 1u);
  EXPECT_EQ(c.uses()[0].cpu_nanos, 250'000'000);
}

TEST(LiveUse, WhatBeginsAnewHasNoRateYet) {
  Cluster c;
  c.look(100, 5'000, 9'000);
  c.look(110, 6'000, 10);  // another life of the container
  EXPECT_TRUE(c.uses().empty());
  c.look(120, 1'000, 20);  // the machine has booted meanwhile
  EXPECT_EQ(c.live.node(kNode)->window.us, 0);
  ASSERT_EQ(c.uses().size(), 1u);
  EXPECT_EQ(c.uses()[0].cpu_nanos, 1'000'000);
}

TEST(LiveUse, OfWhatANodeDoesNotHoldItSaysNothing) {
  Cluster c;
  c.look(100, 0, 0, JobId{8});
  c.look(110, 0, 5'000, JobId{8});
  EXPECT_TRUE(c.uses().empty());
}

}  // namespace
}  // namespace lockstep
