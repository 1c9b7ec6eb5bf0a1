// Trees of domains: levels of placements, and choosing whole nodes.
#include "sim/node_tree.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

const std::vector<std::string> kFive{"n1", "n2", "n3", "n4", "n5"};

Topology two_leaves() {
  Topology t;
  t.levels = {"spine", "leaf"};
  t.leaves = {{{"top", "a"}, {"n1", "n2", "n3"}}, {{"top", "b"}, {"n4", "n5"}}};
  return t;
}

TEST(NodeTree, TellsLevels) {
  const NodeTree tree = NodeTree::of(two_leaves(), kFive);
  EXPECT_EQ(tree.depth(), 2);
  EXPECT_EQ(tree.level_of({{1, 8}}), 0);
  EXPECT_EQ(tree.level_of({{0, 8}, {2, 4}}), 1);
  EXPECT_EQ(tree.level_of({{2, 8}, {3, 8}}), 2);
  EXPECT_EQ(tree.best_level(1), 0);
  EXPECT_EQ(tree.best_level(3), 1);
  EXPECT_EQ(tree.best_level(4), 2);
}

TEST(NodeTree, WithoutACommonTopAllTogetherAreALevel) {
  Topology forest = two_leaves();
  forest.leaves[1].path = {"other", "b"};
  const NodeTree tree = NodeTree::of(forest, kFive);
  EXPECT_EQ(tree.depth(), 3);
  EXPECT_EQ(tree.level_of({{2, 8}, {3, 8}}), 3);
  EXPECT_EQ(tree.best_level(3), 1);
  EXPECT_EQ(tree.best_level(4), 3);
  EXPECT_EQ(NodeTree::of(forest, {"n4", "n5"}).depth(), 1);  // one leaf holds all there are
}

TEST(NodeTree, ChoosesTheSmallestSwitchThatIsEnough) {
  const NodeTree tree = NodeTree::of(two_leaves(), kFive);
  GangPool pool(5, 8);
  EXPECT_EQ(tree.choose_idle(pool, 2), (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(tree.choose_idle(pool, 3), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(tree.choose_idle(pool, 4).size(), 4u);
  pool.take({{3, 1}});
  EXPECT_EQ(tree.choose_idle(pool, 2), (std::vector<std::int32_t>{0, 1}));
  EXPECT_TRUE(tree.choose_idle(pool, 5).empty());
}

}  // namespace
}  // namespace lockstep::sim
