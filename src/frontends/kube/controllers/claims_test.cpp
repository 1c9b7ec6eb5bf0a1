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
  void pod_on_node(const std::string& name, const std::string& claim) {
    rig.put("pods", R"({"metadata":{"name":")" + name +
                        R"(","namespace":"n"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}],
        "volumes":[{"name":"v","persistentVolumeClaim":{"claimName":")" +
                        claim + R"("}}]},"status":{"phase":"Running"}})");
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

TEST_F(Claims, of_a_pod_are_made_when_their_name_is_free) {
  claim("p-cache", kAsk);
  rig.put("pods", R"({"metadata":{"name":"p","namespace":"n"},"spec":{"containers":[],"volumes":[{"name":"cache",
      "ephemeral":{"volumeClaimTemplate":{"spec":)" +
                      std::string(kAsk) + R"(}}}]},"status":{"phase":"Pending"}})");
  rig.run();
  const auto before = rig.find("persistentvolumeclaims", "p-cache");
  EXPECT_TRUE(!before->meta.extra || before->meta.extra->owners.empty());
  rig.edit("persistentvolumeclaims", "p-cache",
           [](json::object& tree) { tree["metadata"].as_object().erase("finalizers"); });
  WorkloadRig::Staged staged{rig.tables, {}};
  rig.write(staged, *rig.find("persistentvolumeclaims", "p-cache"), true);
  rig.commit(std::move(staged));
  rig.run();
  const auto after = rig.find("persistentvolumeclaims", "p-cache");
  ASSERT_NE(after, nullptr);
  ASSERT_TRUE(after->meta.extra && !after->meta.extra->owners.empty());
  EXPECT_EQ(after->meta.extra->owners.front().uid, rig.find("pods", "p")->meta.uid);
}

// What a folder of one node cannot be is not made of one, and the claim says why.
TEST_F(Claims, of_local_folders_that_no_folder_can_be_wait_and_say_why) {
  rig.put("storageclasses.storage.k8s.io",
          R"({"metadata":{"name":"s"},"provisioner":"lockstep.io/local","volumeBindingMode":"Immediate"})");
  volume("empty", "9Gi");
  pod_on_node("p", "filled");
  const auto refused = [&](const std::string& name, const std::string& more, const std::string& mode) {
    claim(name, R"({"accessModes":[")" + mode + R"("],"storageClassName":"s",)" + more +
                    R"("resources":{"requests":{"storage":"2Gi"}}})");
    rig.run();
    EXPECT_EQ(at("persistentvolumeclaims", "n", name.c_str(), "spec", "volumeName"), "") << name;
    std::string told;
    for (const std::string& event : rig.events())
      if (event.starts_with("ProvisioningFailed: "))
        told = event;
    rig.remove("persistentvolumeclaims", name);
    for (const std::string& event : rig.names("events")) rig.remove("events", event);
    rig.run();
    return told;
  };
  EXPECT_EQ(refused("filled", R"("dataSource":{"kind":"PersistentVolumeClaim","name":"old"},)", "ReadWriteOnce"),
            "ProvisioningFailed: volumes of class s are made empty: none is filled from PersistentVolumeClaim old");
  EXPECT_EQ(refused("device", R"("volumeMode":"Block",)", "ReadWriteOnce"),
            "ProvisioningFailed: volumes of class s are folders: none has volumeMode Block");
  EXPECT_EQ(refused("shared", "", "ReadWriteMany"),
            "ProvisioningFailed: volumes of class s are folders of one node: none has access mode ReadWriteMany; what "
            "several nodes share is a volume of NFS");
  EXPECT_EQ(refused("fast", R"("volumeAttributesClassName":"gold",)", "ReadWriteOnce"),
            "ProvisioningFailed: volumeattributesclass.storage.k8s.io \"gold\" not found");
}

TEST_F(Claims, with_attributes_wait_for_their_class) {
  rig.put("storageclasses.storage.k8s.io",
          R"({"metadata":{"name":"s"},"provisioner":"lockstep.io/local","volumeBindingMode":"Immediate"})");
  pod_on_node("p", "data");
  claim("data", R"({"accessModes":["ReadWriteOnce"],"storageClassName":"s","volumeAttributesClassName":"gold",
      "resources":{"requests":{"storage":"2Gi"}}})");
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "spec", "volumeName"), "");
  rig.put("volumeattributesclasses.storage.k8s.io", R"({"metadata":{"name":"gold"},"driverName":"lockstep.io/local"})");
  rig.run();
  EXPECT_TRUE(at("persistentvolumeclaims", "n", "data", "spec", "volumeName").starts_with("pvc-"));
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "status", "currentVolumeAttributesClassName"), "gold");
}

// A new pod on a claim that goes does not keep it; one that has its node does.
TEST_F(Claims, that_are_deleted_stay_for_pods_that_have_a_place_alone) {
  volume("mine", "2Gi");
  claim("data", kAsk);
  pod_on_node("p", "data");
  rig.run();
  rig.remove("persistentvolumeclaims", "data");
  rig.put("pods", R"({"metadata":{"name":"late","namespace":"n"},"spec":{"containers":[{"name":"c","image":"i"}],
      "volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}}]},"status":{"phase":"Pending"}})");
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "status", "phase"), "Bound");
  rig.remove("pods", "p");
  rig.run();
  EXPECT_EQ(at("persistentvolumeclaims", "n", "data", "status", "phase"), "gone");
}

TEST_F(Claims, of_local_folders_grow_at_once) {
  rig.put("storageclasses.storage.k8s.io", R"({"metadata":{"name":"s"},"provisioner":"lockstep.io/local",
      "volumeBindingMode":"Immediate","allowVolumeExpansion":true})");
  pod_on_node("p", "data");
  claim("data", kAsk);
  rig.run();
  const std::string name = at("persistentvolumeclaims", "n", "data", "spec", "volumeName");
  rig.edit("persistentvolumeclaims", "data", [](json::object& tree) {
    tree["spec"].as_object()["resources"] = json::object{{"requests", {{"storage", "3Gi"}}}};
  });
  rig.run();
  EXPECT_EQ(text_in(part(part(rig.tree("persistentvolumeclaims", "data"), "status"), "capacity"), "storage"), "3Gi");
  const auto made = rig.tables.objects.at({"persistentvolumes", "", name});
  EXPECT_EQ(text_in(part(part(body_of(*made), "spec"), "capacity"), "storage"), "3Gi");
}

}  // namespace
}  // namespace lockstep::kube
