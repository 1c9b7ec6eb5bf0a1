// Classes of nodes: what they add, that it goes with them, and what is refused.
#include <gtest/gtest.h>

#include "core/testing.h"

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

NodeClass node_class(std::string name, Names nodes, Names features = {}, std::uint32_t weight = 0) {
  NodeClass one;
  one.meta.name = std::move(name);
  one.nodes = std::move(nodes);
  one.features = std::move(features);
  one.weight = weight;
  return one;
}

// The agent of the node says hello, telling these features.
void say_hello(World& w, std::uint32_t i, Names features, std::uint32_t weight = 1) {
  Node facts;
  facts.meta.name = World::name_of(i);
  facts.boot_id = w.boot(i);
  facts.cores = World::kCores;
  facts.memory_mb = 64'000;
  facts.features = std::move(features);
  facts.weight = weight;
  w.must(NodeHello{facts});
}

TEST(NodeClasses, AddFeaturesAndSetTheWeightUntilTheyGo) {
  World w;
  say_hello(w, 1, {"ib"}, 5);
  w.must(PutNodeClass{node_class("gpu", {"n1", "n2"}, {"h100", "ib"}, 40)});
  EXPECT_EQ(w.node(1).features, (Names{"ib", "h100"}));
  EXPECT_EQ(w.node(1).weight, 40u);
  EXPECT_EQ(w.node(1).node_class, "gpu");

  say_hello(w, 2, {"ssd"});  // joins later
  EXPECT_EQ(w.node(2).features, (Names{"ssd", "h100", "ib"}));
  EXPECT_EQ(w.node(2).weight, 40u);

  say_hello(w, 1, {"roce"});  // its agent tells something else now
  EXPECT_EQ(w.node(1).features, (Names{"roce", "h100", "ib"}));

  w.must(PutNodeClass{node_class("gpu", {"n1"}, {"a100"})});
  EXPECT_EQ(w.node(1).features, (Names{"roce", "a100"}));
  EXPECT_EQ(w.node(1).weight, 5u);
  EXPECT_EQ(w.node(2).features, (Names{"ssd"}));
  EXPECT_EQ(w.node(2).node_class, "");

  w.must(RemoveNodeClass{"gpu"});
  EXPECT_EQ(w.node(1).features, (Names{"roce"}));
  EXPECT_EQ(w.node(1).weight, 5u);
  EXPECT_EQ(w.node(1).own_features, Names{});
}

TEST(NodeClasses, AnAdministratorsWordsAreTheNodesOwn) {
  World w(1);
  w.must(PutNodeClass{node_class("gpu", {"n1"}, {"h100"})});
  w.must(UpdateNode{.name = "n1", .features = Names{"quiet"}});
  EXPECT_EQ(w.node(1).features, (Names{"quiet", "h100"}));
  w.must(UpdateNode{.name = "n1", .weight = 9});
  EXPECT_EQ(w.node(1).weight, 9u);

  w.must(PutNodeClass{node_class("gpu", {"n1"}, {"h100"}, 40)});
  const auto refused = w.run(UpdateNode{.name = "n1", .weight = 10});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "node n1 has its weight 40 from node class gpu: change it there");
  w.must(RemoveNodeClass{"gpu"});
  EXPECT_EQ(w.node(1).features, (Names{"quiet"}));
  EXPECT_EQ(w.node(1).weight, 9u);
}

TEST(NodeClasses, RefuseWhatContradicts) {
  World w(2);
  w.must(PutNodeClass{node_class("a", {"n1", "n2"})});
  const auto second = w.run(PutNodeClass{node_class("b", {"n2"})});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message, "node n2 is in class a and would be in class b: a node is in one class at most");
  EXPECT_EQ(w.refused(PutNodeClass{node_class("b c", {"n3"})}), Errc::kInvalid);
  EXPECT_EQ(w.refused(PutNodeClass{node_class("c", {"ALL", "n[1-3]"})}), Errc::kInvalid);
  EXPECT_EQ(w.refused(PutNodeClass{node_class("c", {"n3"}, {"h100&a100"})}), Errc::kInvalid);
  EXPECT_EQ(w.refused(PutNodeClass{node_class("c", {"n3"}, Names(65, "x"))}), Errc::kInvalid);
  EXPECT_EQ(w.refused(RemoveNodeClass{"c"}), Errc::kNotFound);
  EXPECT_EQ(w.refused(PutNodeClass{node_class("c", {"n3"})}, {World::kAlice, false}), Errc::kDenied);
  const Seq seq = w.state.tables().node_classes.at("a")->meta.seq;
  EXPECT_EQ(w.refused(PutNodeClass{node_class("a", {"n1"}), seq + 1}), Errc::kConflict);
  w.must(PutNodeClass{node_class("a", {"n1"}), seq});
  w.must(PutNodeClass{node_class("b", {"n2"})});
}

// World looks at the indexes after every command, and a log that is read again meets the records as the entry has them.
TEST(NodeClasses, TradeNodesInOneEntry) {
  World w(2);
  w.must(PutNodeClass{node_class("a", {"n1"}, {"red"})});
  w.must(PutNodeClass{node_class("b", {"n2"}, {"blue"})});
  Command trade{kController, PutNodeClass{node_class("a", {}, {"red"})}, {}, {}, {}};
  trade.also = {PutNodeClass{node_class("b", {"n1"}, {"blue"})}, PutNodeClass{node_class("a", {"n2"}, {"red"})}};
  ASSERT_TRUE(w.run(std::move(trade)).ok());
  EXPECT_EQ(w.node(1).features, Names{"blue"});
  EXPECT_EQ(w.node(2).features, Names{"red"});
  w.must(PutNodeClass{node_class("a", {"n2", "n3"}, {"red"})});
  EXPECT_EQ(w.refused(PutNodeClass{node_class("b", {"n1", "n2"})}), Errc::kConflict);
}

TEST(NodeClasses, JobsAskForTheirFeatures) {
  World w(2);
  w.must(PutNodeClass{node_class("fast", {"n2"}, {"fast"})});
  JobSpec spec;
  spec.user = World::kAlice;
  spec.groups.emplace_back();
  const std::vector<std::string> missing = shortfalls(node_class("x", {}), w.node(1));
  EXPECT_TRUE(missing.empty());
  NodeClass wants = node_class("big", {"n1"});
  wants.cores = 32;
  wants.gpus = 8;
  wants.gpu_type = "h200";
  EXPECT_EQ(shortfalls(wants, w.node(1)),
            (Names{"has 16 cores; its class big expects 32", "has 0 h200 GPUs that work; its class big expects 8"}));
}

TEST(NodeClasses, AreSnapshotsAndLogs) {
  World w(2);
  w.must(PutNodeClass{node_class("fast", {"n2"}, {"fast"}, 7)});
  ClusterState again{CoreSettings{}};
  again.restore(w.state.tables().snapshot());
  check_invariants(again);
  EXPECT_EQ(again.tables().node("n2")->features, (Names{"fast"}));
  EXPECT_EQ(again.tables().node_classes.at("fast")->weight, 7u);
}

}  // namespace
}  // namespace lockstep
