#include "rules/fit.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "model/bounds.h"
#include "model/spec.h"

namespace lockstep {
namespace {

Node node(std::uint32_t id, std::uint32_t cores = 16, std::uint32_t gpus = 8, std::int64_t memory_mb = 64'000) {
  Node n;
  n.id = NodeId(id);
  n.meta.name = "n" + std::to_string(id);
  n.cores = cores;
  n.memory_mb = memory_mb;
  n.link = NodeLink::kUp;
  for (std::uint32_t i = 0; i < gpus; ++i) {
    Device d;
    d.type = "h100";
    d.minor = i;
    d.island = static_cast<std::int32_t>(i / 4);
    n.devices.push_back(d);
  }
  return n;
}

Partition everything() {
  Partition p;
  p.meta.name = "main";
  p.nodes = {"ALL"};
  return p;
}

GroupSpec group(std::uint32_t tasks, std::uint32_t cores = 1) {
  GroupSpec g;
  g.tasks = {tasks, tasks};
  g.per_task.cores = cores;
  return g;
}

TEST(Fit, CountsTasksByTheScarcestResource) {
  const Node n = node(1);
  NodeLoad load;
  EXPECT_EQ(tasks_that_fit(n, load, group(100)), 16u);
  GroupSpec g = group(100, 2);
  EXPECT_EQ(tasks_that_fit(n, load, g), 8u);
  g.per_task.devices = {{"gpu", "", 3}};
  EXPECT_EQ(tasks_that_fit(n, load, g), 2u);
  g.per_task.memory_mb = 40'000;
  EXPECT_EQ(tasks_that_fit(n, load, g), 1u);
  g.per_task.devices = {{"gpu", "a100", 1}};
  EXPECT_EQ(tasks_that_fit(n, load, g), 0u);
  g = group(100);
  g.overcommit = true;
  EXPECT_EQ(tasks_that_fit(n, load, g), 100u);
  g = group(100);
  g.tasks_per_node = 4;
  EXPECT_EQ(tasks_that_fit(n, load, g), 4u);
  g.tasks_per_node_exact = true;
  g.tasks_per_node = 20;
  EXPECT_EQ(tasks_that_fit(n, load, g), 0u);
}

// What a node is asked to count task by task is bounded, and sums of what is asked for do not wrap around.
TEST(Fit, ANodeTakesNoMoreThanItsMost) {
  GroupSpec g = group(200'000);
  g.overcommit = true;
  EXPECT_EQ(tasks_that_fit(node(1), {}, g), kTasksPerNodeMax);
  g.per_task.devices = {{"gpu", "", 1u << 20}};  // times 4096 is 0 in 32 bits
  EXPECT_EQ(tasks_that_fit(node(1), {}, g), 0u);
  EXPECT_FALSE(choose_grant(node(1), {}, g, 0, 4096, 0));
}

TEST(Fit, TasksWithAddressesHaveSoManySeats) {
  GroupSpec g = group(kTasksPerNodeMax);
  g.overcommit = true;
  EXPECT_EQ(seats_left({}, g), UINT32_MAX) << "it needs no address";
  g.sandbox.network = TaskNetwork::kOwn;
  EXPECT_EQ(tasks_that_fit(node(1), {}, g), kAddressedMax);
  NodeLoad load;
  load.occupants = kAddressedMax - 2;
  EXPECT_EQ(seats_left(load, g), 2u);
  EXPECT_EQ(tasks_that_fit(node(1), load, g), 2u);
  EXPECT_TRUE(choose_grant(node(1), load, g, 0, 2, 0));
  EXPECT_FALSE(choose_grant(node(1), load, g, 0, 3, 0));
  load.occupants = 0;
  add_grant(load, *choose_grant(node(1), load, g, 0, kAddressedMax - 2, 0));
  EXPECT_EQ(load.occupants, 1u);
  EXPECT_EQ(seats_left(load, g), 2u) << "each task has an address";
  give_back(load, *choose_grant(node(1), {}, g, 0, kAddressedMax - 2, 0));
  EXPECT_EQ(load, NodeLoad());
  load.occupants = kAddressedMax + 5;  // jobs without addresses
  EXPECT_EQ(seats_left(load, g), 0u);
  EXPECT_EQ(tasks_that_fit(node(1), load, g), 0u);
  g.sandbox.network = TaskNetwork::kHost;
  EXPECT_GT(tasks_that_fit(node(1), load, g), 0u);
}

TEST(Fit, EligibleForManyNodesIsEligibleForEach) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    const auto some = [&](std::uint64_t most) {
      std::vector<std::string> names;
      for (std::uint64_t n = rng.below(most); n > 0; --n) names.push_back("n" + std::to_string(rng.below(60)));
      return names;
    };
    Partition partition = everything();
    if (rng.chance(0.5))
      partition.nodes = some(60);
    GroupSpec g = group(1);
    g.only_nodes = some(40);
    g.exclude_nodes = some(40);
    g.nodes = {0, static_cast<std::uint32_t>(rng.below(40))};
    const Eligible all(partition, g);
    for (std::uint32_t i = 0; i < 60; ++i)
      EXPECT_EQ(all(node(i)), eligible(node(i), partition, g)) << round << " " << i;
  }
}

TEST(Fit, UnhealthyDevicesAreNotOffered) {
  Node n = node(1);
  n.devices[0].healthy = false;
  GroupSpec g = group(1);
  g.per_node.devices = {{"gpu", "h100", 8}};
  EXPECT_EQ(tasks_that_fit(n, {}, g), 0u);
  g.per_node.devices = {{"gpu", "h100", 7}};
  EXPECT_EQ(tasks_that_fit(n, {}, g), 1u);
}

TEST(Fit, DevicesStayWithinAnIslandWherePossible) {
  const Node n = node(1);
  NodeLoad load;
  load.devices.set(0);  // island 0 has 3 left, island 1 has 4
  GroupSpec g = group(1);
  g.per_node.devices = {{"gpu", "", 3}};
  auto grant = choose_grant(n, load, g, 0, 1, 0);
  ASSERT_TRUE(grant);
  EXPECT_TRUE(grant->devices.test(1) && grant->devices.test(2) && grant->devices.test(3)) << "the tighter island";
  g.per_node.devices = {{"gpu", "", 4}};
  grant = choose_grant(n, load, g, 0, 1, 0);
  ASSERT_TRUE(grant);
  EXPECT_TRUE(grant->devices.test(4) && grant->devices.test(7));
  g.per_node.devices = {{"gpu", "", 8}};
  EXPECT_FALSE(choose_grant(n, load, g, 0, 1, 0));
}

TEST(Fit, ExclusiveNeedsAnEmptyNodeAndKeepsItAlone) {
  const Node n = node(1);
  NodeLoad load;
  const auto first = choose_grant(n, load, group(1), 0, 1, 0);
  ASSERT_TRUE(first);
  ASSERT_TRUE(take(load, n, *first));
  GroupSpec alone = group(1);
  alone.sharing = Sharing::kExclusive;
  EXPECT_FALSE(choose_grant(n, load, alone, 0, 1, 0));
  give_back(load, *first);
  EXPECT_EQ(load, NodeLoad{});
  alone.all_cores = true;
  const auto whole = choose_grant(n, load, alone, 0, 1, 0);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->cores.count(), 16u);
  ASSERT_TRUE(take(load, n, *whole));
  EXPECT_EQ(tasks_that_fit(n, load, group(1)), 0u);
}

TEST(Fit, TakeRefusesWhatIsHeld) {
  const Node n = node(1);
  NodeLoad load;
  Grant grant;
  grant.node = n.id;
  grant.cores.set(3);
  grant.devices.set(2);
  grant.memory_mb = 60'000;
  ASSERT_TRUE(take(load, n, grant));
  const NodeLoad before = load;
  Grant other;
  other.cores.set(3);
  EXPECT_FALSE(take(load, n, other));
  other = {};
  other.devices.set(2);
  EXPECT_FALSE(take(load, n, other));
  other = {};
  other.memory_mb = 5'000;
  EXPECT_FALSE(take(load, n, other));
  other = {};
  other.cores.set(16);
  EXPECT_FALSE(take(load, n, other)) << "a core the node does not have";
  other = {};
  other.devices.set(8);
  EXPECT_FALSE(take(load, n, other));
  EXPECT_EQ(load, before);
}

TEST(Constraint, Expressions) {
  const std::vector<std::string> has = {"a", "gpu=P100", "c"};
  for (const char* yes : {"a", "a&c", "a|x", "x|a", "[x|a]", "a&(x|c)", "gpu=P100", "a*4&c", "x&y|a", "a,c"})
    EXPECT_TRUE(constraint_holds(yes, has)) << yes;
  for (const char* no : {"x", "a&x", "x|y", "(a|c)&x", "A"}) EXPECT_FALSE(constraint_holds(no, has)) << no;
  for (const char* bad : {"&", "a&", "(a", "a)", "[a|b", "a*", "a||b", "a b)"})
    EXPECT_FALSE(check_constraint(bad)) << bad;
  EXPECT_FALSE(check_constraint(std::string(100'000, '('))) << "deep nesting is refused, not recursed into";
}

std::vector<Candidate> candidates(const std::vector<Node>& nodes, const std::vector<NodeLoad>& loads) {
  std::vector<Candidate> out;
  for (std::size_t i = 0; i < nodes.size(); ++i) out.push_back({&nodes[i], &loads[i]});
  return out;
}

TEST(Place, FourNodesOfEightGpus) {
  std::vector<Node> nodes;
  for (std::uint32_t i = 5; i >= 1; --i) nodes.push_back(node(i));
  const std::vector<NodeLoad> loads(5);
  GroupSpec g = group(4);
  g.nodes = {4, 4};
  g.tasks_per_node = 1;
  g.per_node.devices = {{"gpu", "", 8}};
  const auto grants = place_group(candidates(nodes, loads), g, 0);
  ASSERT_TRUE(grants);
  ASSERT_EQ(grants->size(), 4u);
  std::vector<std::uint32_t> ids;
  for (const Grant& grant : *grants) {
    ids.push_back(grant.node.value);
    EXPECT_EQ(grant.tasks, 1u);
    EXPECT_EQ(grant.devices.count(), 8u);
  }
  EXPECT_EQ(ids, (std::vector<std::uint32_t>{2, 3, 4, 5})) << "the preferred nodes, in host order";
  g.nodes = {6, 6};
  g.tasks = {6, 6};
  EXPECT_FALSE(place_group(candidates(nodes, loads), g, 0));
}

TEST(Place, OneNodeWhenOneIsEnough) {
  const std::vector<Node> nodes = {node(1, 4), node(2, 16)};
  const std::vector<NodeLoad> loads(2);
  auto grants = place_group(candidates(nodes, loads), group(8), 0);
  ASSERT_TRUE(grants);
  ASSERT_EQ(grants->size(), 1u);
  EXPECT_EQ(grants->front().node, NodeId(2));
  grants = place_group(candidates(nodes, loads), group(20), 0);
  ASSERT_TRUE(grants);
  EXPECT_EQ(grants->size(), 2u);
  EXPECT_FALSE(place_group(candidates(nodes, loads), group(21), 0)) << "all or nothing";
}

TEST(Place, DevicesPerJobAreSpreadOverItsNodes) {
  const std::vector<Node> nodes = {node(1), node(2)};
  const std::vector<NodeLoad> loads(2);
  GroupSpec g = group(1);
  g.per_job = {{"gpu", "h100", 4}};
  auto grants = place_group(candidates(nodes, loads), g, 0);
  ASSERT_TRUE(grants);
  EXPECT_EQ(grants->front().devices.count(), 4u);
  g = group(2);
  g.nodes = {2, 2};
  g.per_job = {{"gpu", "", 12}};
  grants = place_group(candidates(nodes, loads), g, 0);
  ASSERT_TRUE(grants);
  EXPECT_EQ((*grants)[0].devices.count() + (*grants)[1].devices.count(), 12u);
}

// As Slurm places them: tasks are where the GPUs of the job are, and GPUs where their cores are.
TEST(Place, TasksFollowTheDevicesOfTheJob) {
  const std::vector<Node> nodes = {node(1, 32), node(2, 32)};
  const std::vector<NodeLoad> loads(2);
  const auto placed = [&](GroupSpec g, std::uint32_t gpus) {
    g.per_job = {{"gpu", "", gpus}};
    std::string out;
    if (const auto grants = place_group(candidates(nodes, loads), g, 0))
      for (const Grant& grant : *grants)
        out += (out.empty() ? "" : " ") + std::to_string(grant.tasks) + "/" + std::to_string(grant.devices.count());
    return out;
  };
  GroupSpec two = group(4);
  two.nodes = {2, 2};
  EXPECT_EQ(placed(two, 4), "3/3 1/1");
  EXPECT_EQ(placed(group(4), 12), "3/8 1/4");
  EXPECT_EQ(placed(group(2), 12), "1/8 1/4");
  EXPECT_EQ(placed(group(12), 12), "8/8 4/4");
  EXPECT_EQ(placed(group(24), 12), "12/6 12/6") << "two for each";
  GroupSpec each = two;
  each.tasks = {8, 8};
  each.tasks_per_node = 4;
  each.tasks_per_node_exact = true;
  EXPECT_EQ(placed(each, 8), "4/4 4/4") << "so many tasks on each node have as many GPUs";
  GroupSpec cores = group(2);
  cores.per_task.cores = 0;
  cores.cores_per_device = 12;
  EXPECT_EQ(placed(cores, 4), "1/2 1/2");
}

TEST(Place, NamedNodesAreAllThere) {
  const std::vector<Node> nodes = {node(1), node(2), node(3)};
  const std::vector<NodeLoad> loads(3);
  GroupSpec g = group(2);
  g.nodes = {2, 2};
  g.only_nodes = {"n3"};
  const auto grants = place_group(candidates(nodes, loads), g, 0);
  ASSERT_TRUE(grants);
  EXPECT_EQ((*grants)[1].node, NodeId(3));
  g.only_nodes = {"n9"};
  EXPECT_FALSE(place_group(candidates(nodes, loads), g, 0));
}

TEST(Possible, SaysWhatTheLargestNodeOffers) {
  const Node a = node(1, 16, 8), b = node(2, 32, 4);
  JobSpec spec;
  spec.groups = {group(1)};
  spec.groups[0].per_node.devices = {{"gpu", "h100", 16}};
  auto answer = check_possible(spec, everything(), {&a, &b});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::kImpossible);
  EXPECT_NE(answer.error().message.find("16 h100 GPUs"), std::string::npos) << answer.error().message;
  EXPECT_NE(answer.error().message.find("n1 has 16 cores, 64000 MB of memory, 8 h100 GPUs"), std::string::npos)
      << answer.error().message;
  spec.groups = {group(1, 64)};
  answer = check_possible(spec, everything(), {&a, &b});
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("64 cores"), std::string::npos) << answer.error().message;
  spec.groups = {group(3)};
  spec.groups[0].nodes = {3, 3};
  EXPECT_FALSE(check_possible(spec, everything(), {&a, &b}));
  spec.groups = {group(1), group(1)};  // two components that each want both nodes whole
  for (GroupSpec& g : spec.groups) {
    g.nodes = {2, 2};
    g.tasks = {2, 2};
    g.sharing = Sharing::kExclusive;
  }
  EXPECT_FALSE(check_possible(spec, everything(), {&a, &b}));
}

// Whatever is placed passes every check, and giving it all back leaves nothing.
TEST(Place, RandomClustersAndGroups) {
  Rng rng(7);
  int placed = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Node> nodes;
    std::vector<NodeLoad> loads(1 + rng.below(6));
    for (std::uint32_t i = 0; i < loads.size(); ++i)
      nodes.push_back(node(i + 1, static_cast<std::uint32_t>(1 + rng.below(16)),
                           static_cast<std::uint32_t>(rng.below(9)),
                           static_cast<std::int64_t>(1000 + rng.below(9000))));
    std::vector<std::pair<std::size_t, Grant>> held;
    for (int job = 0; job < 8; ++job) {
      GroupSpec g = group(static_cast<std::uint32_t>(1 + rng.below(6)), static_cast<std::uint32_t>(rng.below(4)));
      if (rng.chance(0.3))
        g.nodes.min = g.nodes.max = static_cast<std::uint32_t>(1 + rng.below(3));
      if (g.nodes.max > g.tasks.max)
        g.tasks = {g.nodes.max, g.nodes.max};
      if (rng.chance(0.3))
        g.tasks.min = 1;
      if (rng.chance(0.3))
        g.per_node.devices = {{"gpu", "", static_cast<std::uint32_t>(rng.below(5))}};
      if (rng.chance(0.3))
        g.per_task.devices = {{"gpu", "h100", static_cast<std::uint32_t>(rng.below(3))}};
      if (rng.chance(0.2))
        g.per_job = {{"gpu", "", static_cast<std::uint32_t>(1 + rng.below(6))}};
      if (rng.chance(0.2))
        g.sharing = Sharing::kExclusive;
      if (rng.chance(0.3))
        g.per_task.memory_mb = static_cast<std::int64_t>(rng.below(3000));
      if (rng.chance(0.2))
        g.tasks_per_node = static_cast<std::uint32_t>(1 + rng.below(3));
      if (rng.chance(0.1))
        g.overcommit = true;
      const auto grants = place_group(candidates(nodes, loads), g, 0);
      if (!grants)
        continue;
      ++placed;
      JobSpec spec;
      spec.groups = {g};
      std::vector<const Node*> used;
      for (const Grant& grant : *grants) used.push_back(&nodes[grant.node.value - 1]);
      const auto checked = check_allocation(spec, everything(), *grants, used);
      ASSERT_TRUE(checked) << checked.error().message << " in round " << round;
      for (const Grant& grant : *grants) {
        const std::size_t i = grant.node.value - 1;
        const auto taken = take(loads[i], nodes[i], grant);
        ASSERT_TRUE(taken) << taken.error().message;
        held.push_back({i, grant});
      }
    }
    for (const auto& [i, grant] : held) give_back(loads[i], grant);
    for (const NodeLoad& load : loads) ASSERT_EQ(load, NodeLoad{});
  }
  EXPECT_GT(placed, 3000);
}

}  // namespace
}  // namespace lockstep
