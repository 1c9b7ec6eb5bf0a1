#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "frontends/kube/kinds/rules.h"

namespace lockstep::kube {
namespace {

std::string taint_faults(const char* taints, const json::object* old = nullptr) {
  FieldErrors errors;
  const json::object node =
      json::parse(std::string(R"({"metadata":{"name":"n"},"spec":{"taints":)") + taints + "}}").as_object();
  rules_of("nodes").validate(node, old, errors);
  std::string out;
  for (const FieldError& error : errors) out += error.text() + "\n";
  return out;
}

TEST(NodeRules, TaintsOfAKeyAndAnEffectAreThereOnce) {
  EXPECT_EQ(taint_faults(R"([{"key":"a","effect":"NoSchedule"},{"key":"a","effect":"NoExecute"}])"), "");
  const char* doubled = R"([{"key":"a","effect":"NoSchedule"},{"key":"a","value":"b","effect":"NoSchedule"}])";
  EXPECT_EQ(
      taint_faults(doubled),
      "spec.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\",\"value\":\"b\"}: taints must be "
      "unique by key and effect pair\n");
  const json::object was =
      json::parse(std::string(R"({"metadata":{"name":"n"},"spec":{"taints":)") + doubled + "}}").as_object();
  EXPECT_EQ(taint_faults(doubled, &was), "") << "what was there before can be kept";
  EXPECT_NE(taint_faults(R"([{"key":"a","effect":"Never"}])"), "");
  EXPECT_NE(taint_faults(R"([{"effect":"NoSchedule"}])"), "");
}

}  // namespace
}  // namespace lockstep::kube
