#include "controller/image_source.h"

#include <gtest/gtest.h>

#include <map>

#include "model/job.h"

namespace lockstep {
namespace {

TEST(ImageSource, TheFirstNodeAsksNobody) {
  EXPECT_EQ(image_source(4, 0, 0), std::nullopt);
  EXPECT_EQ(image_source(4, 4, 0), std::nullopt);  // is none of them
  EXPECT_EQ(image_source(0, 0, 0), std::nullopt);
}

TEST(ImageSource, EachOtherAsksTheOneAboveThenTheRoot) {
  EXPECT_EQ(image_source(9, 1, 0), 0u);
  EXPECT_EQ(image_source(9, 4, 0), 0u);
  EXPECT_EQ(image_source(9, 5, 0), 1u);
  EXPECT_EQ(image_source(9, 5, 1), 0u);
  EXPECT_EQ(image_source(9, 1, 1), std::nullopt);  // that was the root
  EXPECT_EQ(image_source(9, 5, 2), std::nullopt);
}

TEST(ImageSource, NobodyServesMoreThanAFewAndNobodyWaitsInACircle) {
  constexpr std::size_t kNodes = 1000;
  std::map<std::size_t, std::size_t> served;
  for (std::size_t node = 1; node < kNodes; ++node) {
    const auto source = image_source(kNodes, node, 0);
    ASSERT_TRUE(source);
    EXPECT_LT(*source, node);
    ++served[*source];
  }
  for (const auto& [node, count] : served) EXPECT_LE(count, kImageFanOut) << node;
}

TEST(ImageSource, NodesOfAStepInTheOrderOfTheirNames) {
  Tables tables;
  Job job;
  job.id = JobId{7};
  auto step = std::make_shared<Step>();
  step->job = job.id;
  std::vector<StepPlace> places;
  std::uint32_t id = 0;
  for (const char* name : {"n10", "n2", "n1", "n9"}) {
    auto node = std::make_shared<Node>();
    node->id = NodeId{++id};
    node->meta.name = name;
    tables.nodes[node->id] = node;
    places.emplace_back().node = node->id;
  }
  step->places = places;
  tables.steps[{job.id, 0}] = step;
  std::string names;
  for (const Node* node : nodes_with_image(tables, job, {.step = 0, .node = {}})) names += node->meta.name + " ";
  EXPECT_EQ(names, "n1 n2 n9 n10 ");
  EXPECT_TRUE(nodes_with_image(tables, job, {.step = 1, .node = {}}).empty());
}

}  // namespace
}  // namespace lockstep
