#include "frontends/kube/kinds/quota.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace lockstep::kube {
namespace {

json::object tree(const std::string& text) { return json::parse(text).as_object(); }

bool takes(const std::string& scope, const std::string& spec) {
  return quota_takes(
      tree(R"({"spec":{"scopeSelector":{"matchExpressions":[{"operator":"Exists","scopeName":")" + scope + R"("}]}}})"),
      "pods", tree(R"({"spec":)" + spec + "}"));
}

TEST(Quotas, ScopesTakeTheirPodsIn) {
  EXPECT_TRUE(takes("Terminating", R"({"activeDeadlineSeconds":5})"));
  EXPECT_FALSE(takes("Terminating", "{}"));
  EXPECT_TRUE(takes("BestEffort", R"({"containers":[{"name":"a"}]})"));
  EXPECT_FALSE(takes("BestEffort", R"({"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]})"));
  EXPECT_FALSE(takes("NoSuch", "{}"));
}

TEST(Quotas, OfAffinitiesThoseCountThatLookIntoOtherNamespaces) {
  const auto required = [](const std::string& term) {
    return R"({"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[)" + term + "]}}}";
  };
  const auto preferred = [](const std::string& term) {
    return R"({"affinity":{"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":)" +
           term + "}]}}}";
  };
  for (const char* across :
       {R"({"topologyKey":"k","namespaces":["x"]})", R"({"topologyKey":"k","namespaceSelector":{}})"}) {
    EXPECT_TRUE(takes("CrossNamespacePodAffinity", required(across))) << across;
    EXPECT_TRUE(takes("CrossNamespacePodAffinity", preferred(across))) << across;
  }
  for (const char* own : {R"({"topologyKey":"k"})", R"({"topologyKey":"k","namespaces":[]})"})
    EXPECT_FALSE(takes("CrossNamespacePodAffinity", required(own))) << own;
  EXPECT_FALSE(takes("CrossNamespacePodAffinity", "{}"));
}

}  // namespace
}  // namespace lockstep::kube
