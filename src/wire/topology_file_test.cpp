// topology.conf: trees and blocks, every way a file can be wrong, and thousands of damaged ones.
#include "wire/topology_file.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr const char* kTree =
    "# two blocks below one spine\n"
    "SwitchName=leaf1 Nodes=n[1-2] LinkSpeed=400\n"
    "SwitchName=leaf2 Nodes=n[3-4]\r\n"
    "SwitchName=leaf3 \\\n"
    "  Nodes=n[5-6]\n"
    "SwitchName=block1 Switches=leaf[1-2]\n"
    "switchname=spine switches=block1,leaf3\n";

std::string complaint(std::string_view text, const std::vector<std::string>& levels = {}) {
  const auto file = parse_topology("t.conf", text, levels);
  return file.ok() ? "" : file.error().message;
}

TEST(TopologyFile, ReadsATreeAndPadsWhatIsNearerToTheTop) {
  const TopologyFile file = parse_topology("t.conf", kTree).value();
  const Topology& t = file.topology;
  EXPECT_EQ(t.levels, (std::vector<std::string>{"spine", "block", "leaf"}));
  ASSERT_EQ(t.leaves.size(), 3u);
  EXPECT_EQ(t.leaves[0].path, (std::vector<std::string>{"spine", "block1", "leaf1"}));
  EXPECT_EQ(t.leaves[2].path, (std::vector<std::string>{"spine", "leaf3", "leaf3"}));
  EXPECT_EQ(t.leaves[2].nodes, (std::vector<std::string>{"n5", "n6"}));
  EXPECT_EQ(file.lines, (std::vector<std::size_t>{2, 3, 4}));
  EXPECT_FALSE(t.blocks);
}

TEST(TopologyFile, AWordGoesOnBehindABackslash) {
  const TopologyFile file = parse_topology("t.conf", "SwitchName=a Nodes=n[1-\\\n2]\nSwitchName=b Nodes=n3\\").value();
  EXPECT_EQ(file.topology.leaves.at(0).nodes, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(file.topology.leaves.at(1).nodes, (std::vector<std::string>{"n3"}));
}

TEST(TopologyFile, NamesLevels) {
  EXPECT_EQ(parse_topology("t", "SwitchName=a Nodes=n1\n").value().topology.levels, (std::vector<std::string>{"leaf"}));
  EXPECT_EQ(parse_topology("t", "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=t Switches=a,b")
                .value()
                .topology.levels,
            (std::vector<std::string>{"spine", "leaf"}));
  EXPECT_EQ(parse_topology("t", "# Levels: rack\nSwitchName=a Nodes=n1\n").value().topology.levels,
            (std::vector<std::string>{"rack"}));
  EXPECT_EQ(parse_topology("t", "# Levels: rack\nSwitchName=a Nodes=n1\n", {"row"}).value().topology.levels,
            (std::vector<std::string>{"row"}));
  EXPECT_EQ(complaint("SwitchName=a Nodes=n1\n# levels: x, y\n"), "t.conf:2: 2 level(s) are named; the tree has 1");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n1\n", {"node"}), "t.conf: \"node\" is no name for a level");
}

TEST(TopologyFile, ReadsBlocks) {
  const Topology t =
      parse_topology(
          "t.conf", "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-5]\nBlockName=b3 Nodes=n[6-7]\nBlockSizes=2,4\n")
          .value()
          .topology;
  EXPECT_TRUE(t.blocks);
  EXPECT_EQ(t.levels, (std::vector<std::string>{"block4", "block"}));
  EXPECT_EQ(t.leaves[1].path, (std::vector<std::string>{"b[1-2]", "b2"}));
  EXPECT_EQ(t.leaves[2].path, (std::vector<std::string>{"b3", "b3"}));
  const Topology again = parse_topology("t", topology_text(t)).value().topology;
  EXPECT_EQ(again.leaves, t.leaves);
  EXPECT_EQ(again.levels, t.levels);
}

TEST(TopologyFile, IsWrittenAsItIsRead) {
  const Topology t = parse_topology("t.conf", kTree).value().topology;
  EXPECT_EQ(topology_text(t),
            "# levels: spine, block, leaf\n"
            "SwitchName=leaf1 Nodes=n[1-2]\n"
            "SwitchName=leaf2 Nodes=n[3-4]\n"
            "SwitchName=leaf3 Nodes=n[5-6]\n"
            "SwitchName=block1 Switches=leaf[1-2]\n"
            "SwitchName=spine Switches=block1,leaf3\n");
  EXPECT_EQ(parse_topology("t", topology_text(t)).value().topology.leaves, t.leaves);
}

TEST(TopologyFile, SaysLineAndReason) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"", "t.conf: no SwitchName= and no BlockName= in it"},
      {"# nothing\n\n", "t.conf: no SwitchName= and no BlockName= in it"},
      {"SwitchName=a Nodes=n1\nnonsense\n", "t.conf:2: \"nonsense\" is not KEY=VALUE"},
      {"SwitchName=a Nodes=n1 Colour=red\n", "t.conf:1: \"Colour=red\" was not expected here"},
      {"SwitchName=a Nodes=n1 Nodes=n2\n", "t.conf:1: nodes is there twice"},
      {"Nodes=n1\n", "t.conf:1: SwitchName= or BlockName= is missing"},
      {"SwitchName=a\n", "t.conf:1: a needs either Nodes= or Switches="},
      {"SwitchName=a Nodes=n1 Switches=b\n", "t.conf:1: a needs either Nodes= or Switches="},
      {"SwitchName=a[1-2] Nodes=n1\n", "t.conf:1: \"a[1-2]\" is no name of a switch"},
      {"SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "t.conf:2: a is there already, in line 1"},
      {"SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n3\n", "t.conf:2: node n3 is on a already, in line 1"},
      {"SwitchName=a Nodes=n1\x01\n", "t.conf:1: \"n1\x01\" is no name of a node"},
      {"SwitchName=a Nodes=n1,n1\n", "t.conf:1: node n1 is there twice"},
      {"SwitchName=a Nodes=n[3-1]\n", "t.conf:1: host list, column 3: 3-1 runs backwards"},
      {"SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "t.conf:1: a cycle: a hangs on b, which hangs on a"},
      {"SwitchName=a Switches=a\n", "t.conf:1: a cycle: a hangs on a"},
      {"SwitchName=s Switches=a,b\nSwitchName=a Nodes=n1\n", "t.conf:1: there is no switch b in this file"},
      {"SwitchName=a Nodes=n1\nSwitchName=s Switches=a\nSwitchName=t Switches=a\n",
       "t.conf:3: switch a hangs on s already"},
      {"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=s Switches=a\n",
       "t.conf:2: switch b hangs on no other switch, while others have 2 level(s) above their nodes"},
      {"BlockName=a Nodes=n1\nSwitchName=b Nodes=n2\n", "t.conf:2: switches and blocks do not go together in one file"},
      {"BlockName=a Nodes=n1\nBlockSizes=2\n", "t.conf:1: block a has 1 nodes; BlockSizes in line 2 wants at least 2"},
      {"BlockName=a Nodes=n[1-9]\nBlockSizes=2,6\n",
       "t.conf:2: BlockSizes: 6 is not 2 times a power of two, in rising order"},
      {"BlockName=a Nodes=n1\nBlockSizes=0\n", "t.conf:2: BlockSizes: \"0\" is no number of nodes"},
  };
  for (const auto& [text, message] : kWrong) EXPECT_EQ(complaint(text), message) << text;
  EXPECT_NE(complaint("SwitchName=a Nodes=n[1-2000000]\n").find("t.conf:1: "), std::string::npos);
  std::string deep = "SwitchName=s0 Nodes=n1\n";
  for (int i = 1; i < 40; ++i) deep += format("SwitchName=s{} Switches=s{}\n", i, i - 1);
  EXPECT_NE(complaint(deep).find("deeper than 16 levels"), std::string::npos);
}

TEST(TopologyFile, AForestOfEqualHeightIsNoMistake) {
  EXPECT_EQ(complaint("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n"), "");
}

TEST(TopologyFile, TellsWhatTheClusterDoesNotHave) {
  const TopologyFile file = parse_topology("t.conf", kTree).value();
  EXPECT_EQ(topology_differences("t.conf", file, {"n1", "n2", "n3", "n4", "n10", "n9"}),
            (std::vector<std::string>{"t.conf:4: n[5-6] are no nodes of this cluster yet",
                                      "t.conf: n[9-10] hang on no switch"}));
  EXPECT_TRUE(topology_differences("t.conf", file, {"n1", "n2", "n3", "n4", "n5", "n6"}).empty());
}

TEST(TopologyFile, DamagedFilesNeverCrash) {
  constexpr std::string_view kTokens[] = {
      "SwitchName=", "Switches=",  "Nodes=",           "=",     "[",     "]",       "-",   ",", "\n", "\\\n",
      "#levels:",    "BlockName=", "BlockSizes=2,4\n", "leaf1", "spine", "9999999", "\xff"};
  int read = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 6000; ++seed) {
    Rng rng(seed * 131);
    std::string text = seed % 3 == 0 ? "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n" : kTree;
    for (std::uint64_t n = 1 + rng.below(4); n > 0 && !text.empty(); --n) {
      const std::size_t at = rng.below(text.size());
      switch (rng.below(5)) {
        case 0: text[at] = static_cast<char>(rng.below(256)); break;
        case 1: text.erase(at, 1 + rng.below(12)); break;
        case 2: text.insert(at, kTokens[rng.below(std::size(kTokens))]); break;
        case 3: text.insert(at, text.substr(rng.below(text.size()), rng.below(60))); break;
        default: text.resize(at); break;
      }
    }
    const auto file = parse_topology("t", text);
    if (!file.ok()) {
      ++refused;
      EXPECT_NE(file.error().message, "");
      continue;
    }
    ++read;
    for (const TopologyLeaf& leaf : file->topology.leaves)
      ASSERT_EQ(leaf.path.size(), file->topology.levels.size()) << text;
    const auto again = parse_topology("t", topology_text(file->topology));
    ASSERT_TRUE(again.ok()) << again.error().message << "\n" << text << "\n->\n" << topology_text(file->topology);
    ASSERT_EQ(again->topology.leaves.size(), file->topology.leaves.size()) << text;
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace lockstep
