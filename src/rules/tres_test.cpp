// What grants count for: in all, and on the node that counts for most.
#include "rules/tres.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "model/spec.h"

namespace lockstep {
namespace {

Node node_with(std::uint32_t id, const std::vector<std::pair<const char*, std::uint32_t>>& types) {
  Node node;
  node.id = NodeId{id};
  node.cores = 16;
  node.memory_mb = 1000;
  for (const auto& [type, count] : types)
    for (std::uint32_t i = 0; i < count; ++i) node.devices.push_back({.type = type, .minor = i});
  node.devices.push_back({.kind = "nic", .type = "mlx", .minor = 0});
  return node;
}

Grant grant_of(const Node& node, std::uint32_t cores, std::uint32_t first, std::uint32_t devices) {
  Grant grant;
  grant.node = node.id;
  grant.cores = CoreSet::first_n(cores);
  grant.memory_mb = 10 * static_cast<std::int64_t>(cores);
  for (std::uint32_t d = first; d < first + devices; ++d) grant.devices.set(d);
  return grant;
}

TEST(Tres, GrantsAreCountedByKindAndType) {
  const Node a = node_with(1, {{"a100", 4}, {"h100", 2}}), b = node_with(2, {{"h100", 8}});
  std::vector<Grant> grants{grant_of(a, 4, 0, 7), grant_of(b, 2, 0, 3), grant_of(b, 3, 3, 1)};
  grants[2].counted = {{"bandwidth", 5}};
  grants[2].parts = {{.device = 5, .milli = 500}};
  grants[1].parts = {{.device = 6, .milli = 143, .mig = "1g.10gb"}};
  const std::vector<const Node*> nodes{&a, &b, &b};
  Partition partition;
  const Tres tres = tres_of({}, partition, grants, nodes);
  EXPECT_EQ(tres.cpu, 9);
  EXPECT_EQ(tres.memory_mb, 90);
  EXPECT_EQ(tres.nodes, 2);
  EXPECT_EQ(tres.gpus, 4 + 2 + 3 + 1 + 1);  // the slice is one
  EXPECT_EQ(tres.others, (std::vector<NamedCount>{{"gres/bandwidth", 5},
                                                  {"gres/gpu:1g.10gb", 1},
                                                  {"gres/gpu:a100", 4},
                                                  {"gres/gpu:h100", 6},
                                                  {"gres/mps", 50},
                                                  {"gres/nic", 1},
                                                  {"gres/nic:mlx", 1}}));
}

TEST(Tres, TheLargestNodeIsFoundAmountByAmount) {
  const Node a = node_with(1, {{"a100", 4}, {"h100", 2}}), b = node_with(2, {{"h100", 8}});
  // Two grants of b lie apart, and one of a between them.
  const std::vector<Grant> grants{grant_of(b, 2, 0, 3), grant_of(a, 6, 0, 6), grant_of(b, 3, 3, 2)};
  const Tres largest = largest_node_tres(grants, {&b, &a, &b});
  EXPECT_EQ(largest.cpu, 6);
  EXPECT_EQ(largest.memory_mb, 60);
  EXPECT_EQ(largest.gpus, 6) << "of all types on one node, not the most of each together";
  EXPECT_EQ(largest.nodes, 0);
  EXPECT_EQ(largest.others, (std::vector<NamedCount>{{"gres/gpu:a100", 4}, {"gres/gpu:h100", 5}}));
}

TEST(Tres, AWholeNodeCountsWithAllThatItHas) {
  Node node = node_with(1, {{"h100", 8}});
  node.devices[3].healthy = false;
  node.counted = {{"bandwidth", 7}};
  GroupSpec group;
  group.memory_per_core_mb = 2;
  EXPECT_FALSE(counts_its_nodes(group));
  group.sharing = Sharing::kExclusive;
  EXPECT_FALSE(counts_its_nodes(group));
  group.all_cores = true;
  ASSERT_TRUE(counts_its_nodes(group));
  const Tres least = least_on_node(node, group);
  EXPECT_EQ(least.cpu, 16);
  EXPECT_EQ(least.memory_mb, 32);
  EXPECT_EQ(least.gpus, 7);
  EXPECT_EQ(count_of(least, "gres/bandwidth"), 7);
  GroupSpec memory;
  memory.all_memory = true;
  ASSERT_TRUE(counts_its_nodes(memory));
  EXPECT_EQ(least_on_node(node, memory).memory_mb, 1000);
  EXPECT_EQ(least_on_node(node, memory).gpus, 0);
}

}  // namespace
}  // namespace lockstep
