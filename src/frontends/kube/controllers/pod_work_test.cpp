#include "frontends/kube/controllers/pod_work.h"

#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

std::string why_it_waits(const WorkloadRig& rig, const std::string& spec) {
  json::object tree = json::parse(R"({"metadata":{"name":"p","namespace":"n"},"spec":{)" + spec +
                                  R"("containers":[{"name":"c","image":"i"}]}})")
                          .as_object();
  const auto work = pod_work(rig.tables, rig.now, std::move(tree));
  EXPECT_TRUE(work.ok() && std::holds_alternative<PutObject>(work->body));
  return work.ok() ? work->waits : "";
}

constexpr const char* kWithClaim = R"("volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}}],)";

TEST(PodWork, WaitsWhereResourceClaimsAreAskedFor) {
  WorkloadRig rig({});
  EXPECT_EQ(why_it_waits(rig, R"("resourceClaims":[{"name":"gpu","resourceClaimName":"x"}],)"),
            "cannot allocate all claims: resource claims are not allocated here yet; ask for devices among the "
            "resources (nvidia.com/gpu)");
}

TEST(PodWork, WaitsForAClaimThatGoes) {
  WorkloadRig rig({});
  rig.put("persistentvolumeclaims", R"({"metadata":{"name":"data","namespace":"n","finalizers":["a/b"]},"spec":{}})");
  rig.remove("persistentvolumeclaims", "data");
  EXPECT_EQ(why_it_waits(rig, kWithClaim), "persistentvolumeclaim \"data\" is being deleted");
}

TEST(PodWork, SaysWhyAClaimGetsNoFolder) {
  WorkloadRig rig({});
  rig.put("storageclasses.storage.k8s.io",
          R"({"metadata":{"name":"s"},"provisioner":"lockstep.io/local","volumeBindingMode":"WaitForFirstConsumer"})");
  rig.put("persistentvolumeclaims", R"({"metadata":{"name":"data","namespace":"n"},"spec":{"storageClassName":"s",
      "accessModes":["ReadWriteOnce"],"volumeMode":"Block"}})");
  EXPECT_EQ(why_it_waits(rig, kWithClaim),
            "persistentvolumeclaim \"data\" has no volume: volumes of class s are folders: none has volumeMode Block");
}

}  // namespace
}  // namespace lockstep::kube
