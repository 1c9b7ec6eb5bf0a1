#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

TEST(ForeignOwners, WhoBelongsToWhatWasNeverHereGoes) {
  WorkloadRig rig({foreign_owner_controller()});
  const auto left = [&](std::string_view owners) {
    rig.put("configmaps",
            R"({"metadata":{"name":"a","namespace":"n","ownerReferences":[)" + std::string(owners) + "]}}");
    rig.advance(seconds(1));
    return rig.tables.objects.contains({"configmaps", "n", "a"});
  };
  const std::string foreign =
      R"({"apiVersion":"apps/v1","kind":"ReplicaSet","name":"x","uid":"11111111-2222-4333-8444-555555555555"})";
  EXPECT_FALSE(left(foreign));
  EXPECT_TRUE(left(R"({"apiVersion":"a.b/v1","kind":"Foo","name":"x","uid":"11111111-2222-4333-8444-555555555555"})"))
      << "nobody here knows what that is";
  const auto ns = rig.tables.objects.at({"namespaces", "", "n"});
  EXPECT_TRUE(
      left(foreign + R"(,{"apiVersion":"v1","kind":"Namespace","name":"n","uid":")" + uid_text(ns->meta.uid) + R"("})"))
      << "it has an owner that is here";
}

}  // namespace
}  // namespace lockstep::kube
