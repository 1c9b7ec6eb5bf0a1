// Parts of devices: shares, MIG slices by NVIDIA's placement rules, counted resources, and cores near devices.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "model/spec.h"
#include "rules/fit.h"
#include "rules/mig.h"
#include "rules/need.h"

namespace lockstep {
namespace {

Node node(const std::string& type, std::uint32_t gpus, std::int64_t memory_mb, bool mig = false) {
  Node n;
  n.id = NodeId(1);
  n.meta.name = "n1";
  n.sockets = 2;
  n.cores = 32;
  n.memory_mb = 256'000;
  n.link = NodeLink::kUp;
  for (std::uint32_t i = 0; i < gpus; ++i)
    n.devices.push_back({.type = type,
                         .minor = i,
                         .memory_mb = memory_mb,
                         .numa = static_cast<std::int32_t>(i * 2 / gpus),
                         .mig = mig});
  return n;
}

GroupSpec one_task(const DeviceAsk& ask) {
  GroupSpec g;
  g.per_task.cores = 1;
  g.per_task.devices = {ask};
  return g;
}

std::optional<Grant> hold(const Node& n, NodeLoad& load, const GroupSpec& g, std::uint32_t tasks = 1) {
  auto grant = choose_grant(n, load, g, 0, tasks, 0);
  if (grant) {
    EXPECT_TRUE(take(load, n, *grant).ok());
  }
  return grant;
}

TEST(Parts, SharesFillTheTightestDevice) {
  const Node n = node("a100", 2, 80'000);
  NodeLoad load;
  const auto a = hold(n, load, one_task({"gpu", "", 1, 600}));
  const auto b = hold(n, load, one_task({"gpu", "", 1, 500}));
  const auto c = hold(n, load, one_task({"gpu", "", 1, 400}));
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(a->parts[0].device, 0);
  EXPECT_EQ(b->parts[0].device, 1);
  EXPECT_EQ(c->parts[0].device, 0);
  EXPECT_EQ(a->parts[0].memory_mb, 48'000);
  EXPECT_FALSE(a->devices.any());
  EXPECT_FALSE(hold(n, load, one_task({"gpu", "", 1, 501})));
  EXPECT_FALSE(hold(n, load, one_task({"gpu", "", 1})));  // no whole one is left
  give_back(load, *b);
  EXPECT_TRUE(hold(n, load, one_task({"gpu", "", 1})));
}

TEST(Parts, MemoryOfASharedDeviceIsCountedOnItsOwn) {
  const Node n = node("a100", 1, 80'000);
  NodeLoad load;
  ASSERT_TRUE(hold(n, load, one_task({"gpu", "", 1, 200, 70'000})));
  EXPECT_FALSE(hold(n, load, one_task({"gpu", "", 1, 200, 10'001})));
  EXPECT_TRUE(hold(n, load, one_task({"gpu", "", 1, 200, 10'000})));
}

TEST(Parts, TasksThatFitCountsShares) {
  const Node n = node("a100", 2, 80'000);
  GroupSpec g = one_task({"gpu", "", 1, 300});
  g.tasks = {100, 100};
  EXPECT_EQ(tasks_that_fit(n, {}, g), 6u);  // three on each
}

TEST(Parts, TakeRefusesWhatOverlaps) {
  const Node n = node("a100", 2, 80'000);
  NodeLoad load;
  Grant grant{.node = n.id, .tasks = 1, .parts = {{.device = 0, .milli = 700, .memory_mb = 1}}};
  ASSERT_TRUE(take(load, n, grant).ok());
  EXPECT_FALSE(take(load, n, grant).ok());
  Grant whole{.node = n.id, .tasks = 1};
  whole.devices.set(0);
  EXPECT_FALSE(take(load, n, whole).ok());
  grant.parts = {{.device = 1, .milli = 600}, {.device = 1, .milli = 600}};
  EXPECT_FALSE(take(load, n, grant).ok());
  grant.parts = {{.device = 9, .milli = 1}};
  EXPECT_FALSE(take(load, n, grant).ok());
  grant.parts = {{.device = 1, .mig = "1g.10gb"}};
  EXPECT_FALSE(take(load, n, grant).ok());  // not in MIG mode
}

TEST(Mig, SevenSmallSlicesAndNoEighth) {
  const Node n = node("h100", 1, 81'559, true);
  NodeLoad load;
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(hold(n, load, one_task({.count = 1, .mig = "1g.10gb"}))) << i;
  EXPECT_FALSE(hold(n, load, one_task({.count = 1, .mig = "1g.10gb"})));
}

TEST(Mig, SmallSlicesLeaveRoomForALargeOne) {
  const Node n = node("h100", 1, 81'559, true);
  NodeLoad load;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(hold(n, load, one_task({.count = 1, .mig = "1g.10gb"})));
  const auto large = hold(n, load, one_task({.count = 1, .mig = "4g.40gb"}));
  ASSERT_TRUE(large);
  EXPECT_EQ(large->parts[0].slice, 0);
  EXPECT_FALSE(hold(n, load, one_task({.count = 1, .mig = "1g.10gb"})));  // computing slices are used up
}

TEST(Mig, TwoHalves) {
  const Node n = node("a100", 1, 40'960, true);
  NodeLoad load;
  EXPECT_TRUE(hold(n, load, one_task({.count = 1, .mig = "3g.20gb"})));
  EXPECT_TRUE(hold(n, load, one_task({.count = 1, .mig = "3g.20gb"})));
  EXPECT_FALSE(hold(n, load, one_task({.count = 1, .mig = "1g.5gb"})));  // no memory slice is left
}

TEST(Mig, ProfilesAreThoseOfTheModel) {
  EXPECT_TRUE(mig_profile({.type = "h200", .memory_mb = 143'771}, "1g.18gb"));
  EXPECT_FALSE(mig_profile({.type = "h200", .memory_mb = 143'771}, "1g.10gb"));
  EXPECT_TRUE(mig_profile({.type = "b200", .memory_mb = 183'359}, "7g.180gb"));
  EXPECT_TRUE(mig_profile({.type = "nvidia_a100-sxm4-80gb", .memory_mb = 81'920}, "2g.20gb"));
  EXPECT_TRUE(mig_profiles({.type = "v100", .memory_mb = 32'000}).empty());
}

TEST(Mig, ADeviceInMigModeIsNotGivenWhole) {
  const Node n = node("h100", 2, 81'559, true);
  EXPECT_EQ(tasks_that_fit(n, {}, one_task({"gpu", "", 1})), 0u);
  EXPECT_EQ(tasks_that_fit(n, {}, one_task({"gpu", "", 1, 500})), 0u);
  EXPECT_EQ(tasks_that_fit(n, {}, one_task({.count = 1, .mig = "7g.80gb"})), 1u);
}

// Whatever is held in whatever order, every slice lies where NVIDIA allows it and none overlap; giving all back leaves
// nothing.
TEST(Mig, RandomSlicesNeverOverlap) {
  Rng rng(7);
  const Node n = node("a100", 3, 81'920, true);
  const std::vector<std::string> names = {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"};
  NodeLoad load;
  std::vector<Grant> held;
  for (int step = 0; step < 20'000; ++step) {
    if (!held.empty() && rng.below(5) < 2) {
      const std::size_t at = rng.below(held.size());
      give_back(load, held[at]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (auto grant = hold(n, load, one_task({.count = 1, .mig = names[rng.below(names.size())]}))) {
      held.push_back(*grant);
    }
    for (std::uint16_t d = 0; d < 3; ++d) {
      std::uint32_t memory = 0, compute = 0;
      for (const DevicePart& part : load.parts)
        if (part.device == d) {
          const MigProfile* profile = mig_profile(n.devices[d], part.mig);
          ASSERT_EQ(memory & profile->mask(part.slice), 0u);
          memory |= profile->mask(part.slice);
          compute += profile->compute;
        }
      ASSERT_LE(memory, 0xffu);
      ASSERT_LE(compute, 7u);
    }
  }
  for (const Grant& grant : held) give_back(load, grant);
  EXPECT_EQ(load, NodeLoad{});
}

TEST(Counted, AreTakenAndReturned) {
  Node n = node("a100", 0, 0);
  n.counted = {{"disk", 1000}, {"fpga", 2}};
  GroupSpec g;
  g.per_task.cores = 1;
  g.per_task.counted = {{"fpga", 1}};
  g.per_node.counted = {{"disk", 600}};
  g.tasks = {5, 5};
  EXPECT_EQ(tasks_that_fit(n, {}, g), 2u);
  NodeLoad load;
  const auto grant = hold(n, load, g, 1);
  ASSERT_TRUE(grant);
  EXPECT_EQ(tasks_that_fit(n, load, g), 0u);  // disk
  give_back(load, *grant);
  EXPECT_EQ(load, NodeLoad{});
}

TEST(Near, CoresAndNicsComeFromTheNumaNodeOfTheGpus) {
  Node n = node("h100", 8, 81'559);
  for (int i = 0; i < 4; ++i) n.devices.push_back({.kind = "nic", .type = "cx7", .numa = i / 2});
  NodeLoad load;
  load.devices = DeviceSet::first_n(4);  // what is left lies on NUMA node 1
  load.occupants = 1;
  GroupSpec g = one_task({"gpu", "", 2});
  g.per_task.cores = 4;
  g.per_task.devices.insert(g.per_task.devices.begin(), {"nic", "", 1});
  const auto grant = hold(n, load, g);
  ASSERT_TRUE(grant);
  grant->cores.for_each([](std::uint32_t core) { EXPECT_GE(core, 16u); });
  EXPECT_TRUE(grant->devices.test(10));  // the first NIC of NUMA node 1
  EXPECT_EQ(grant->devices.count(), 3u);
}

TEST(Parts, ImpossibleOnesAreRefusedWithTheReason) {
  const Node plain = node("a100", 2, 81'920);
  Partition p;
  p.meta.name = "main";
  p.nodes = {"ALL"};
  JobSpec spec;
  spec.groups = {one_task({.count = 1, .mig = "1g.10gb"})};
  const auto refused = check_possible(spec, p, {&plain});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("MIG mode"), std::string::npos);
  spec.groups = {one_task({"gpu", "", 1, 500})};
  EXPECT_TRUE(check_possible(spec, p, {&plain}).ok());
  spec.groups[0].per_node.counted = {{"fpga", 1}};
  const auto lacking = check_possible(spec, p, {&plain});
  ASSERT_FALSE(lacking.ok());
  EXPECT_EQ(lacking.error().message, "asks for 1 fpga on one node; the most any node has is 0");
}

}  // namespace
}  // namespace lockstep
