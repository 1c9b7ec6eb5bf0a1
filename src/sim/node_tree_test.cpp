// Switch trees: levels of placements, choosing whole nodes, and every way a file can be wrong.
#include "sim/node_tree.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

constexpr const char* kTwoLeaves =
    "# two leaves below one spine\n"
    "SwitchName=leaf0 Nodes=n[0-2]\n"
    "SwitchName=leaf1 Nodes=n[3-4] LinkSpeed=400\n"
    "SwitchName=spine Switches=leaf[0-1]\n";

std::string complaint(std::string_view text, std::int32_t nodes = 2) {
  const auto tree = NodeTree::parse("t.conf", text, nodes);
  return tree.ok() ? "" : tree.error().message;
}

TEST(NodeTree, TellsLevels) {
  const NodeTree tree = NodeTree::parse("t.conf", kTwoLeaves, 5).value();
  EXPECT_EQ(tree.depth(), 2);
  EXPECT_EQ(tree.level_of({{1, 8}}), 0);
  EXPECT_EQ(tree.level_of({{0, 8}, {2, 4}}), 1);
  EXPECT_EQ(tree.level_of({{2, 8}, {3, 8}}), 2);
  EXPECT_EQ(tree.best_level(1), 0);
  EXPECT_EQ(tree.best_level(3), 1);
  EXPECT_EQ(tree.best_level(4), 2);
}

TEST(NodeTree, ChoosesTheSmallestSwitchThatIsEnough) {
  const NodeTree tree = NodeTree::parse("t.conf", kTwoLeaves, 5).value();
  GangPool pool(5, 8);
  EXPECT_EQ(tree.choose_idle(pool, 2), (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(tree.choose_idle(pool, 3), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(tree.choose_idle(pool, 4).size(), 4u);
  pool.take({{3, 1}});
  EXPECT_EQ(tree.choose_idle(pool, 2), (std::vector<std::int32_t>{0, 1}));
  EXPECT_TRUE(tree.choose_idle(pool, 5).empty());
}

TEST(NodeTree, ANodeNearerToTheTopCountsOnEveryLevelItSkips) {
  const NodeTree tree =
      NodeTree::parse(
          "t",
          "SwitchName=a Nodes=n[0-1]\nSwitchName=top Switches=b,c\nSwitchName=b Switches=a\nSwitchName=c Nodes=n2\n", 3)
          .value();
  EXPECT_EQ(tree.depth(), 3);
  EXPECT_EQ(tree.level_of({{0, 1}, {1, 1}}), 1);
  EXPECT_EQ(tree.level_of({{0, 1}, {2, 1}}), 3);
}

TEST(NodeTree, WrongFilesAreToldByLine) {
  EXPECT_EQ(complaint("SwitchName=a Nodes=n[0-1]\n"), "");
  EXPECT_EQ(complaint(""), "t.conf: node n0 hangs on no switch");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n0\n"), "t.conf: node n1 hangs on no switch");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n[0-2]\n"), "t.conf:1: there is no node n2: they are n0 to n1");
  EXPECT_EQ(complaint("SwitchName=a Nodes=x0\n"), "t.conf:1: there is no node x0: they are n0 to n1");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n1\n"), "t.conf:2: node n1 hangs on a already");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n[0-1]\nSwitchName=a Nodes=n1\n"), "t.conf:2: switch a is named twice");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n0\nSwitchName=b Nodes=n1\n"),
            "t.conf:2: neither of a and b hangs on a switch");
  EXPECT_EQ(complaint("SwitchName=a Switches=b\nSwitchName=b Switches=a\n"),
            "t.conf:2: a cycle: switch a is above itself");
  EXPECT_EQ(complaint("SwitchName=a Switches=a\n"), "t.conf:1: a cycle: switch a is above itself");
  EXPECT_EQ(complaint("SwitchName=a Switches=z\n"), "t.conf:1: there is no switch z");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n[0-1]\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n"),
            "t.conf:3: switch a hangs on b already");
  EXPECT_EQ(complaint("SwitchName=a\n"), "t.conf:1: a line needs SwitchName= and one of Nodes= and Switches=");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n0 Switches=b\n"), "t.conf:1: \"Switches=b\" was not expected here");
  EXPECT_EQ(complaint("hello\n"), "t.conf:1: \"hello\" is not KEY=VALUE");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n[0-\n").substr(0, 9), "t.conf:1:");
  EXPECT_EQ(NodeTree::read("/nowhere/at/all", 2).error().code, Errc::kNotFound);
}

}  // namespace
}  // namespace lockstep::sim
