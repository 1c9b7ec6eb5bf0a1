#include <gtest/gtest.h>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

constexpr const char* kPolicies = "validatingadmissionpolicies.admissionregistration.k8s.io";

struct PolicyRig : WorkloadRig {
  PolicyRig() : WorkloadRig({policy_type_controller()}) {}
  // What is told of a policy for Deployments with these validations.
  json::value told(const std::string& validations, const char* resource = "deployments") {
    put(kPolicies,
        R"({"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"resources":[")" +
            std::string(resource) + R"("]}]},"validations":)" + validations + "}}");
    run();
    const auto found = tables.objects.find({kPolicies, "", "p"});
    return part(tree_of(*found->second, {"", ""}, {}), "status");
  }
};

TEST(PolicyTypes, WhatHasTheRightTypesIsFine) {
  PolicyRig rig;
  const json::value status = rig.told(R"([{"expression":"object.spec.replicas > 1 && variables.x == params.y"}])");
  EXPECT_EQ(json::serialize(status), R"({"typeChecking":{},"observedGeneration":1})");
}

TEST(PolicyTypes, ConfusedOnesAreNamed) {
  PolicyRig rig;
  const json::value status = rig.told(
      R"([{"expression":"object.spec.replicas > '1'","messageExpression":"'got ' + object.spec.replicas"},
          {"expression":"object.spec.nosuch == 1"}])");
  const json::array* warnings = member_array(part(status, "typeChecking"), "expressionWarnings");
  ASSERT_TRUE(warnings && warnings->size() == 3) << json::serialize(status);
  const std::pair<const char*, const char*> wanted[] = {
      {"spec.validations[0].expression", "found no matching overload for '_>_' applied to '(int, string)'"},
      {"spec.validations[0].messageExpression", "found no matching overload for '_+_' applied to '(string, int)'"},
      {"spec.validations[1].expression", "undefined field 'nosuch'"},
  };
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(text_in(warnings->at(i), "fieldRef"), wanted[i].first);
    const std::string words = text_in(warnings->at(i), "warning");
    EXPECT_TRUE(words.starts_with("apps/v1, Kind=Deployment: ")) << words;
    EXPECT_NE(words.find(wanted[i].second), std::string::npos) << words;
  }
}

TEST(PolicyTypes, WildcardsAreNotChecked) {
  PolicyRig rig;
  EXPECT_EQ(json::serialize(rig.told(R"([{"expression":"object.spec.nosuch == 1"}])", "*")),
            R"({"typeChecking":{},"observedGeneration":1})");
}

}  // namespace
}  // namespace lockstep::kube
