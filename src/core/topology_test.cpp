// The record of the topology, what it says of nodes, and that starts and submissions obey it.
#include "core/testing.h"

namespace lockstep {
namespace {

Topology two_leaves() {
  Topology t;
  t.levels = {"spine", "leaf"};
  t.leaves = {{{"top", "s1"}, {"n2", "n1"}}, {{"top", "s2"}, {"n3", "n4", "n9"}}};
  return t;
}

JobSpec gang(std::uint32_t nodes) {
  JobSpec spec = World::batch(nodes, 1);
  spec.groups[0].nodes = spec.groups[0].tasks = {nodes, nodes};
  return spec;
}

// The start, but on these nodes.
PlannedStart on(const World& w, PlannedStart start, std::initializer_list<std::uint32_t> nodes) {
  std::size_t i = 0;
  for (const std::uint32_t n : nodes) start.grants[i++].node = w.id(n);
  return start;
}

TEST(Topology, NodesGetTheirPathWhicheverComesFirst) {
  World w(3);
  w.must(PutTopology{two_leaves()});
  EXPECT_EQ(w.node(1).domains, (std::vector<std::string>{"top", "s1"}));
  EXPECT_EQ(w.node(3).domains, (std::vector<std::string>{"top", "s2"}));
  w.hello(4);
  EXPECT_EQ(w.node(4).domains, (std::vector<std::string>{"top", "s2"}));
  Topology less = two_leaves();
  less.leaves.pop_back();
  w.must(PutTopology{less});
  EXPECT_TRUE(w.node(3).domains.empty());
  w.must(PutTopology{});
  EXPECT_TRUE(w.node(1).domains.empty());
  EXPECT_EQ(w.state.tables().topology, nullptr);
}

TEST(Topology, WhatMakesNoTreeIsRefused) {
  World w(2);
  const auto refused = [&](auto change) {
    Topology t = two_leaves();
    change(t);
    return w.refused(PutTopology{t});
  };
  EXPECT_EQ(refused([](Topology& t) { t.levels.clear(); }), Errc::kInvalid);
  EXPECT_EQ(refused([](Topology& t) { t.levels = {"leaf", "leaf"}; }), Errc::kInvalid);
  EXPECT_EQ(refused([](Topology& t) { t.levels = {"node", "leaf"}; }), Errc::kInvalid);
  EXPECT_EQ(refused([](Topology& t) { t.leaves[0].path.pop_back(); }), Errc::kInvalid);
  EXPECT_EQ(refused([](Topology& t) { t.leaves[0].path = t.leaves[1].path; }), Errc::kInvalid);
  EXPECT_EQ(refused([](Topology& t) { t.leaves[0].nodes.push_back("n3"); }), Errc::kInvalid);
  EXPECT_EQ(w.refused(PutTopology{two_leaves()}, Caller{World::kAlice, false}), Errc::kDenied);
}

TEST(Topology, AStartThatLeavesTheLeafIsDropped) {
  World w(4);
  w.must(PutTopology{two_leaves()});
  JobSpec spec = gang(2);
  spec.groups[0].topology_level = "!leaf";
  w.submit({.spec = std::make_shared<JobSpec>(spec)});
  const auto starts = w.plan();
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(w.must(ApplyPlan{{on(w, starts[0], {2, 3})}}).starts_applied, 0u);
  EXPECT_EQ(w.must(ApplyPlan{{on(w, starts[0], {3, 4})}}).starts_applied, 1u);
}

TEST(Topology, ABoundOnSwitchesEndsWithItsTime) {
  World w(4);
  w.must(PutTopology{two_leaves()});
  JobSpec spec = gang(2);
  spec.groups[0].switches_max = 1;
  spec.groups[0].switches_wait = minutes(2);
  w.submit({.spec = std::make_shared<JobSpec>(spec)});
  const PlannedStart apart = on(w, w.plan().at(0), {2, 3});
  EXPECT_EQ(w.must(ApplyPlan{{apart}}).starts_applied, 0u);
  w.pass(minutes(2));
  EXPECT_EQ(w.must(ApplyPlan{{apart}}).starts_applied, 1u);
}

TEST(Topology, SubmitRefusesWhatNoPartOfTheClusterHas) {
  World w(4);
  w.must(PutTopology{two_leaves()});
  const auto refused = [&](auto change) {
    JobSpec spec = gang(3);
    change(spec.groups[0]);
    return w.refused(SubmitJob{.spec = std::make_shared<JobSpec>(spec)});
  };
  EXPECT_EQ(refused([](GroupSpec& g) { g.topology_level = "!leaf"; }), Errc::kImpossible);
  EXPECT_EQ(refused([](GroupSpec& g) { g.topology_level = "!rack"; }), Errc::kInvalid);
  EXPECT_EQ(refused([](GroupSpec& g) { g.switches_max = 1, g.switches_wait = kForever; }), Errc::kImpossible);
  EXPECT_EQ(refused([](GroupSpec& g) { g.segment = 3; }), Errc::kImpossible);
  JobSpec spec = gang(3);
  spec.groups[0].topology_level = "!spine";
  w.submit({.spec = std::make_shared<JobSpec>(spec)});
}

}  // namespace
}  // namespace lockstep
