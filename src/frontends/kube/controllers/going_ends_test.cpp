#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

// A Service over pods that are ready, of which one is being deleted.
struct GoingEnds : testing::Test {
  WorkloadRig rig{{endpoint_controller()}};

  void service(bool tells_all) {
    json::object tree = json::parse(R"({"metadata":{"name":"web","namespace":"n"},"spec":{"selector":{"app":"web"},
        "ports":[{"port":80,"protocol":"TCP"}]}})")
                            .as_object();
    tree["spec"].as_object()["publishNotReadyAddresses"] = tells_all;
    rig.put("services", std::move(tree));
  }
  void pod(const std::string& name, const std::string& address) {
    json::object tree = json::parse(R"({"metadata":{"namespace":"n","labels":{"app":"web"}},
        "spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}})")
                            .as_object();
    tree["metadata"].as_object()["name"] = name;
    tree["status"] = json::object{{"phase", "Running"}, {"podIP", address}};
    tree["status"].as_object()["conditions"] = json::array{json::object{{"type", "Ready"}, {"status", "True"}}};
    rig.put("pods", std::move(tree));
  }
  void two_of_which_one_goes() {
    rig.linger = true;
    pod("stays", "10.0.0.1");
    pod("goes", "10.0.0.2");
    rig.remove("pods", "goes");
    rig.run();
  }
  std::string conditions(const std::string& pod) const {
    const std::string slice = rig.names("endpointslices.discovery.k8s.io").at(0);
    const json::object tree = rig.tree("endpointslices.discovery.k8s.io", slice);
    for (const json::value& end : part(tree, "endpoints").as_array())
      if (text_in(part(end, "targetRef"), "name") == pod)
        return json::serialize(part(end, "conditions"));
    return "";
  }
};

TEST_F(GoingEnds, ServeAsLongAsTheyAreReady) {
  service(false);
  two_of_which_one_goes();
  EXPECT_EQ(conditions("stays"), R"({"ready":true,"serving":true,"terminating":false})");
  EXPECT_EQ(conditions("goes"), R"({"ready":false,"serving":true,"terminating":true})");
  const json::object endpoints = rig.tree("endpoints", "web");
  const json::value& subset = part(endpoints, "subsets").at(0);
  EXPECT_EQ(part(subset, "addresses").as_array().size(), 1u);
  EXPECT_TRUE(part(subset, "notReadyAddresses").is_null()) << "the older object knows none that go";
}

TEST_F(GoingEnds, AreToldAsReadyWhereAllAre) {
  service(true);
  two_of_which_one_goes();
  EXPECT_EQ(conditions("goes"), R"({"ready":true,"serving":true,"terminating":true})");
  const json::object endpoints = rig.tree("endpoints", "web");
  EXPECT_EQ(part(part(endpoints, "subsets").at(0), "addresses").as_array().size(), 2u);
}

}  // namespace
}  // namespace lockstep::kube
