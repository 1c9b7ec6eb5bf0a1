#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

constexpr const char* kBudgets = "poddisruptionbudgets.policy";

// A budget over pods of "web", and a set of three of them.
struct Disruption : testing::Test {
  WorkloadRig rig{{disruption_controller()}};

  void budget(const std::string& spec) {
    rig.put(kBudgets, R"({"metadata":{"name":"b","namespace":"n"},"spec":{"selector":{"matchLabels":{"app":"web"}},)" +
                          spec + "}}");
  }
  void set(int replicas) {
    rig.put("replicasets.apps",
            R"({"metadata":{"name":"web","namespace":"n"},"spec":{"replicas":)" + std::to_string(replicas) + "}}");
  }
  void pod(const std::string& name, bool owned = true) {
    json::object tree =
        json::parse(R"({"metadata":{"namespace":"n","labels":{"app":"web"}},"spec":{"containers":[]}})").as_object();
    tree["metadata"].as_object()["name"] = name;
    if (owned)
      tree["metadata"].as_object()["ownerReferences"] =
          json::array{json::object{{"apiVersion", "apps/v1"},
                                   {"kind", "ReplicaSet"},
                                   {"name", "web"},
                                   {"uid", uid_text(rig.find("replicasets.apps", "web")->meta.uid)},
                                   {"controller", true}}};
    rig.put("pods", std::move(tree));
    rig.tell_pod(name, "Running", true);
  }
  void pod_of(const std::string& name, const char* version, const char* kind, const char* owner, const char* type) {
    json::object tree =
        json::parse(R"({"metadata":{"namespace":"n","labels":{"app":"web"}},"spec":{"containers":[]}})").as_object();
    tree["metadata"].as_object()["name"] = name;
    tree["metadata"].as_object()["ownerReferences"] =
        json::array{json::object{{"apiVersion", version},
                                 {"kind", kind},
                                 {"name", owner},
                                 {"uid", uid_text(rig.find(type, owner)->meta.uid)},
                                 {"controller", true}}};
    rig.put("pods", std::move(tree));
    rig.tell_pod(name, "Running", true);
  }
  std::int64_t number(const char* key) const { return rig.number(kBudgets, "b", key); }
};

// A pod that has gone is missed until its set has another: else every eviction would make room for the next.
TEST_F(Disruption, PartsAreOfWhatTheSetIsToHave) {
  set(3);
  for (const char* name : {"a", "b", "c"}) pod(name);
  budget(R"("maxUnavailable":1)");
  rig.run();
  EXPECT_EQ(number("expectedPods"), 3);
  EXPECT_EQ(number("disruptionsAllowed"), 1);
  rig.remove("pods", "a");
  rig.run();
  EXPECT_EQ(number("expectedPods"), 3);
  EXPECT_EQ(number("desiredHealthy"), 2);
  EXPECT_EQ(number("disruptionsAllowed"), 0);
}

TEST_F(Disruption, ANumberIsOfThePodsThatAreThere) {
  set(5);
  for (const char* name : {"a", "b", "c"}) pod(name);
  pod("nobodys", false);
  budget(R"("minAvailable":2)");
  rig.run();
  EXPECT_EQ(number("expectedPods"), 4);
  EXPECT_EQ(number("disruptionsAllowed"), 2);
  rig.edit(kBudgets, "b", [](json::object& tree) {
    tree["spec"].as_object().erase("minAvailable");
    tree["spec"].as_object()["minAvailable"] = "60%";
  });
  rig.run();
  EXPECT_EQ(number("expectedPods"), 5) << "pods of nobody are none";
  EXPECT_EQ(number("desiredHealthy"), 3);
}

TEST_F(Disruption, EvictedPodsAreNamedUntilTheyGo) {
  set(2);
  for (const char* name : {"a", "b"}) pod(name);
  budget(R"("maxUnavailable":2)");
  rig.edit(kBudgets, "b", [](json::object& tree) {
    tree["status"] = json::object{{"disruptedPods", {{"a", "2026-01-01T00:00:00Z"}}}};
  });
  rig.run();
  EXPECT_TRUE(part(rig.status(kBudgets, "b"), "disruptedPods").is_object());
  rig.remove("pods", "a");
  rig.run();
  EXPECT_FALSE(part(rig.status(kBudgets, "b"), "disruptedPods").is_object());
}

// Pods of nobody are expected by nobody: none of them may go.
TEST_F(Disruption, PodsOfNobodyAreProtectedByANumberAlone) {
  for (const char* name : {"a", "b", "c"}) pod(name, false);
  budget(R"("maxUnavailable":1)");
  rig.run();
  EXPECT_EQ(number("expectedPods"), 0);
  EXPECT_EQ(number("currentHealthy"), 3);
  EXPECT_EQ(number("disruptionsAllowed"), 0);
  EXPECT_TRUE(std::ranges::any_of(rig.events(), [](const std::string& event) {
    return event.starts_with(
        "UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: app=web) were found to be unmanaged.");
  }));
  rig.edit(kBudgets, "b", [](json::object& tree) {
    tree["spec"].as_object().erase("maxUnavailable");
    tree["spec"].as_object()["minAvailable"] = 2;
  });
  rig.run();
  EXPECT_EQ(number("disruptionsAllowed"), 1);
}

TEST_F(Disruption, WhoseControllerSaysNoNumberIsNotTakenAway) {
  rig.put("jobs.batch", R"({"metadata":{"name":"work","namespace":"n"},"spec":{"parallelism":3}})");
  for (const char* name : {"a", "b", "c"}) pod_of(name, "batch/v1", "Job", "work", "jobs.batch");
  budget(R"("maxUnavailable":1)");
  rig.run();
  EXPECT_EQ(number("disruptionsAllowed"), 0);
  EXPECT_EQ(rig.condition(kBudgets, "b", "DisruptionAllowed"), "False SyncFailed");
  EXPECT_EQ(std::ranges::count(rig.events(),
                               "CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods: "
                               "jobs.batch does not implement the scale subresource"),
            1);
  rig.edit(kBudgets, "b", [](json::object& tree) {
    tree["spec"].as_object().erase("maxUnavailable");
    tree["spec"].as_object()["minAvailable"] = 2;
  });
  rig.run();
  EXPECT_EQ(number("disruptionsAllowed"), 1) << "a number is of the pods that are there";
  EXPECT_EQ(rig.condition(kBudgets, "b", "DisruptionAllowed"), "True SufficientPods");
}

TEST_F(Disruption, CustomControllersAreAskedForTheirScale) {
  rig.put("customresourcedefinitions.apiextensions.k8s.io",
          R"({"metadata":{"name":"fleets.x.io"},"spec":{"group":"x.io","names":{"plural":"fleets","kind":"Fleet"},
          "versions":[{"name":"v1","subresources":{"scale":{"specReplicasPath":".spec.size"}}}]}})");
  rig.put("fleets.x.io", R"({"metadata":{"name":"f","namespace":"n"},"spec":{"size":4}})");
  for (const char* name : {"a", "b", "c"}) pod_of(name, "x.io/v1", "Fleet", "f", "fleets.x.io");
  budget(R"("maxUnavailable":"50%")");
  rig.run();
  EXPECT_EQ(number("expectedPods"), 4);
  EXPECT_EQ(number("desiredHealthy"), 2);
  EXPECT_EQ(number("disruptionsAllowed"), 1);
}

// Between an eviction and its pod's end the pod counts no more; one that stays after all is counted again.
TEST_F(Disruption, EvictedPodsThatStayAreCountedAgain) {
  set(3);
  for (const char* name : {"a", "b", "c"}) pod(name);
  budget(R"("maxUnavailable":1)");
  rig.run();
  EXPECT_EQ(number("disruptionsAllowed"), 1);
  rig.edit(kBudgets, "b", [&](json::object& tree) {
    tree["status"].as_object()["disruptedPods"] = json::object{{"a", time_text(rig.now, {})}};
  });
  rig.run();
  EXPECT_EQ(number("currentHealthy"), 2);
  EXPECT_EQ(number("disruptionsAllowed"), 0);
  rig.advance(minutes(2) + seconds(1));
  EXPECT_EQ(number("disruptionsAllowed"), 1);
}

}  // namespace
}  // namespace lockstep::kube
