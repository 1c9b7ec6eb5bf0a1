#include <gtest/gtest.h>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

struct Claims : testing::Test {
  WorkloadRig rig{{claim_controller()}};

  void claim(const std::string& name, const std::string& spec) {
    rig.put("persistentvolumeclaims", R"({"metadata":{"name":")" + name + R"(","namespace":"n"},"spec":)" + spec +
                                          R"(,"status":{"phase":"Pending"}})");
  }
  void volume(const std::string& name, const std::string& size, const std::string& more = "") {
    rig.put("persistentvolumes", R"({"metadata":{"name":")" + name + R"("},"spec":{"capacity":{"storage":")" + size +
                                     R"("},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"},)" + more +
                                     R"("storageClassName":"s"},"status":{"phase":"Pending"}})");
  }
  std::string at(const char* type, const char* ns, const char* name, const char* where, const char* field) {
    const auto object = rig.tables.objects.find({type, ns, name});
    return object == rig.tables.objects.end() ? "gone" : text_in(part(body_of(*object->second), where), field);
  }
};

constexpr const char* kAsk =
    R"({"accessModes":["ReadWriteOnce"],"storageClassName":"s","resources":{"requests":{"storage":"2Gi"}}})";

TEST_F(Claims, take_the_smallest_volume_that_is_as_they_ask) {
  volume("large", "9Gi");
  volume("right", "3Gi");
  volume("small", "1Gi");
  rig.run();
  EXPECT_EQ(at("persistentvolumes", "", "right", "status", "phase"), "Available");
  claim("data", kAsk);
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "spec", "volumeName"), "right");
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "status", "phase"), "Bound");
  EXPECT_EQ(at("persistentvolumes", "", "right", "status", "phase"), "Bound");
  EXPECT_EQ(at("persistentvolumes", "", "small", "status", "phase"), "Available");
}

TEST_F(Claims, that_find_none_wait_for_one) {
  claim("data", kAsk);
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "status", "phase"), "Pending");
  volume("late", "2Gi");
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "spec", "volumeName"), "late");
}

TEST_F(Claims, leave_a_volume_that_is_kept_for_another_alone) {
  volume("kept", "2Gi", R"("claimRef":{"namespace":"n","name":"other"},)");
  claim("data", kAsk);
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "spec", "volumeName"), "");
  claim("other", kAsk);
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "other", "spec", "volumeName"), "kept");
}

TEST_F(Claims, of_local_folders_are_made_where_their_first_pod_runs) {
  rig.put("storageclasses.storage.k8s.io",
          R"({"metadata":{"name":"s"},"provisioner":"lockstep.io/local","volumeBindingMode":"WaitForFirstConsumer"})");
  claim("data", kAsk);
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "spec", "volumeName"), "") << "nobody uses it yet";
  rig.put("pods", R"({"metadata":{"name":"p","namespace":"n"},"spec":{"nodeName":"n1",
      "containers":[{"name":"c","image":"i"}],
      "volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}}]},"status":{"phase":"Running"}})");
  rig.run();
  const std::string name = at("persistentvolumeclaims", "n", "data", "spec", "volumeName");
  ASSERT_TRUE(name.starts_with("pvc-")) << name;
  const auto made = rig.tables.objects.find({"persistentvolumes", "", name});
  ASSERT_NE(made, rig.tables.objects.end());
  EXPECT_NE(made->second->body.find("n1"), std::string::npos) << "it lies on that node alone";
  // It goes when nobody uses it and its claim is deleted, and takes the volume with it.
  rig.remove("persistentvolumeclaims", "data");
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "status", "phase"), "Bound") << "the pod uses it";
  rig.remove("pods", "p");
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "status", "phase"), "gone");
  EXPECT_EQ(at("persistentvolumes", "", name.c_str(), "status", "phase"), "gone");
}

TEST_F(Claims, that_go_leave_a_volume_of_somebodys_released) {
  volume("mine", "2Gi", R"("persistentVolumeReclaimPolicy":"Retain",)");
  claim("data", kAsk);
  rig.run();
  rig.remove("persistentvolumeclaims", "data");
  rig.run();
  EXPECT_EQ(at("persistentvolumes", "", "mine", "status", "phase"), "Released");
  claim("data", kAsk);
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "spec", "volumeName"), "") << "another claim of that name";
}

TEST_F(Claims, come_with_the_pods_whose_volumes_are_ephemeral) {
  rig.put("pods", R"({"metadata":{"name":"p","namespace":"n"},"spec":{"containers":[{"name":"c","image":"i"}],
      "volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"metadata":{"labels":{"a":"b"}},"spec":)" +
                      std::string(kAsk) + R"(}}}]},"status":{"phase":"Pending"}})");
  rig.run();
  const auto made = rig.tables.objects.find({"persistentvolumeclaims", "n", "p-v"});
  ASSERT_NE(made, rig.tables.objects.end());
  ASSERT_TRUE(made->second->meta.extra);
  ASSERT_EQ(made->second->meta.extra->owners.size(), 1u);
  EXPECT_EQ(made->second->meta.extra->owners[0].name, "p");
}

TEST_F(Claims, of_no_class_have_the_standard_one) {
  claim("data", R"({"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}})");
  claim("none",
        R"({"accessModes":["ReadWriteOnce"],"storageClassName":"","resources":{"requests":{"storage":"2Gi"}}})");
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "spec", "storageClassName"), "") << "there is none yet";
  rig.put("storageclasses.storage.k8s.io",
          R"({"metadata":{"name":"s","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},
              "provisioner":"lockstep.io/local","volumeBindingMode":"WaitForFirstConsumer"})");
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "spec", "storageClassName"), "s");
  EXPECT_EQ(at("persistentvolumeclaims", "n", "none", "spec", "storageClassName"), "") << "it asks for none";
}

}  // namespace
}  // namespace lockstep::kube
