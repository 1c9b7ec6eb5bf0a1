// What a group asks of the tree, where nodes lie, and what is refused with which words.
#include "rules/topology.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/text.h"
#include "model/spec.h"
#include "rules/fit.h"

namespace lockstep {
namespace {

const std::vector<std::string> kLevels = {"spine", "leaf"};

struct Ground {
  std::deque<Node> nodes;
  Partition partition;
  Ground() { partition.nodes = {"ALL"}; }
  void leaf(std::vector<std::string> path, int count, std::uint32_t cores = 4) {
    for (int i = 0; i < count; ++i) {
      Node node;
      node.id = NodeId(static_cast<std::uint32_t>(nodes.size() + 1));
      node.meta.name = format("n{}", nodes.size() + 1);
      node.cores = cores;
      node.memory_mb = 1000;
      node.link = NodeLink::kUp;
      node.domains = path;
      nodes.push_back(node);
    }
  }
  std::vector<const Node*> all() const {
    std::vector<const Node*> out;
    for (const Node& node : nodes) out.push_back(&node);
    return out;
  }
  std::vector<const Node*> these(std::initializer_list<int> numbers) const {
    std::vector<const Node*> out;
    for (const int n : numbers) out.push_back(&nodes[static_cast<std::size_t>(n - 1)]);
    return out;
  }
  std::string refusal(const GroupSpec& group) const {
    JobSpec spec;
    spec.groups = {group};
    const auto done = check_domains_possible(spec, partition, kLevels, all());
    return done.ok() ? "" : done.error().message;
  }
  bool allowed(const GroupSpec& group, std::initializer_list<int> numbers, bool over = false) const {
    JobSpec spec;
    spec.groups = {group};
    const auto nodes_used = these(numbers);
    std::vector<Grant> grants;
    for (const Node* node : nodes_used) {
      Grant grant;
      grant.node = node->id;
      grants.push_back(grant);
    }
    return check_domains(spec, partition, kLevels, grants, nodes_used, over).ok();
  }
};

GroupSpec gang(std::uint32_t nodes) {
  GroupSpec group;
  group.nodes = group.tasks = {nodes, nodes};
  group.per_task.cores = 1;
  return group;
}

// n1-n4 on s1, n5-n6 on s2, n7-n9 on s3 of another spine, n10 on none.
Ground two_spines() {
  Ground ground;
  ground.leaf({"a", "s1"}, 4);
  ground.leaf({"a", "s2"}, 2);
  ground.leaf({"b", "s3"}, 3);
  ground.leaf({}, 1);
  return ground;
}

TEST(Topology, tells_where_nodes_lie) {
  const Ground g = two_spines();
  EXPECT_EQ(depth_reached(g.these({1, 4})), 2u);
  EXPECT_EQ(depth_reached(g.these({1, 5})), 1u);
  EXPECT_EQ(depth_reached(g.these({1, 7})), 0u);
  EXPECT_EQ(depth_reached(g.these({1, 10})), 0u);
  EXPECT_EQ(leaves_of(g.these({1, 4, 5, 7})), 3u);
  EXPECT_EQ(leaves_of(g.these({1, 10})), 2u);
  EXPECT_EQ(best_depth(g.all(), 4), 2u);
  EXPECT_EQ(best_depth(g.all(), 6), 1u);
  EXPECT_EQ(best_depth(g.all(), 7), 0u);
  EXPECT_EQ(level_word(2, 4, kLevels), "leaf");
  EXPECT_EQ(level_word(2, 1, kLevels), "node");
  EXPECT_EQ(level_word(0, 4, kLevels), "cluster");
}

TEST(Topology, orders_ranks_along_the_tree) {
  Node a, b;
  a.meta.name = "n2", b.meta.name = "n10";
  EXPECT_TRUE(before_on_tree(a, b));
  a.domains = {"x", "s10"}, b.domains = {"x", "s9"};
  EXPECT_TRUE(before_on_tree(b, a));
  b.domains = {};
  EXPECT_TRUE(before_on_tree(a, b));
}

TEST(Topology, a_level_that_must_hold_the_group) {
  const Ground g = two_spines();
  GroupSpec group = gang(2);
  group.topology_level = "!leaf";
  EXPECT_TRUE(g.allowed(group, {1, 3}));
  EXPECT_FALSE(g.allowed(group, {4, 5}));
  group.topology_level = "leaf";
  EXPECT_TRUE(g.allowed(group, {4, 7}));
  group.topology_level = "!rack";
  EXPECT_FALSE(g.allowed(group, {1, 2}));
}

TEST(Topology, switches_count_until_their_time_is_over) {
  const Ground g = two_spines();
  GroupSpec group = gang(4);
  group.switches_max = 2;
  EXPECT_TRUE(g.allowed(group, {3, 4, 5, 6}));
  EXPECT_FALSE(g.allowed(group, {3, 4, 5, 7}));
  EXPECT_TRUE(g.allowed(group, {3, 4, 5, 7}, true));
  JobSpec spec;
  spec.groups = {group};
  EXPECT_EQ(switches_end(spec, Instant{5}), Instant{5});
  spec.groups[0].switches_wait = kForever;
  EXPECT_EQ(switches_end(spec, Instant{5}), kNever);
  EXPECT_EQ(without_switches(spec)->groups[0].switches_max, 0u);
}

TEST(Topology, segments_are_whole_on_every_leaf) {
  Ground g = two_spines();
  GroupSpec group = gang(4);
  group.segment = 2;
  EXPECT_TRUE(g.allowed(group, {1, 2, 7, 8}));
  EXPECT_FALSE(g.allowed(group, {1, 2, 3, 7}));
  group.segment = 0;
  g.partition.segment = 2;
  EXPECT_FALSE(g.allowed(group, {1, 2, 3, 7}));
  EXPECT_TRUE(g.allowed(gang(3), {1, 5, 7}));  // the partition's default is for what it divides
}

TEST(Topology, says_what_would_be_possible) {
  const Ground g = two_spines();
  EXPECT_EQ(g.refusal(gang(10)), "");
  GroupSpec group = gang(5);
  group.topology_level = "!leaf";
  EXPECT_EQ(g.refusal(group), "asks for 5 nodes under one leaf; the largest leaf, s1, has 4");
  group.topology_level = "!spine";
  EXPECT_EQ(g.refusal(group), "");
  group.topology_level = "!rack";
  EXPECT_EQ(g.refusal(group), "there is no level rack; the levels are spine, leaf");
  group.topology_level.clear();
  group.switches_max = 1;
  EXPECT_EQ(g.refusal(group), "");  // any place will do at once
  group.switches_wait = kForever;
  EXPECT_EQ(g.refusal(group),
            "asks for 5 nodes on at most 1 leaf; the largest, s1, has 4 nodes that it may use; with a time after which "
            "any place will do it would start then");
  group = gang(8);
  group.switches_max = 2;
  group.switches_wait = kForever;
  EXPECT_NE(g.refusal(group).find("asks for 8 nodes on at most 2 leaves; the largest, s1 and s3, have 7 nodes"),
            std::string::npos);
  group = gang(9);
  group.segment = 3;
  EXPECT_EQ(g.refusal(group),
            "asks for 9 nodes in segments of 3 within one leaf; the leaves have room for 6 in such segments");
  group.segment = 2;
  EXPECT_EQ(g.refusal(group), "9 nodes are no multiple of segments of 2 nodes");
  group.nodes = {};
  EXPECT_EQ(g.refusal(group), "segments of 2 nodes need a fixed number of nodes");
}

TEST(Topology, counts_tasks_where_nodes_are_not_counted) {
  const Ground g = two_spines();
  GroupSpec group;
  group.tasks = {17, 17};
  group.per_task.cores = 1;
  group.topology_level = "!leaf";
  EXPECT_EQ(g.refusal(group), "asks for 17 tasks under one leaf; the largest leaf, s1, has 4 nodes with room for 16");
}

// A job of one GPU goes beside the others of a broken island; whole islands stay whole for those who need them.
TEST(Topology, islands_that_are_broken_are_used_up_first) {
  Node node;
  node.id = NodeId(1);
  node.cores = 16;
  node.memory_mb = 1000;
  for (std::int32_t d = 0; d < 8; ++d) node.devices.push_back({.type = "h100", .island = d / 4});
  const auto take_one = [&](NodeLoad& load, std::uint32_t devices) {
    GroupSpec group = gang(1);
    group.per_node.devices = {{.count = devices}};
    auto grant = choose_grant(node, load, group, 0, 1, 0);
    EXPECT_TRUE(grant.has_value());
    add_grant(load, *grant);
    return grant->devices;
  };
  NodeLoad load;
  EXPECT_EQ(take_one(load, 2).lowest(1).test(0), true);
  DeviceSet second = take_one(load, 1);
  EXPECT_TRUE(second.test(2));
  DeviceSet four;
  for (std::uint32_t d = 4; d < 8; ++d) four.set(d);
  EXPECT_EQ(take_one(load, 4), four);
  EXPECT_TRUE(take_one(load, 1).test(3));
}

}  // namespace
}  // namespace lockstep
