#include <gtest/gtest.h>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

constexpr const char* kType = "servicecidrs.networking.k8s.io";

struct RangeRig : WorkloadRig {
  RangeRig() : WorkloadRig({service_range_controller()}) {}
  std::string ready(const char* name) {
    const auto found = tables.objects.find({kType, "", name});
    const json::object tree = tree_of(*found->second, {"", ""}, {});
    const json::array* all = member_array(part(tree, "status"), "conditions");
    if (!all || all->size() != 1)
      return "not told";
    return text_in(all->at(0), "type") + "=" + text_in(all->at(0), "status") + " " + text_in(all->at(0), "message");
  }
};

TEST(ServiceRanges, TheClustersOwnIsReadyAndNoOther) {
  RangeRig rig;
  rig.put(kType, R"({"metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.96.0.0/16"]}})");
  rig.put(kType, R"({"metadata":{"name":"more"},"spec":{"cidrs":["10.1.0.0/16"]}})");
  rig.run();
  EXPECT_EQ(rig.ready("kubernetes"), "Ready=True Kubernetes Service CIDR is ready");
  EXPECT_EQ(rig.ready("more"), "Ready=False Services get their addresses from the range of \"kubernetes\" alone");
}

}  // namespace
}  // namespace lockstep::kube
