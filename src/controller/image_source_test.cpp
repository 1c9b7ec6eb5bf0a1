#include "controller/image_source.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep {
namespace {

std::set<NodeId> nodes_up_to(std::uint64_t count) {
  std::set<NodeId> nodes;
  for (std::uint64_t i = 1; i <= count; ++i) nodes.insert(NodeId{i * 10});
  return nodes;
}

TEST(ImageSource, TheFirstNodeAsksNobody) {
  EXPECT_EQ(image_source(nodes_up_to(4), NodeId{10}, 0), std::nullopt);
  EXPECT_EQ(image_source(nodes_up_to(4), NodeId{11}, 0), std::nullopt);
  EXPECT_EQ(image_source({}, NodeId{10}, 0), std::nullopt);
}

TEST(ImageSource, EachOtherAsksTheOneAboveThenTheRoot) {
  const auto nodes = nodes_up_to(9);
  EXPECT_EQ(image_source(nodes, NodeId{20}, 0), NodeId{10});
  EXPECT_EQ(image_source(nodes, NodeId{50}, 0), NodeId{10});
  EXPECT_EQ(image_source(nodes, NodeId{60}, 0), NodeId{20});
  EXPECT_EQ(image_source(nodes, NodeId{60}, 1), NodeId{10});
  EXPECT_EQ(image_source(nodes, NodeId{20}, 1), std::nullopt);  // that was the root
  EXPECT_EQ(image_source(nodes, NodeId{60}, 2), std::nullopt);
}

TEST(ImageSource, NobodyServesMoreThanAFewAndNobodyWaitsInACircle) {
  const auto nodes = nodes_up_to(1000);
  std::map<NodeId, std::size_t> served;
  for (const NodeId node : nodes)
    if (const auto source = image_source(nodes, node, 0)) {
      EXPECT_LT(*source, node);
      ++served[*source];
    }
  for (const auto& [node, count] : served) EXPECT_LE(count, kImageFanOut) << node.value;
}

}  // namespace
}  // namespace lockstep
