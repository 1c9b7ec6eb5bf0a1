#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

constexpr const char *kDaemons = "daemonsets.apps", *kHistory = "controllerrevisions.apps";

std::string daemon(const std::string& strategy, const std::string& pod_more = "") {
  return R"({"metadata":{"name":"d","namespace":"n"},"spec":{"revisionHistoryLimit":2,"selector":{"matchLabels":{"app":"d"}},
      "updateStrategy":)" +
         strategy + R"(,"template":{"metadata":{"labels":{"app":"d"}},"spec":{)" + pod_more +
         R"("containers":[{"name":"c","image":"one"}]}}}})";
}
constexpr const char* kReplacing = R"({"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"maxSurge":0}})";
constexpr const char* kSurging = R"({"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":0,"maxSurge":1}})";

WorkloadRig daemon_rig(int nodes = 3) {
  WorkloadRig rig({daemon_set_controller()});
  for (int i = 1; i <= nodes; ++i)
    rig.put("nodes", R"({"metadata":{"name":"node)" + std::to_string(i) + R"(","labels":{"zone":"z)" +
                         std::to_string(i) + R"("}},"spec":{}})");
  return rig;
}

std::string target(const WorkloadRig& rig, const std::string& pod) {
  return std::string(text_of(part(part(part(part(rig.tree("pods", pod), "spec"), "affinity"), "nodeAffinity"),
                                  "requiredDuringSchedulingIgnoredDuringExecution")
                                 .at("nodeSelectorTerms")
                                 .at(0)
                                 .at("matchFields")
                                 .at(0)
                                 .at("values")
                                 .at(0)));
}

void bind_all(WorkloadRig& rig) {
  for (const std::string& name : rig.names("pods"))
    rig.edit("pods", name,
             [&](json::object& tree) { tree["spec"].as_object()["nodeName"] = json::string_view(target(rig, name)); });
}
void bring_up(WorkloadRig& rig) {
  bind_all(rig);
  rig.ready_all();
}

void change_image(WorkloadRig& rig, const char* image) {
  rig.edit(kDaemons, "d", [&](json::object& tree) {
    tree["spec"].as_object()["template"].as_object()["spec"].as_object()["containers"] =
        json::array{json::object{{"name", "c"}, {"image", image}}};
  });
  rig.run();
}

TEST(DaemonSets, OnePodOnEachNode) {
  WorkloadRig rig = daemon_rig();
  rig.put(kDaemons, daemon(kReplacing));
  rig.run();
  std::vector<std::string> targets;
  for (const std::string& name : rig.names("pods")) targets.push_back(target(rig, name));
  std::ranges::sort(targets);
  EXPECT_EQ(targets, (std::vector<std::string>{"node1", "node2", "node3"}));
  EXPECT_EQ(rig.names(kHistory).size(), 1u);
  bring_up(rig);
  EXPECT_EQ(rig.status(kDaemons, "d"), (json::object{{"currentNumberScheduled", 3},
                                                     {"numberMisscheduled", 0},
                                                     {"desiredNumberScheduled", 3},
                                                     {"numberReady", 3},
                                                     {"observedGeneration", 1},
                                                     {"updatedNumberScheduled", 3},
                                                     {"numberAvailable", 3}}));
  rig.put("nodes", R"({"metadata":{"name":"node4"},"spec":{}})");
  rig.run();
  EXPECT_EQ(rig.names("pods").size(), 4u);
  EXPECT_EQ(rig.run(), 0);
}

TEST(DaemonSets, FollowLabelsAndTaintsOfNodes) {
  WorkloadRig rig = daemon_rig();
  rig.put(kDaemons, daemon(kReplacing, R"("nodeSelector":{"disk":"fast"},)"));
  rig.run();
  EXPECT_TRUE(rig.names("pods").empty());
  const auto label = [&](const char* node, const char* disk) {
    json::object tree = json::parse(R"({"metadata":{"name":""},"spec":{}})").as_object();
    tree["metadata"] = json::object{{"name", node}, {"labels", {{"disk", disk}}}};
    rig.put("nodes", std::move(tree));
    rig.run();
  };
  label("node1", "fast");
  ASSERT_EQ(rig.names("pods").size(), 1u);
  bring_up(rig);
  rig.put(
      "nodes",
      R"({"metadata":{"name":"node1","labels":{"disk":"fast"}},"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}})");
  rig.run();
  EXPECT_EQ(rig.names("pods").size(), 1u) << "it stays where it is";
  EXPECT_EQ(rig.number(kDaemons, "d", "numberMisscheduled"), 1);
  rig.put(
      "nodes",
      R"({"metadata":{"name":"node1","labels":{"disk":"fast"}},"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}})");
  rig.run();
  EXPECT_TRUE(rig.names("pods").empty());
  label("node1", "slow");
  EXPECT_EQ(rig.number(kDaemons, "d", "desiredNumberScheduled"), 0);
}

TEST(DaemonSets, ReplaceOneAfterTheOther) {
  WorkloadRig rig = daemon_rig();
  rig.put(kDaemons, daemon(kReplacing));
  rig.run();
  bring_up(rig);
  change_image(rig, "two");
  EXPECT_EQ(rig.names(kHistory).size(), 2u);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(rig.number(kDaemons, "d", "updatedNumberScheduled"), i);
    EXPECT_GE(rig.number(kDaemons, "d", "numberAvailable"), 2);
    bring_up(rig);
  }
  EXPECT_EQ(rig.number(kDaemons, "d", "updatedNumberScheduled"), 3);
  change_image(rig, "one");
  EXPECT_EQ(rig.names(kHistory).size(), 2u) << "the first revision is the newest again";
}

TEST(DaemonSets, SurgeBeforeTheOldOneGoes) {
  WorkloadRig rig = daemon_rig(2);
  rig.put(kDaemons, daemon(kSurging));
  rig.run();
  bring_up(rig);
  change_image(rig, "two");
  EXPECT_EQ(rig.names("pods").size(), 3u);
  for (int i = 0; i < 4; ++i) {
    bring_up(rig);
    EXPECT_EQ(rig.number(kDaemons, "d", "numberAvailable"), 2);
  }
  EXPECT_EQ(rig.names("pods").size(), 2u);
  EXPECT_EQ(rig.number(kDaemons, "d", "updatedNumberScheduled"), 2);
}

TEST(DaemonSets, OnDeleteLeavesPodsToTheirUsers) {
  WorkloadRig rig = daemon_rig(2);
  rig.put(kDaemons, daemon(R"({"type":"OnDelete"})"));
  rig.run();
  bring_up(rig);
  change_image(rig, "two");
  EXPECT_EQ(rig.number(kDaemons, "d", "updatedNumberScheduled"), 0);
  rig.remove("pods", rig.names("pods")[0]);
  rig.run();
  bring_up(rig);
  EXPECT_EQ(rig.number(kDaemons, "d", "updatedNumberScheduled"), 1);
}

TEST(DaemonSets, FailedOnesAreReplacedAfterAPause) {
  WorkloadRig rig = daemon_rig(1);
  rig.put(kDaemons, daemon(kReplacing));
  rig.run();
  bring_up(rig);
  const std::string first = rig.names("pods")[0];
  rig.tell_pod(first, "Failed", false, 1);
  rig.run();
  rig.advance(seconds(11));
  ASSERT_EQ(rig.names("pods").size(), 1u);
  EXPECT_NE(rig.names("pods")[0], first);
}

}  // namespace
}  // namespace lockstep::kube
