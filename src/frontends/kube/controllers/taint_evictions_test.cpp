#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

struct TimedEvictions : testing::Test {
  WorkloadRig rig{{taint_eviction_controller()}};

  void taint() {
    rig.put("nodes", R"({"metadata":{"name":"n1"},"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}})");
    rig.run();
  }
  // One that bears the taint for so long, and has its node now.
  void pod(const std::string& name, int seconds) {
    json::object tree =
        json::parse(
            R"({"metadata":{"namespace":"n"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}})")
            .as_object();
    tree["metadata"].as_object()["name"] = name;
    tree["spec"].as_object()["tolerations"] = json::array{
        json::object{{"key", "k"}, {"operator", "Exists"}, {"effect", "NoExecute"}, {"tolerationSeconds", seconds}}};
    tree["status"] = json::object{
        {"phase", "Running"},
        {"conditions",
         json::array{json::object{
             {"type", "PodScheduled"}, {"status", "True"}, {"lastTransitionTime", time_text(rig.now, {})}}}}};
    rig.put("pods", std::move(tree));
    rig.edit("nodes", "n1", [](json::object& node) {
      node["metadata"].as_object()["annotations"] = json::object{{"seen", "1"}};
    });
    rig.run();
  }
};

TEST_F(TimedEvictions, ThePodBearsATaintSinceBothAreThere) {
  taint();
  rig.advance(minutes(10));
  pod("late", 30);
  rig.advance(seconds(28));
  EXPECT_NE(rig.find("pods", "late"), nullptr) << "the taint is older, and was not borne";
  rig.advance(seconds(4));
  EXPECT_EQ(rig.find("pods", "late"), nullptr);
}

TEST_F(TimedEvictions, ATaintThatComesLaterIsBorneFromThenOn) {
  rig.put("nodes", R"({"metadata":{"name":"n1"},"spec":{}})");
  pod("early", 30);
  rig.advance(minutes(10));
  rig.edit("nodes", "n1", [](json::object& node) {
    node["spec"].as_object()["taints"] = json::array{json::object{{"key", "k"}, {"effect", "NoExecute"}}};
  });
  rig.advance(seconds(28));
  EXPECT_NE(rig.find("pods", "early"), nullptr);
  rig.advance(seconds(4));
  EXPECT_EQ(rig.find("pods", "early"), nullptr);
}

}  // namespace
}  // namespace lockstep::kube
