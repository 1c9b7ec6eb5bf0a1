#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"
#include "frontends/kube/kinds/node_view.h"

namespace lockstep::kube {
namespace {

// A node with eight GPUs, whose agent is there.
struct NodeObjects : testing::Test {
  WorkloadRig rig{{node_controller()}};

  Node record(std::vector<NodeMark> marks = {}) {
    Node node;
    node.id = NodeId(1);
    node.meta.name = "n1";
    node.link = NodeLink::kUp;
    node.cores = 16;
    node.memory_mb = 65536;
    node.marks = std::move(marks);
    for (std::uint32_t i = 0; i < 8; ++i) {
      Device gpu;
      gpu.type = "h100-80gb-hbm3";
      gpu.minor = i;
      gpu.memory_mb = 81559;
      node.devices.push_back(gpu);
    }
    return node;
  }
  json::object shown() const {
    json::object tree = rig.tree("nodes", "n1");
    show_node(tree, *rig.tables.node("n1"), rig.now, {});
    return tree;
  }
  std::string allocatable(const char* what) const {
    return text_in(part(part(shown(), "status"), "allocatable"), what);
  }
  std::string ready() const {
    const json::object tree = shown();
    for (const json::value& one : *member_array(part(tree, "status"), "conditions"))
      if (text_in(one, "type") == "Ready")
        return text_in(one, "status");
    return "";
  }
  // A job that is no pod, with so many cores and GPUs.
  void job(std::uint32_t cores, std::uint32_t gpus, JobState state = JobState::kRunning) {
    Job one;
    one.id = JobId(7);
    one.spec = std::make_shared<const JobSpec>();
    one.state = state;
    if (holds_allocation(state)) {
      Grant grant;
      grant.node = NodeId(1);
      grant.tasks = 1;
      grant.memory_mb = 1024;
      for (std::uint32_t i = 0; i < cores; ++i) grant.cores.set(i);
      for (std::uint32_t i = 0; i < gpus; ++i) grant.devices.set(i);
      Allocation allocation;
      allocation.grants.push_back(std::move(grant));
      one.allocation = std::make_shared<const Allocation>(std::move(allocation));
    }
    rig.put_record(std::move(one));
    rig.run();
  }
};

TEST_F(NodeObjects, WhatOtherWorkHoldsIsMissingInWhatIsAllocatable) {
  rig.put_record(record());
  rig.run();
  EXPECT_EQ(allocatable("nvidia.com/gpu"), "8");
  job(3, 6);
  EXPECT_EQ(allocatable("nvidia.com/gpu"), "2");
  EXPECT_EQ(allocatable("cpu"), "13");
  EXPECT_EQ(allocatable("memory"), "64512Mi");
  EXPECT_EQ(text_in(part(part(shown(), "status"), "capacity"), "nvidia.com/gpu"), "8") << "it has them still";
  job(0, 0, JobState::kCompleted);
  rig.advance(seconds(6));
  EXPECT_EQ(allocatable("nvidia.com/gpu"), "8");
  EXPECT_EQ(text_in(part(part(rig.tree("nodes", "n1"), "metadata"), "annotations"), "lockstep.io/held-by-jobs"), "");
  EXPECT_EQ(rig.run(), 0);
}

// Jobs that come and go cost a node's object a version now and then, not one each.
TEST_F(NodeObjects, WhatOtherWorkHoldsIsToldAtAPace) {
  rig.put_record(record());
  rig.run();
  job(1, 1);
  const Seq first = rig.find("nodes", "n1")->meta.seq;
  for (std::uint32_t gpus = 2; gpus <= 8; ++gpus) job(1, gpus);
  EXPECT_EQ(rig.find("nodes", "n1")->meta.seq, first);
  rig.advance(seconds(6));
  EXPECT_EQ(allocatable("nvidia.com/gpu"), "0");
}

TEST_F(NodeObjects, GpusAreFoundByLabels) {
  rig.put_record(record());
  rig.run();
  const auto label = [&](const char* key) {
    return text_in(part(part(rig.tree("nodes", "n1"), "metadata"), "labels"), key);
  };
  EXPECT_EQ(label("nvidia.com/gpu.product"), "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(label("nvidia.com/gpu.count"), "8");
  EXPECT_EQ(label("nvidia.com/gpu.memory"), "81559");
  EXPECT_EQ(label("nvidia.com/mig.capable"), "false");
  // Whoever runs NVIDIA's own discovery is not fought.
  rig.edit("nodes", "n1", [](json::object& tree) {
    tree["metadata"].as_object()["labels"].as_object()["nvidia.com/gpu.product"] = "NVIDIA-H100-PCIe";
  });
  rig.run();
  EXPECT_EQ(label("nvidia.com/gpu.product"), "NVIDIA-H100-PCIe");
  Node without = record();
  without.devices.clear();
  rig.put_record(std::move(without));
  rig.run();
  EXPECT_EQ(label("nvidia.com/gpu.count"), "");
  EXPECT_EQ(label("nvidia.com/gpu.product"), "NVIDIA-H100-PCIe");
  EXPECT_EQ(rig.run(), 0);
}

// Whoever deletes the object of a node that is there gets a new one, with what the record knows of users' additions.
TEST_F(NodeObjects, ADeletedOneComesBackAsItWas) {
  Node node = record({{"team", "x", NodeMark::Effect::kDrives}});
  node.labels = {{"team", "x"}};
  node.added_counted = {{"example.com/foo", 5}};
  node.counted = node.added_counted;
  rig.put_record(std::move(node));
  rig.run();
  const Uid before = rig.find("nodes", "n1")->meta.uid;
  rig.remove_node("n1");
  rig.run();
  ASSERT_NE(rig.find("nodes", "n1"), nullptr);
  EXPECT_NE(rig.find("nodes", "n1")->meta.uid, before);
  const json::object tree = rig.tree("nodes", "n1");
  EXPECT_EQ(text_in(part(part(tree, "metadata"), "labels"), "team"), "x");
  EXPECT_EQ(text_in(part(part(tree, "metadata"), "labels"), "kubernetes.io/hostname"), "n1");
  EXPECT_EQ(part(tree, "spec").at("taints"),
            (json::array{json::object{{"key", "team"}, {"effect", "NoExecute"}, {"value", "x"}}}));
  EXPECT_EQ(text_in(part(part(tree, "status"), "capacity"), "example.com/foo"), "5");
}

TEST_F(NodeObjects, OneThatWasMadeBeforeItsNodeIsTheNodes) {
  rig.put("nodes", R"({"metadata":{"name":"n1","labels":{"a":"b"}},"spec":{}})");
  rig.run();
  rig.put_record(record());
  rig.run();
  EXPECT_FALSE(rig.find("nodes", "n1")->shows.empty());
  const json::object tree = rig.tree("nodes", "n1");
  EXPECT_EQ(text_in(part(part(tree, "metadata"), "labels"), "a"), "b");
  EXPECT_EQ(text_in(part(part(tree, "metadata"), "labels"), "kubernetes.io/os"), "linux");
}

// A test, or a problem detector, says that the node is not ready: so it is until its agent's next word.
TEST_F(NodeObjects, AWrittenConditionStaysUntilTheAgentsNextWord) {
  rig.put_record(record());
  rig.run();
  EXPECT_EQ(ready(), "True");
  rig.edit("nodes", "n1", [&](json::object& tree) {
    tree["status"] = json::object{
        {"conditions", json::array{json::object{{"type", "Ready"}, {"status", "False"}, {"reason", "Test"}},
                                   json::object{{"type", "KernelDeadlock"}, {"status", "True"}},
                                   json::object{{"type", "DiskPressure"}, {"status", "False"}}}}};
  });
  rig.run();
  EXPECT_EQ(ready(), "False");
  const json::array taint{json::object{{"key", "node.kubernetes.io/not-ready"}, {"effect", "NoSchedule"}}};
  EXPECT_EQ(part(part(shown(), "spec"), "taints"), taint);
  rig.advance(seconds(8));
  EXPECT_EQ(ready(), "False");
  rig.advance(seconds(4));
  EXPECT_EQ(ready(), "True");
  const json::value conditions = part(rig.status("nodes", "n1"), "conditions");
  ASSERT_EQ(conditions.as_array().size(), 1u) << "what is the agent's is not kept";
  EXPECT_EQ(text_in(conditions.at(0), "type"), "KernelDeadlock");
  const json::object tree = rig.tree("nodes", "n1");
  EXPECT_EQ(text_in(part(part(tree, "metadata"), "annotations"), "lockstep.io/conditions-written"), "");
  EXPECT_EQ(rig.run(), 0);
}

TEST_F(NodeObjects, OfANodeThatIsNotHeardTheRecordIsRight) {
  Node node = record();
  node.link = NodeLink::kLost;
  rig.put_record(std::move(node));
  rig.run();
  rig.edit("nodes", "n1", [&](json::object& tree) {
    tree["status"] = json::object{{"conditions", json::array{json::object{{"type", "Ready"}, {"status", "True"}}}}};
  });
  EXPECT_EQ(ready(), "Unknown");
}

TEST_F(NodeObjects, TaintsAreToldOnce) {
  rig.put_record(record());
  rig.run();
  rig.edit("nodes", "n1", [](json::object& tree) {
    const json::object taint{{"key", "k"}, {"value", "v"}, {"effect", "NoSchedule"}};
    tree["spec"].as_object()["taints"] = json::array{taint, taint};
  });
  EXPECT_EQ(part(part(shown(), "spec"), "taints").as_array().size(), 1u);
}

}  // namespace
}  // namespace lockstep::kube
