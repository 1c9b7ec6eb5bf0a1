#include "frontends/kube/kinds/node_pressure.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "frontends/kube/kinds/node_change.h"
#include "frontends/kube/kinds/node_view.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_placement.h"
#include "frontends/kube/kinds/pod_terms.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {
namespace {

using enum Shortage::What;

Node short_of(std::vector<Shortage> shortages) {
  Node node;
  node.meta.name = "n1";
  node.link = NodeLink::kUp;
  node.boot_at = Instant{seconds(1).us};
  node.shortages = std::move(shortages);
  return node;
}

std::string condition(const json::object& node, std::string_view type) {
  for (const json::value& one : list_in(part(node, "status"), "conditions"))
    if (text_in(one, "type") == type)
      return text_in(one, "status") + " " + text_in(one, "reason") + " " + text_in(one, "lastTransitionTime");
  return {};
}

TEST(NodePressure, ConditionsSayWhatTheNodeSays) {
  json::object tree{{"metadata", json::object()}};
  show_node(tree, short_of({}), Instant{seconds(50).us}, {});
  EXPECT_TRUE(condition(tree, "MemoryPressure").starts_with("False KubeletHasSufficientMemory"));
  EXPECT_TRUE(part(tree, "spec").as_object().find("taints") == part(tree, "spec").as_object().end());
  const Instant at{seconds(40).us};
  show_node(tree, short_of({{.what = kImages, .acute = false, .since = at}, {.what = kMemory, .since = at}}),
            Instant{seconds(50).us}, {});
  EXPECT_EQ(condition(tree, "MemoryPressure"), "True KubeletHasInsufficientMemory 1970-01-01T00:00:40Z");
  EXPECT_EQ(condition(tree, "DiskPressure"), "True KubeletHasDiskPressure 1970-01-01T00:00:40Z");
  EXPECT_TRUE(condition(tree, "PIDPressure").starts_with("False"));
  ASSERT_EQ(list_in(part(tree, "spec"), "taints").size(), 2u);
  EXPECT_EQ(text_in(list_in(part(tree, "spec"), "taints")[0], "key"), kMemoryTaint);
  EXPECT_EQ(text_in(list_in(part(tree, "spec"), "taints")[0], "effect"), "NoSchedule");
}

TEST(NodePressure, ItsMarksKeepPodsOffThatDoNotBearThem) {
  Node node = short_of({{.what = kMemory}});
  const json::object tree = json::parse(R"({"spec":{"taints":[{"key":"own","effect":"NoExecute"}]}})").as_object();
  const auto change = node_change(node, nullptr, tree, {});
  ASSERT_TRUE(change && change->marks);
  node.marks = *change->marks;
  EXPECT_EQ(node.marks.size(), 2u);
  EXPECT_FALSE(node_change(node, nullptr, tree, {}) && node_change(node, nullptr, tree, {})->marks);
  const auto kept_off = [&](const char* pod) {
    Placement group;
    const auto no_names = [](const json::value&) { return std::vector<std::string>(); };
    json::object whole = json::parse(pod).as_object();
    EXPECT_TRUE(set_terms(group, whole, no_names).ok());
    node.marks = {{kMemoryTaint, "", NodeMark::Effect::kKeepsOff}};
    return !node_keeps_off(group, node).empty();
  };
  EXPECT_TRUE(kept_off(R"({"metadata":{},"spec":{"containers":[{"name":"c"}]}})")) << "best effort";
  EXPECT_FALSE(
      kept_off(R"({"metadata":{},"spec":{"containers":[{"name":"c","resources":{"requests":{"memory":"1Mi"}}}]}})"));
  node.shortages.clear();
  const auto after = node_change(node, nullptr, tree, {});
  ASSERT_TRUE(after && after->marks);
  EXPECT_EQ(after->marks->size(), 1u);
}

TEST(NodePressure, WordsAreThoseOfKubelet) {
  EXPECT_EQ(shortage_words({.what = kMemory, .available = (80 << 20) + 5, .threshold = 100 << 20}),
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. ");
  EXPECT_EQ(shortage_words({.what = kDiskFiles, .available = 4, .threshold = 50}),
            "The node was low on resource: inodes. Threshold quantity: 50, available: 4. ");
  EXPECT_EQ(binary_quantity(0), "0");
  EXPECT_EQ(binary_quantity(1536), "1536");
  EXPECT_EQ(binary_quantity(81920), "80Ki");
}

TEST(NodePressure, ItsDiskIsCountedInCoarseSteps) {
  Node node = short_of({});
  EXPECT_FALSE(disk_of_node(node)) << "it has none";
  node.tmp_disk_mb = 100'000;
  ASSERT_TRUE(disk_of_node(node));
  EXPECT_EQ(disk_of_node(node)->name, kEphemeralStorage);
  const std::int64_t first = disk_of_node(node)->count;
  EXPECT_GT(first, 85'000);
  EXPECT_LE(first, 90'000);
  node.tmp_disk_mb = 100'050;
  EXPECT_EQ(disk_of_node(node)->count, first);
  node.counted = {{kEphemeralStorage, 5}};
  EXPECT_FALSE(disk_of_node(node)) << "its agent counts it";
  node.added_counted = node.counted;
  EXPECT_TRUE(disk_of_node(node));
}

}  // namespace
}  // namespace lockstep::kube
