#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

constexpr const char* kSets = "replicasets.apps";
constexpr const char* kSet =
    R"({"metadata":{"name":"web","namespace":"n"},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},
        "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}})";

WorkloadRig set_rig() { return WorkloadRig({replica_set_controller(), replication_controller()}); }

void resize(WorkloadRig& rig, int replicas) {
  rig.edit(kSets, "web", [&](json::object& tree) { tree["spec"].as_object()["replicas"] = replicas; });
  rig.run();
}

TEST(ReplicaSets, MakeTheirPodsAndTellOfThem) {
  WorkloadRig rig = set_rig();
  rig.put(kSets, kSet);
  rig.run();
  const auto pods = rig.names("pods");
  ASSERT_EQ(pods.size(), 3u);
  const json::object pod = rig.tree("pods", pods[0]);
  EXPECT_EQ(text_in(part(pod, "metadata"), "generateName"), "web-");
  const json::value& owner = part(pod, "metadata").at("ownerReferences").at(0);
  EXPECT_EQ(text_in(owner, "kind"), "ReplicaSet");
  EXPECT_EQ(text_in(owner, "apiVersion"), "apps/v1");
  EXPECT_EQ(text_in(owner, "uid"), uid_text(rig.find(kSets, "web")->meta.uid));
  EXPECT_EQ(rig.status(kSets, "web"),
            (json::object{{"replicas", 3}, {"fullyLabeledReplicas", 3}, {"observedGeneration", 1}}));
  EXPECT_EQ(rig.events().size(), 3u);
  EXPECT_TRUE(rig.events()[0].starts_with("SuccessfulCreate: Created pod: web-"));
  rig.ready_all();
  EXPECT_EQ(rig.number(kSets, "web", "readyReplicas"), 3);
  EXPECT_EQ(rig.number(kSets, "web", "availableReplicas"), 3);
  EXPECT_EQ(rig.run(), 0);
}

TEST(ReplicaSets, ReplaceWhatEndsAndNeverReuseNames) {
  WorkloadRig rig = set_rig();
  rig.put(kSets, kSet);
  rig.run();
  const auto first = rig.names("pods");
  rig.remove("pods", first[0]);
  rig.tell_pod(first[1], "Failed", false, 1);
  rig.run();
  const auto then = rig.names("pods");
  EXPECT_EQ(then.size(), 4u) << "the failed one stays to be looked at";
  EXPECT_EQ(std::ranges::count(then, first[0]), 0);
  EXPECT_EQ(rig.number(kSets, "web", "replicas"), 3);
}

TEST(ReplicaSets, ScaleDownTakesThoseThatAreMissedLeast) {
  WorkloadRig rig = set_rig();
  rig.put(kSets, kSet);
  rig.run();
  const auto pods = rig.names("pods");
  rig.tell_pod(pods[0], "Running", false);
  rig.tell_pod(pods[1], "Running", true);
  rig.run();
  resize(rig, 2);
  EXPECT_EQ(rig.names("pods"), (std::vector<std::string>{pods[0], pods[1]})) << "the pending one goes first";
  resize(rig, 1);
  EXPECT_EQ(rig.names("pods"), (std::vector<std::string>{pods[1]})) << "then the one that is not ready";
  resize(rig, 0);
  EXPECT_TRUE(rig.names("pods").empty());
  EXPECT_EQ(rig.number(kSets, "web", "observedGeneration"), 4);
}

TEST(ReplicaSets, AdoptAndRelease) {
  WorkloadRig rig = set_rig();
  rig.put(
      "pods",
      R"({"metadata":{"name":"orphan","namespace":"n","labels":{"app":"web"}},"spec":{"containers":[]},"status":{"phase":"Pending"}})");
  rig.put(kSets, kSet);
  rig.run();
  EXPECT_EQ(rig.names("pods").size(), 3u);
  EXPECT_EQ(rig.pods_of(kSets, "web").size(), 3u);
  rig.edit("pods", "orphan", [](json::object& tree) {
    tree["metadata"].as_object()["labels"] = json::object{{"app", "other"}};
  });
  rig.run();
  EXPECT_EQ(rig.names("pods").size(), 4u);
  EXPECT_EQ(rig.pods_of(kSets, "web").size(), 3u);
  EXPECT_FALSE(rig.tree("pods", "orphan")["metadata"].as_object().contains("ownerReferences"));
}

TEST(ReplicaSets, AvailableAfterMinReadySeconds) {
  WorkloadRig rig = set_rig();
  rig.put(kSets, kSet);
  rig.edit(kSets, "web", [](json::object& tree) { tree["spec"].as_object()["minReadySeconds"] = 10; });
  rig.run();
  rig.ready_all();
  EXPECT_EQ(rig.number(kSets, "web", "readyReplicas"), 3);
  EXPECT_EQ(rig.number(kSets, "web", "availableReplicas"), 0);
  rig.advance(seconds(9));
  EXPECT_EQ(rig.number(kSets, "web", "availableReplicas"), 0);
  rig.advance(seconds(2));
  EXPECT_EQ(rig.number(kSets, "web", "availableReplicas"), 3);
}

TEST(ReplicaSets, AFullQuotaIsToldAndTriedAgain) {
  WorkloadRig rig({replication_controller(), quota_controller()});
  rig.put("resourcequotas", R"({"metadata":{"name":"q","namespace":"n"},"spec":{"hard":{"pods":"2"}}})");
  rig.run();
  rig.put("replicationcontrollers",
          R"({"metadata":{"name":"web","namespace":"n"},"spec":{"replicas":3,"selector":{"app":"web"},
              "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}})");
  rig.run();
  EXPECT_EQ(rig.names("pods").size(), 2u);
  EXPECT_EQ(rig.condition("replicationcontrollers", "web", "ReplicaFailure"), "True FailedCreate");
  EXPECT_TRUE(std::ranges::any_of(rig.events(), [](const std::string& event) {
    return event.starts_with("FailedCreate: Error creating: pods \"web-") &&
           event.ends_with("is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2");
  }));
  rig.edit("replicationcontrollers", "web", [](json::object& tree) { tree["spec"].as_object()["replicas"] = 2; });
  rig.run();
  EXPECT_EQ(rig.condition("replicationcontrollers", "web", "ReplicaFailure"), "");
  rig.edit("replicationcontrollers", "web", [](json::object& tree) { tree["spec"].as_object()["replicas"] = 3; });
  rig.edit("resourcequotas", "q",
           [](json::object& tree) { tree["spec"].as_object()["hard"].as_object()["pods"] = "5"; });
  rig.advance(minutes(2));
  EXPECT_EQ(rig.names("pods").size(), 3u);
}

TEST(ReplicaSets, ADoubledControllerMakesNothingTwice) {
  WorkloadRig rig = set_rig();
  Reconcilers second({replica_set_controller()});
  second.restart({});
  const std::vector<Change> before = rig.tables.snapshot();
  second.observe(before);
  rig.put(kSets, kSet);
  const Change set{rig.tables.seq, rig.find(kSets, "web"), false};
  second.observe({&set, 1});
  const Actor::Turn late = second.step(rig.now, {});
  ASSERT_FALSE(late.asks.empty());
  rig.run();
  const auto pods = rig.names("pods");
  for (const Actor::Ask& ask : late.asks) EXPECT_FALSE(rig.apply(ask).ok());
  EXPECT_EQ(rig.names("pods"), pods);
}

// As a node does that has no room for a pod which was bound to it by name, or no address for its sandbox.
void refuse_all(WorkloadRig& rig, bool has_statuses = false) {
  for (const std::string& name : rig.names("pods"))
    if (text_in(rig.status("pods", name), "phase") != "Failed")
      rig.edit("pods", name, [&](json::object& tree) {
        json::object status{{"phase", "Failed"}, {"reason", "NodePorts"}};
        if (has_statuses)
          status["containerStatuses"] =
              json::array{json::object{{"name", "c"}, {"state", {{"waiting", {{"reason", "ContainerCreating"}}}}}}};
        tree["status"] = std::move(status);
      });
  rig.run();
}

TEST(ReplicaSets, PodsThatAreRefusedAreMadeAgainLaterAndLater) {
  WorkloadRig rig = set_rig();
  rig.put(kSets, kSet);
  resize(rig, 1);
  ASSERT_EQ(rig.names("pods").size(), 1u);
  refuse_all(rig);
  EXPECT_EQ(rig.names("pods").size(), 1u);
  rig.advance(seconds(1));
  EXPECT_EQ(rig.names("pods").size(), 2u);
  refuse_all(rig, true);
  rig.advance(millis(1500));
  EXPECT_EQ(rig.names("pods").size(), 2u);
  rig.advance(millis(600));
  EXPECT_EQ(rig.names("pods").size(), 3u);
}

// What vanishes at once (a taint that is not borne for long, somebody who deletes) is made more and more slowly.
TEST(ReplicaSets, PodsThatVanishAtOnceAreMadeMoreAndMoreSlowly) {
  WorkloadRig rig = set_rig();
  rig.put(kSets, kSet);
  const Instant end = rig.now + minutes(2);
  int made = 0;
  while (rig.now < end) {
    rig.advance(millis(100));
    for (const std::string& name : rig.names("pods")) {
      ++made;
      rig.remove("pods", name);
    }
  }
  EXPECT_GE(made, 18) << "some are free";
  EXPECT_LE(made, 45);
  const auto told = rig.events();
  EXPECT_EQ(std::ranges::count(
                told, "BackOff: Back-off making pods: the last ones have gone or failed soon after they were made"),
            1);
  rig.advance(minutes(2));
  EXPECT_EQ(rig.names("pods").size(), 3u) << "in the end they are there";
  rig.advance(minutes(6));
  rig.remove("pods", rig.names("pods")[0]);
  rig.run();
  EXPECT_EQ(rig.names("pods").size(), 3u) << "and after a while nothing is held against it";
}

TEST(ReplicaSets, PodsThatFailAtOnceAreMadeMoreAndMoreSlowly) {
  WorkloadRig rig = set_rig();
  rig.put(kSets, kSet);
  const Instant end = rig.now + minutes(1);
  while (rig.now < end) {
    rig.advance(millis(100));
    for (const std::string& name : rig.names("pods"))
      if (text_in(rig.status("pods", name), "phase") != "Failed")
        rig.tell_pod(name, "Failed", false, 1);
  }
  EXPECT_LE(rig.names("pods").size(), 45u);
}

TEST(ReplicaSets, ManyAtOnceAreNotHeldUp) {
  WorkloadRig rig = set_rig();
  rig.put(kSets, kSet);
  for (int size = 10; size <= 160; size *= 2) {
    resize(rig, size);
    EXPECT_EQ(rig.names("pods").size(), static_cast<std::size_t>(size));
  }
  resize(rig, 0);
  resize(rig, 160);
  EXPECT_EQ(rig.names("pods").size(), 160u);
}

}  // namespace
}  // namespace lockstep::kube
