#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/deployment_sets.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

constexpr const char *kDeployments = "deployments.apps", *kReplicas = "replicasets.apps";

std::string deployment(const std::string& more, int replicas = 4) {
  return R"({"metadata":{"name":"web","namespace":"n","annotations":{"team":"a"}},"spec":{"replicas":)" +
         std::to_string(replicas) + R"(,"progressDeadlineSeconds":600,"revisionHistoryLimit":2,)" + more +
         R"(,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
             "spec":{"containers":[{"name":"c","image":"one"}]}}}})";
}
constexpr const char* kRolling =
    R"("strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1,"maxUnavailable":1}})";
constexpr const char* kRecreate = R"("strategy":{"type":"Recreate"})";

WorkloadRig deployment_rig() { return WorkloadRig({replica_set_controller(), deployment_controller()}); }

void set_image(WorkloadRig& rig, const char* image) {
  rig.edit(kDeployments, "web", [&](json::object& tree) {
    tree["spec"].as_object()["template"].as_object()["spec"].as_object()["containers"] =
        json::array{json::object{{"name", "c"}, {"image", image}}};
  });
}

std::string image_of(const WorkloadRig& rig, const std::string& set) {
  return text_in(part(part(part(part(rig.tree(kReplicas, set), "spec"), "template"), "spec"), "containers").at(0),
                 "image");
}

std::string set_with(const WorkloadRig& rig, const char* image) {
  for (const std::string& name : rig.names(kReplicas))
    if (image_of(rig, name) == image)
      return name;
  return "";
}

std::int64_t size_of(const WorkloadRig& rig, const std::string& set) {
  return static_cast<std::int64_t>(number_of(part(part(rig.tree(kReplicas, set), "spec"), "replicas")));
}

// The rollout step by step: pods become ready one round after another.
void settle_rollout(WorkloadRig& rig, int rounds = 20) {
  for (int i = 0; i < rounds; ++i) rig.ready_all();
}

TEST(Deployments, MakeASetAndTellOfIt) {
  WorkloadRig rig = deployment_rig();
  rig.put(kDeployments, deployment(kRolling));
  rig.run();
  ASSERT_EQ(rig.names(kReplicas).size(), 1u);
  const std::string set = rig.names(kReplicas)[0];
  const json::object tree = rig.tree(kReplicas, set);
  const std::string hash = text_in(part(part(tree, "metadata"), "labels"), "pod-template-hash");
  EXPECT_EQ(set, "web-" + hash);
  EXPECT_EQ(text_in(part(part(part(tree, "spec"), "selector"), "matchLabels"), "pod-template-hash"), hash);
  EXPECT_EQ(part(part(tree, "metadata"), "annotations"),
            (json::object{{"deployment.kubernetes.io/desired-replicas", "4"},
                          {"deployment.kubernetes.io/max-replicas", "5"},
                          {"deployment.kubernetes.io/revision", "1"},
                          {"team", "a"}}));
  EXPECT_EQ(rig.names("pods").size(), 4u);
  EXPECT_EQ(rig.condition(kDeployments, "web", "Available"), "False MinimumReplicasUnavailable");
  EXPECT_EQ(rig.condition(kDeployments, "web", "Progressing"), "True ReplicaSetUpdated");
  rig.ready_all();
  EXPECT_EQ(rig.condition(kDeployments, "web", "Available"), "True MinimumReplicasAvailable");
  EXPECT_EQ(rig.condition(kDeployments, "web", "Progressing"), "True NewReplicaSetAvailable");
  EXPECT_EQ(rig.number(kDeployments, "web", "availableReplicas"), 4);
  EXPECT_EQ(rig.number(kDeployments, "web", "updatedReplicas"), 4);
  EXPECT_EQ(text_in(part(part(rig.tree(kDeployments, "web"), "metadata"), "annotations"), kRevision), "1");
  EXPECT_TRUE(std::ranges::count(rig.events(), "ScalingReplicaSet: Scaled up replica set " + set + " from 0 to 4"));
  EXPECT_EQ(rig.run(), 0);
}

TEST(Deployments, RollWithinTheirBounds) {
  WorkloadRig rig = deployment_rig();
  rig.put(kDeployments, deployment(kRolling));
  rig.run();
  rig.ready_all();
  set_image(rig, "two");
  rig.run();
  const std::string old = set_with(rig, "one"), fresh = set_with(rig, "two");
  EXPECT_EQ(size_of(rig, fresh), 2) << "one more than wanted, and one of the old ones may go";
  EXPECT_EQ(size_of(rig, old), 3);
  for (int i = 0; i < 10; ++i) {
    rig.ready_all();
    EXPECT_LE(size_of(rig, old) + size_of(rig, fresh), 5);
    EXPECT_GE(rig.number(kDeployments, "web", "availableReplicas"), 3);
  }
  EXPECT_EQ(size_of(rig, old), 0);
  EXPECT_EQ(size_of(rig, fresh), 4);
  EXPECT_EQ(rig.condition(kDeployments, "web", "Progressing"), "True NewReplicaSetAvailable");
  // Back to the first template: the old set is taken again, as the newest.
  set_image(rig, "one");
  rig.run();
  settle_rollout(rig);
  EXPECT_EQ(rig.names(kReplicas).size(), 2u);
  EXPECT_EQ(size_of(rig, old), 4);
  const json::value marks = part(part(rig.tree(kReplicas, old), "metadata"), "annotations");
  EXPECT_EQ(text_in(marks, kRevision), "3");
  EXPECT_EQ(text_in(marks, kRevisionHistory), "1");
  EXPECT_EQ(text_in(part(part(rig.tree(kDeployments, "web"), "metadata"), "annotations"), kRevision), "3");
}

TEST(Deployments, UnhealthyOldPodsGoFirst) {
  WorkloadRig rig = deployment_rig();
  rig.put(kDeployments, deployment(kRolling));
  rig.run();
  set_image(rig, "two");  // none of the first ones ever became ready
  rig.run();
  const std::string old = set_with(rig, "one"), fresh = set_with(rig, "two");
  EXPECT_EQ(size_of(rig, old), 3);
  EXPECT_EQ(size_of(rig, fresh), 2);
  for (const std::string& name : rig.pods_of(kReplicas, fresh)) rig.tell_pod(name, "Running", true);
  rig.run();
  EXPECT_EQ(size_of(rig, old), 1) << "those that are not available are missed by nobody";
  EXPECT_EQ(size_of(rig, fresh), 4);
}

TEST(Deployments, RecreateWaitsForTheLastOldPod) {
  WorkloadRig rig = deployment_rig();
  rig.put(kDeployments, deployment(kRecreate));
  rig.run();
  rig.ready_all();
  rig.linger = true;
  set_image(rig, "two");
  rig.run();
  EXPECT_EQ(set_with(rig, "two"), "");
  rig.finish_deletions();
  rig.run();
  EXPECT_EQ(size_of(rig, set_with(rig, "two")), 4);
}

TEST(Deployments, ScaleInProportionInTheMiddleOfARollout) {
  WorkloadRig rig = deployment_rig();
  rig.put(kDeployments,
          deployment(R"("strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":3,"maxUnavailable":2}})", 10));
  rig.run();
  rig.ready_all();
  set_image(rig, "two");
  rig.run();
  const std::string old = set_with(rig, "one"), fresh = set_with(rig, "two");
  ASSERT_EQ(size_of(rig, old), 8);
  ASSERT_EQ(size_of(rig, fresh), 5);
  rig.edit(kDeployments, "web", [](json::object& tree) { tree["spec"].as_object()["replicas"] = 15; });
  rig.run();
  EXPECT_EQ(size_of(rig, old), 11) << "the documented example";
  EXPECT_EQ(size_of(rig, fresh), 7);
}

TEST(Deployments, PausedOnesAreScaledAndNotRolled) {
  WorkloadRig rig = deployment_rig();
  rig.put(kDeployments, deployment(kRolling));
  rig.run();
  rig.ready_all();
  rig.edit(kDeployments, "web", [](json::object& tree) { tree["spec"].as_object()["paused"] = true; });
  set_image(rig, "two");
  rig.run();
  EXPECT_EQ(rig.names(kReplicas).size(), 1u);
  EXPECT_EQ(rig.condition(kDeployments, "web", "Progressing"), "Unknown DeploymentPaused");
  rig.edit(kDeployments, "web", [](json::object& tree) { tree["spec"].as_object()["replicas"] = 6; });
  rig.run();
  EXPECT_EQ(rig.names("pods").size(), 6u);
  rig.edit(kDeployments, "web", [](json::object& tree) { tree["spec"].as_object().erase("paused"); });
  rig.run();
  EXPECT_NE(set_with(rig, "two"), "");
}

TEST(Deployments, OldSetsBeyondTheHistoryGo) {
  WorkloadRig rig = deployment_rig();
  rig.put(kDeployments, deployment(kRolling));
  for (const char* image : {"one", "two", "three", "four", "five"}) {
    set_image(rig, image);
    rig.run();
    settle_rollout(rig);
  }
  EXPECT_EQ(rig.names(kReplicas).size(), 3u);
  EXPECT_EQ(set_with(rig, "two"), "");
  EXPECT_NE(set_with(rig, "three"), "");
}

TEST(Deployments, NoProgressIsToldAtTheDeadline) {
  WorkloadRig rig = deployment_rig();
  rig.put(kDeployments, deployment(kRolling));
  rig.run();
  rig.advance(seconds(590));
  EXPECT_EQ(rig.condition(kDeployments, "web", "Progressing"), "True ReplicaSetUpdated");
  rig.advance(seconds(20));
  EXPECT_EQ(rig.condition(kDeployments, "web", "Progressing"), "False ProgressDeadlineExceeded");
  rig.ready_all();
  EXPECT_EQ(rig.condition(kDeployments, "web", "Progressing"), "True NewReplicaSetAvailable");
}

TEST(Deployments, ATakenNameIsAvoided) {
  WorkloadRig rig = deployment_rig();
  rig.put(kDeployments, deployment(kRolling));
  rig.run();
  const std::string first = rig.names(kReplicas)[0];
  rig.remove(kDeployments, "web");
  // The same name again, of somebody who is gone: it is not the new Deployment's.
  rig.put(kDeployments, deployment(kRolling));
  rig.run();
  EXPECT_EQ(rig.names(kReplicas).size(), 2u);
  EXPECT_EQ(rig.number(kDeployments, "web", "collisionCount"), 1);
}

}  // namespace
}  // namespace lockstep::kube
