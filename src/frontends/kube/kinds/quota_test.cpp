#include "frontends/kube/kinds/quota.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "frontends/kube/kinds/rules.h"

namespace lockstep::kube {
namespace {

json::object quota_tree(const std::string& text) { return json::parse(text).as_object(); }

bool takes(const std::string& scope, const std::string& spec) {
  return quota_takes(quota_tree(R"({"spec":{"scopeSelector":{"matchExpressions":[{"operator":"Exists","scopeName":")" +
                                scope + R"("}]}}})"),
                     "pods", quota_tree(R"({"spec":)" + spec + "}"));
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

std::string names(const Amounts& amounts) {
  std::string out;
  for (const auto& [name, amount] : amounts) out += name + "=" + amount.text() + " ";
  return out;
}

TEST(Quotas, OfExtendedResourcesRequestsCount) {
  EXPECT_EQ(names(amounts_of("pods", quota_tree(R"({"spec":{"containers":[{"name":"a","resources":{
      "requests":{"cpu":"1","nvidia.com/gpu":"2","hugepages-2Mi":"4Mi","kubernetes.io/x":"1"},
      "limits":{"cpu":"2","nvidia.com/gpu":"2","hugepages-2Mi":"4Mi"}}}]}})"))),
            "count/pods=1 cpu=1 hugepages-2Mi=4Mi limits.cpu=2 pods=1 requests.cpu=1 requests.hugepages-2Mi=4Mi "
            "requests.nvidia.com/gpu=2 ");
}

TEST(Quotas, AttributeClassesAreAScopeOfClaims) {
  const auto claims = [](const char* expression, const char* claim) {
    return quota_takes(
        quota_tree(
            std::string(R"({"spec":{"scopeSelector":{"matchExpressions":[{"scopeName":"VolumeAttributesClass",)") +
            expression + "}]}}}"),
        "persistentvolumeclaims", quota_tree(claim));
  };
  constexpr const char* kGold = R"({"spec":{"volumeAttributesClassName":"gold"}})";
  constexpr const char* kChanges =
      R"({"spec":{"volumeAttributesClassName":"gold"},"status":{"currentVolumeAttributesClassName":"iron"}})";
  EXPECT_TRUE(claims(R"("operator":"Exists")", kGold));
  EXPECT_FALSE(claims(R"("operator":"Exists")", R"({"spec":{}})"));
  EXPECT_TRUE(claims(R"("operator":"DoesNotExist")", R"({"spec":{}})"));
  EXPECT_TRUE(claims(R"("operator":"In","values":["gold"])", kGold));
  EXPECT_FALSE(claims(R"("operator":"In","values":["iron"])", kGold));
  EXPECT_TRUE(claims(R"("operator":"In","values":["iron"])", kChanges)) << "until the change is done";
  EXPECT_TRUE(claims(R"("operator":"NotIn","values":["iron"])", kGold));
  EXPECT_TRUE(quota_takes(quota_tree(R"({"spec":{"scopes":["VolumeAttributesClass"]}})"), "persistentvolumeclaims",
                          quota_tree(kGold)));
  EXPECT_FALSE(
      quota_takes(quota_tree(R"({"spec":{"scopes":["BestEffort"]}})"), "persistentvolumeclaims", quota_tree(kGold)));
  EXPECT_FALSE(quota_takes(quota_tree(R"({"spec":{"scopes":["VolumeAttributesClass"]}})"), "pods", quota_tree(kGold)));
}

TEST(Quotas, ScopesThatCannotBeAreRefused) {
  const auto said = [](const std::string& spec) {
    FieldErrors found;
    rules_of("resourcequotas").validate(quota_tree(R"({"spec":)" + spec + "}"), nullptr, found);
    std::string out;
    for (const FieldError& one : found) out += one.path + ": " + one.detail + "\n";
    return out;
  };
  const auto scoped = [&](const std::string& hard, const std::string& scope) {
    return said(R"({"hard":{")" + hard + R"(":"1"},"scopes":[")" + scope + "\"]}");
  };
  for (const char* fine : {"pods", "requests.cpu", "limits.memory", "count/services", "requests.nvidia.com/gpu"})
    EXPECT_EQ(scoped(fine, "NotBestEffort"), "") << fine;
  constexpr const char* kApplied = "spec.scopes: unsupported scope applied to resource\n";
  EXPECT_EQ(scoped("requests.cpu", "BestEffort"), kApplied);
  EXPECT_EQ(scoped("services", "Terminating"), kApplied);
  EXPECT_EQ(scoped("hugepages-2Mi", "Terminating"), kApplied);
  EXPECT_EQ(scoped("requests.storage", "VolumeAttributesClass"), "");
  EXPECT_EQ(scoped("pods", "VolumeAttributesClass"), kApplied);
  EXPECT_EQ(scoped("pods", "Nice"), "spec.scopes: unsupported scope\n");
  EXPECT_EQ(said(R"({"hard":{"pods":"1"},"scopes":["BestEffort","NotBestEffort"]})"),
            "spec.scopes: conflicting scopes\n");
  const auto selected = [&](const char* term) {
    return said(std::string(R"({"hard":{"pods":"1"},"scopeSelector":{"matchExpressions":[)") + term + "]}}");
  };
  EXPECT_EQ(selected(R"({"scopeName":"PriorityClass","operator":"In","values":["a"]})"), "");
  EXPECT_EQ(selected(R"({"scopeName":"Nice","operator":"Exists"})"),
            "spec.scopeSelector.matchExpressions.scopeName: unsupported scope\n");
  EXPECT_EQ(selected(R"({"scopeName":"Terminating","operator":"DoesNotExist"})").substr(0, 60),
            "spec.scopeSelector.matchExpressions.operator: must be 'Exist");
  EXPECT_EQ(
      selected(R"({"scopeName":"BestEffort","operator":"Exists"},{"scopeName":"NotBestEffort","operator":"Exists"})"),
      "spec.scopeSelector.matchExpressions: conflicting scopes\n");
}

}  // namespace
}  // namespace lockstep::kube
