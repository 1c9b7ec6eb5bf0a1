#include "sched/node_index.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/rng.h"

namespace lockstep {
namespace {

TEST(NodeIndex, counts_are_exact_however_nodes_come_and_go) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    const FreeAmounts whole{8, 128, 1'000'000};
    NodeIndex index(whole);
    std::map<NodeId, FreeAmounts> nodes;
    const auto any = [&] {
      return FreeAmounts{static_cast<std::uint32_t>(rng.below(9)), static_cast<std::uint32_t>(rng.below(129)),
                         rng.between(0, 1'000'000)};
    };
    std::vector<FreeAmounts> needs;  // the same are asked for again and again, so that what was counted is used
    for (int i = 0; i < 60; ++i) needs.push_back(any());
    for (int step = 0; step < 2'000; ++step) {
      const NodeId id{1 + static_cast<std::uint32_t>(rng.below(50))};
      if (const auto at = nodes.find(id); at != nodes.end()) {
        index.erase(id, at->second);
        nodes.erase(at);
      } else {
        index.insert(id, nodes[id] = any());
      }
      const FreeAmounts& need = needs[rng.below(needs.size())];
      const auto enough = static_cast<std::uint32_t>(rng.between(1, 8));
      std::uint32_t covering = 0;
      for (const auto& [node, free] : nodes) covering += free.covers(need);
      const std::uint32_t counted = index.count(need, enough);
      ASSERT_GE(index.at_least(need), covering);
      ASSERT_EQ(counted >= enough, covering >= enough) << "seed " << seed << " step " << step;
    }
  }
}

TEST(NodeIndex, neighbours_by_number_are_neighbours) {
  EXPECT_LT(place_of_name("n2"), place_of_name("n10"));
  EXPECT_LT(place_of_name("n009"), place_of_name("n010"));
  EXPECT_LT(place_of_name("rack1-n2-ib"), place_of_name("rack1-n3-ib"));
  EXPECT_EQ(place_of_name("a1") + 1, place_of_name("a2"));
  EXPECT_NE(place_of_name("a1") >> 32, place_of_name("b1") >> 32) << "racks stay together";
  NodeIndex index({0, 64, 1000});
  const std::string names[] = {"n3", "n1", "n4", "n2"};  // as they joined
  for (std::uint32_t i = 0; i < 4; ++i) index.insert(NodeId{i + 1}, {0, 64, 1000}, place_of_name(names[i]));
  std::vector<std::string> order;
  index.each({0, 1, 1}, [&](NodeId id) {
    order.push_back(names[id.value - 1]);
    return true;
  });
  EXPECT_EQ(order, (std::vector<std::string>{"n1", "n2", "n3", "n4"}));
}

TEST(NodeIndex, offers_the_tightest_first) {
  NodeIndex index({8, 64, 1000});
  index.insert(NodeId{1}, {8, 64, 1000});
  index.insert(NodeId{2}, {2, 60, 10});
  index.insert(NodeId{3}, {2, 8, 500});
  std::vector<std::uint32_t> seen;
  index.each({2, 8, 0}, [&](NodeId id) {
    seen.push_back(id.value);
    return true;
  });
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{3, 2, 1}));
}

}  // namespace
}  // namespace lockstep
