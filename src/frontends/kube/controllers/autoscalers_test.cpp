#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

constexpr const char* kScalers = "horizontalpodautoscalers.autoscaling";

json::object autoscaler(std::int64_t least, std::int64_t most) {
  return {
      {"metadata", {{"name", "a"}, {"namespace", "n"}}},
      {"spec",
       {{"scaleTargetRef", {{"apiVersion", "apps/v1"}, {"kind", "Deployment"}, {"name", "web"}}},
        {"minReplicas", least},
        {"maxReplicas", most},
        {"metrics",
         json::array{json::object{
             {"type", "Resource"},
             {"resource", {{"name", "cpu"}, {"target", {{"type", "Utilization"}, {"averageUtilization", 50}}}}}}}}}}};
}

json::object deployment(std::int64_t replicas) {
  return {{"metadata", {{"name", "web"}, {"namespace", "n"}}},
          {"spec", {{"replicas", replicas}, {"selector", {{"matchLabels", {{"app", "web"}}}}}}}};
}

json::object pod_of_web(const std::string& name) {
  return {
      {"metadata", {{"name", name}, {"namespace", "n"}, {"labels", {{"app", "web"}}}}},
      {"spec",
       {{"containers", json::array{json::object{{"name", "c"}, {"resources", {{"requests", {{"cpu", "100m"}}}}}}}}}}};
}

std::int64_t replicas_of(const WorkloadRig& rig) {
  const json::object tree = rig.tree("deployments.apps", "web");
  return static_cast<std::int64_t>(number_of(part(part(tree, "spec"), "replicas")));
}

TEST(Autoscalers, KeepWithinTheirBoundsWithoutAnyMetric) {
  WorkloadRig rig({autoscaler_controller({})});
  rig.put("deployments.apps", deployment(9));
  rig.put(kScalers, autoscaler(2, 4));
  rig.run();
  EXPECT_EQ(replicas_of(rig), 4);
  EXPECT_EQ(rig.condition(kScalers, "a", "AbleToScale"), "True SucceededRescale");
  EXPECT_EQ(rig.number(kScalers, "a", "desiredReplicas"), 4);
  rig.edit("deployments.apps", "web", [](json::object& tree) { tree["spec"].as_object()["replicas"] = 1; });
  rig.advance(seconds(20));
  EXPECT_EQ(replicas_of(rig), 2);
  const auto told = rig.events();
  EXPECT_NE(std::ranges::find(told,
                              "SuccessfulRescale: New size: 4; reason: Current number of replicas above "
                              "Spec.MaxReplicas"),
            told.end());
}

TEST(Autoscalers, SayWhyTheyDoNothing) {
  WorkloadRig rig({autoscaler_controller({})});
  rig.put(kScalers, autoscaler(1, 4));
  rig.run();
  EXPECT_EQ(rig.condition(kScalers, "a", "AbleToScale"), "False FailedGetScale");
  rig.put("deployments.apps", deployment(0));
  rig.advance(seconds(20));
  EXPECT_EQ(rig.condition(kScalers, "a", "AbleToScale"), "True SucceededGetScale");
  EXPECT_EQ(rig.condition(kScalers, "a", "ScalingActive"), "False ScalingDisabled");
  rig.edit("deployments.apps", "web", [](json::object& tree) { tree["spec"].as_object()["replicas"] = 2; });
  rig.advance(seconds(20));
  EXPECT_EQ(rig.condition(kScalers, "a", "ScalingActive"), "False FailedGetResourceMetric");
  rig.put("pods", pod_of_web("p1"));
  rig.tell_pod("p1", "Running", true);
  rig.advance(seconds(20));
  const json::object tree = rig.tree(kScalers, "a");
  const json::value status = part(tree, "status");
  const json::value* active = find_condition(status.get_object(), "ScalingActive");
  ASSERT_NE(active, nullptr);
  EXPECT_EQ(text_in(*active, "message"),
            "the HPA was unable to compute the replica count: failed to get cpu utilization: did not receive metrics "
            "for targeted pods (pods might be unready)");
  EXPECT_EQ(replicas_of(rig), 2);
}

}  // namespace
}  // namespace lockstep::kube
