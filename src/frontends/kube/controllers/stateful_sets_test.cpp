#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

constexpr const char* kStateful = "statefulsets.apps";
using Names = std::vector<std::string>;

std::string stateful(const std::string& more, int replicas = 3) {
  return R"({"metadata":{"name":"db","namespace":"n"},"spec":{"replicas":)" + std::to_string(replicas) +
         R"(,"serviceName":"db","selector":{"matchLabels":{"app":"db"}},)" + more +
         R"("updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}},
         "template":{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"c","image":"one"}]}}}})";
}

WorkloadRig stateful_rig() { return WorkloadRig({stateful_set_controller()}); }

void set_member_image(WorkloadRig& rig, const char* image) {
  rig.edit(kStateful, "db", [&](json::object& tree) {
    tree["spec"].as_object()["template"].as_object()["spec"].as_object()["containers"] =
        json::array{json::object{{"name", "c"}, {"image", image}}};
  });
  rig.run();
}

std::string member_image(const WorkloadRig& rig, const char* pod) {
  return text_in(part(part(rig.tree("pods", pod), "spec"), "containers").at(0), "image");
}

TEST(StatefulSets, OneAfterTheOtherInOrder) {
  WorkloadRig rig = stateful_rig();
  rig.put(kStateful, stateful(""));
  rig.run();
  EXPECT_EQ(rig.names("pods"), Names{"db-0"});
  rig.ready_all();
  EXPECT_EQ(rig.names("pods"), (Names{"db-0", "db-1"}));
  rig.ready_all();
  rig.ready_all();
  EXPECT_EQ(rig.names("pods"), (Names{"db-0", "db-1", "db-2"}));
  const json::object pod = rig.tree("pods", "db-1");
  EXPECT_EQ(text_in(part(pod, "spec"), "hostname"), "db-1");
  EXPECT_EQ(text_in(part(pod, "spec"), "subdomain"), "db");
  EXPECT_EQ(text_in(part(part(pod, "metadata"), "labels"), "statefulset.kubernetes.io/pod-name"), "db-1");
  EXPECT_EQ(text_in(part(part(pod, "metadata"), "labels"), "apps.kubernetes.io/pod-index"), "1");
  const json::value status = rig.status(kStateful, "db");
  EXPECT_EQ(rig.number(kStateful, "db", "availableReplicas"), 3);
  EXPECT_EQ(text_in(status, "currentRevision"), text_in(status, "updateRevision"));
  EXPECT_EQ(text_in(part(part(pod, "metadata"), "labels"), "controller-revision-hash"),
            text_in(status, "currentRevision"));
  EXPECT_EQ(rig.run(), 0);
}

TEST(StatefulSets, TheSameNameComesBack) {
  WorkloadRig rig = stateful_rig();
  rig.put(kStateful, stateful(R"("podManagementPolicy":"Parallel",)"));
  rig.run();
  EXPECT_EQ(rig.names("pods").size(), 3u);
  rig.ready_all();
  rig.linger = true;
  rig.remove("pods", "db-1");
  rig.run();
  EXPECT_TRUE(is_deleting(*rig.find("pods", "db-1"))) << "not before the old one is gone";
  rig.finish_deletions();
  rig.run();
  ASSERT_NE(rig.find("pods", "db-1"), nullptr);
  EXPECT_FALSE(is_deleting(*rig.find("pods", "db-1")));
}

TEST(StatefulSets, TheLastGoesFirst) {
  WorkloadRig rig = stateful_rig();
  rig.put(kStateful, stateful(""));
  for (int i = 0; i < 4; ++i) {
    rig.run();
    rig.ready_all();
  }
  rig.linger = true;
  rig.edit(kStateful, "db", [](json::object& tree) { tree["spec"].as_object()["replicas"] = 1; });
  rig.run();
  EXPECT_TRUE(is_deleting(*rig.find("pods", "db-2")));
  EXPECT_FALSE(is_deleting(*rig.find("pods", "db-1"))) << "one after the other";
  rig.finish_deletions();
  rig.run();
  EXPECT_EQ(rig.names("pods"), Names{"db-0"});
}

TEST(StatefulSets, UpdatesStopAtThePartition) {
  WorkloadRig rig = stateful_rig();
  rig.put(kStateful, stateful(""));
  for (int i = 0; i < 4; ++i) {
    rig.run();
    rig.ready_all();
  }
  rig.edit(kStateful, "db", [](json::object& tree) {
    tree["spec"].as_object()["updateStrategy"].as_object()["rollingUpdate"] = json::object{{"partition", 2}};
  });
  set_member_image(rig, "two");
  for (int i = 0; i < 4; ++i) rig.ready_all();
  EXPECT_EQ(member_image(rig, "db-2"), "two");
  EXPECT_EQ(member_image(rig, "db-1"), "one");
  rig.remove("pods", "db-0");
  rig.run();
  EXPECT_EQ(member_image(rig, "db-0"), "one") << "what is below the partition comes back as it was";
  EXPECT_NE(text_in(rig.status(kStateful, "db"), "currentRevision"),
            text_in(rig.status(kStateful, "db"), "updateRevision"));
  rig.edit(kStateful, "db", [](json::object& tree) {
    tree["spec"].as_object()["updateStrategy"].as_object()["rollingUpdate"] = json::object{{"partition", 0}};
  });
  for (int i = 0; i < 8; ++i) rig.ready_all();
  EXPECT_EQ(member_image(rig, "db-0"), "two");
  EXPECT_EQ(text_in(rig.status(kStateful, "db"), "currentRevision"),
            text_in(rig.status(kStateful, "db"), "updateRevision"));
  EXPECT_EQ(rig.number(kStateful, "db", "updatedReplicas"), 3);
}

TEST(StatefulSets, ClaimsStayUnlessToldOtherwise) {
  WorkloadRig rig = stateful_rig();
  rig.put(kStateful, stateful(R"("podManagementPolicy":"Parallel","volumeClaimTemplates":[{"metadata":{"name":"data"},
      "spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}],)",
                              2));
  rig.run();
  EXPECT_EQ(rig.names("persistentvolumeclaims"), (Names{"data-db-0", "data-db-1"}));
  EXPECT_EQ(part(part(rig.tree("pods", "db-1"), "spec"), "volumes").at(0),
            (json::object{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data-db-1"}}}}));
  rig.ready_all();
  EXPECT_FALSE(
      part(rig.tree("persistentvolumeclaims", "data-db-0"), "metadata").as_object().contains("ownerReferences"));
  rig.edit(kStateful, "db", [](json::object& tree) {
    tree["spec"].as_object()["persistentVolumeClaimRetentionPolicy"] =
        json::object{{"whenDeleted", "Delete"}, {"whenScaled", "Retain"}};
  });
  rig.run();
  EXPECT_EQ(part(rig.tree("persistentvolumeclaims", "data-db-0"), "metadata").at("ownerReferences").at(0).at("kind"),
            "StatefulSet");
}

TEST(StatefulSets, OrdinalsMayStartElsewhere) {
  WorkloadRig rig = stateful_rig();
  rig.put(kStateful, stateful(R"("podManagementPolicy":"Parallel","ordinals":{"start":5},)", 2));
  rig.run();
  EXPECT_EQ(rig.names("pods"), (Names{"db-5", "db-6"}));
}

TEST(StatefulSets, AMemberThatItsNodeRefusesIsMadeAgainAfterAPause) {
  WorkloadRig rig = stateful_rig();
  rig.put(kStateful, stateful("", 1));
  rig.run();
  const Uid first = rig.find("pods", "db-0")->meta.uid;
  rig.edit("pods", "db-0", [](json::object& tree) {
    json::object status{{"phase", "Failed"}, {"reason", "NodePorts"}};
    tree["status"] = std::move(status);
  });
  rig.run();
  EXPECT_EQ(rig.find("pods", "db-0")->meta.uid, first);
  rig.advance(seconds(1));
  ASSERT_TRUE(rig.find("pods", "db-0"));
  EXPECT_NE(rig.find("pods", "db-0")->meta.uid, first);
}

TEST(StatefulSets, ANameThatIsTakenIsToldAndTriedAgain) {
  WorkloadRig rig = stateful_rig();
  rig.put("pods", R"({"metadata":{"name":"db-0","namespace":"n"},"spec":{"containers":[{"name":"c","image":"i"}]}})");
  rig.put(kStateful, stateful("", 1));
  rig.advance(seconds(3));
  EXPECT_EQ(rig.pods_of(kStateful, "db"), Names{});
  EXPECT_EQ(
      std::ranges::count(rig.events(),
                         "FailedCreate: create Pod db-0 in StatefulSet db failed error: pods \"db-0\" already exists"),
      1);
  rig.linger = true;
  rig.remove("pods", "db-0");
  rig.advance(seconds(1));
  EXPECT_EQ(rig.pods_of(kStateful, "db"), Names{}) << "it is still there";
  rig.finish_deletions();
  rig.run();
  EXPECT_EQ(rig.pods_of(kStateful, "db"), Names{"db-0"}) << "without waiting for another look";
}

// A set that was made anew under the same name waits for the pods of the one before.
TEST(StatefulSets, APodOfAnEarlierSetKeepsItsNameUntilItIsGone) {
  WorkloadRig rig = stateful_rig();
  rig.put(kStateful, stateful("", 1));
  rig.run();
  rig.linger = true;
  rig.remove("pods", "db-0");
  rig.remove(kStateful, "db");
  rig.put(kStateful, stateful("", 1));
  rig.run();
  EXPECT_EQ(rig.pods_of(kStateful, "db"), Names{});
  rig.finish_deletions();
  rig.run();
  EXPECT_EQ(rig.pods_of(kStateful, "db"), Names{"db-0"});
}

TEST(StatefulSets, MembersThatVanishAtOnceAreMadeMoreAndMoreSlowly) {
  WorkloadRig rig = stateful_rig();
  rig.put(kStateful, stateful("", 1));
  const Instant end = rig.now + minutes(2);
  int made = 0;
  while (rig.now < end) {
    rig.advance(millis(100));
    for (const std::string& name : rig.names("pods")) {
      ++made;
      rig.remove("pods", name);
    }
  }
  EXPECT_GE(made, 13);
  EXPECT_LE(made, 25);
}

}  // namespace
}  // namespace lockstep::kube
