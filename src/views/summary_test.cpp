#include "views/summary.h"

#include <gtest/gtest.h>

#include "model/job.h"
#include "views/test_tables.h"

namespace lockstep {
namespace {

TEST(Summary, NodesSumTheirGrants) {
  TestTables made;
  Job& a = made.draft(1);
  a.state = JobState::kRunning;
  a.allocation = TestTables::allocation("main", {1, 2}, 0, 4, 2);
  made.save();
  Job& b = made.draft(2);
  b.state = JobState::kCompleting;  // holds until it has ended
  b.allocation = TestTables::allocation("main", {2}, 4, 4);
  made.save();
  made.draft(3);
  made.save();

  const auto uses = node_uses(made.tables);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses.at(NodeId(1)).cores, CoreSet::first_n(4));
  EXPECT_EQ(uses.at(NodeId(2)).cores, CoreSet::first_n(8));
  EXPECT_EQ(uses.at(NodeId(2)).devices, DeviceSet::first_n(2));
  EXPECT_EQ(uses.at(NodeId(2)).memory_mb, 2000);
  EXPECT_EQ(uses.at(NodeId(2)).grants, 2u);
  for (const std::uint32_t n : {1u, 2u, 3u}) {
    const NodeUse one = node_use(made.tables, NodeId(n));
    const NodeUse want = uses.contains(NodeId(n)) ? uses.at(NodeId(n)) : NodeUse{};
    EXPECT_EQ(one.cores, want.cores);
    EXPECT_EQ(one.devices, want.devices);
    EXPECT_EQ(one.memory_mb, want.memory_mb);
    EXPECT_EQ(one.grants, want.grants);
  }

  const NodeFacts half = node_facts(*made.tables.node("n1"), uses.at(NodeId(1)));
  EXPECT_EQ(half.cores_used, 4u);
  EXPECT_EQ(half.devices, 4u);
  EXPECT_EQ(half.devices_used, 2u);
  EXPECT_EQ(half.busy, NodeBusy::kMixed);
  EXPECT_TRUE(half.usable);
  EXPECT_EQ(node_facts(*made.tables.node("n2"), uses.at(NodeId(2))).busy, NodeBusy::kFull);
  const NodeFacts idle = node_facts(*made.tables.node("n3"), {});
  EXPECT_EQ(idle.busy, NodeBusy::kIdle);
  EXPECT_FALSE(idle.usable);  // lost

  const ClusterFacts all = cluster_facts(made.tables);
  EXPECT_EQ(all.nodes, 3u);
  EXPECT_EQ(all.nodes_usable, 2u);
  EXPECT_EQ(all.nodes_busy, 2u);
  EXPECT_EQ(all.cores, 24u);
  EXPECT_EQ(all.cores_used, 12u);
  EXPECT_EQ(all.devices, 12u);
  EXPECT_EQ(all.devices_used, 4u);
  EXPECT_EQ(all.memory_mb, 48'000);
  EXPECT_EQ(all.memory_used_mb, 3000);
}

TEST(Summary, AWholeNodeWithoutCoresIsNotIdle) {
  TestTables made;
  NodeUse use;
  use.grants = 1;
  EXPECT_EQ(node_facts(*made.tables.node("n1"), use).busy, NodeBusy::kMixed);
}

TEST(Summary, JobsByState) {
  TestTables made;
  made.draft(1);
  made.save();
  made.draft(2).state = JobState::kRunning;
  made.save();
  made.draft(3).state = JobState::kFailed;
  made.save();
  auto array = std::make_shared<ArrayState>();
  array->asked = IntervalSet(0, 9'999'999);
  array->waiting = IntervalSet(1, 9'999'999);
  made.draft(4).array = array;
  made.save();
  Job& element = made.draft(5);
  element.array_job = JobId(4);
  element.state = JobState::kRunning;
  made.save();

  const StateCounts counts = count_jobs(made.tables);
  EXPECT_EQ(counts.of(JobState::kPending), 10'000'000u);
  EXPECT_EQ(counts.of(JobState::kRunning), 2u);
  EXPECT_EQ(counts.of(JobState::kFailed), 1u);
  EXPECT_EQ(counts.of(JobState::kCompleted), 0u);
  EXPECT_EQ(counts.total(), 10'000'003u);
  EXPECT_EQ(counts.unfinished(), 10'000'002u);
  EXPECT_EQ(count_jobs(Tables{}).total(), 0u);
}

}  // namespace
}  // namespace lockstep
