#include "frontends/kube/kinds/node_admission.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "frontends/kube/kinds/pod_job.h"
#include "frontends/kube/kinds/pod_terms.h"
#include "model/job.h"
#include "model/node.h"

namespace lockstep::kube {
namespace {

// A node of four cores, and pods that name it.
struct NodeAdmission : testing::Test {
  Tables tables;
  Node node;

  NodeAdmission() {
    node.id = NodeId(1);
    node.meta.name = "n1";
    node.cores = 4;
    node.memory_mb = 1000;
    node.labels = {{"disk", "ssd"}};
  }
  static json::object pod(const std::string& spec, const std::string& container = "") {
    return json::parse(R"({"metadata":{"name":"p","namespace":"n"},"spec":{"nodeName":"n1",)" + spec +
                       R"("containers":[{"name":"a","image":"i")" + container + "}]}}")
        .as_object();
  }
  static std::shared_ptr<const JobSpec> job_of(const json::object& tree) {
    PodSite site;
    site.namespaces = [](const json::value&) { return std::vector<std::string>(); };
    return std::make_shared<const JobSpec>(*job_of_pod(tree, site));
  }
  void run(const json::object& tree) {
    Job job;
    job.id = JobId(tables.jobs.size() + 1);
    job.state = JobState::kRunning;
    job.spec = job_of(tree);
    Grant grant;
    grant.node = node.id;
    grant.tasks = 1;
    grant.memory_mb = job.spec->groups.get().front().per_task.memory_mb;
    grant.shared_milli = job.spec->groups.get().front().per_task.shared_milli;
    auto allocation = std::make_shared<Allocation>();
    allocation->grants = {grant};
    job.allocation = allocation;
    tables.jobs[job.id] = std::make_shared<const Job>(job);
  }
  std::string reason(const json::object& tree) const { return refusal(tree).reason; }
  NodeRefusal refusal(const json::object& tree) const {
    return refused_by_node(tables, node, tree, job_of(tree)->groups.get().front());
  }
};

TEST_F(NodeAdmission, WhoFindsRoomIsTaken) {
  EXPECT_EQ(reason(pod("")), "");
  EXPECT_EQ(
      reason(pod(R"("nodeSelector":{"disk":"ssd"},)", R"(,"resources":{"requests":{"cpu":"4","memory":"1000Mi"}})")),
      "");
}

TEST_F(NodeAdmission, WhatThereIsTooLittleOfIsSaid) {
  run(pod("", R"(,"resources":{"requests":{"cpu":"3500m","memory":"600Mi"}})"));
  const NodeRefusal cpu = refusal(pod("", R"(,"resources":{"requests":{"cpu":"1"}})"));
  EXPECT_EQ(cpu.reason, "OutOfcpu");
  EXPECT_EQ(cpu.message, "Node didn't have enough resource: cpu, requested: 1000, used: 3500, capacity: 4000");
  EXPECT_EQ(reason(pod("", R"(,"resources":{"requests":{"memory":"500Mi"}})")), "OutOfmemory");
  EXPECT_EQ(reason(pod("", R"(,"resources":{"requests":{"example.com/thing":"1"}})")), "OutOfexample.com/thing");
  EXPECT_EQ(reason(pod("", R"(,"resources":{"requests":{"nvidia.com/gpu":"1"}})")), "OutOfnvidia.com/gpu");
  EXPECT_EQ(reason(pod("")), "") << "who asks for nothing finds room";
}

TEST_F(NodeAdmission, LabelsAndTaintsThatDriveOutCount) {
  EXPECT_EQ(reason(pod(R"("nodeSelector":{"disk":"hdd"},)")), "NodeAffinity");
  node.marks = {{"k", "v", NodeMark::Effect::kKeepsOff}};
  EXPECT_EQ(reason(pod("")), "") << "nobody schedules it";
  node.marks = {{"k", "v", NodeMark::Effect::kDrives}};
  EXPECT_EQ(reason(pod("")), "TaintToleration");
  EXPECT_EQ(reason(pod(R"("tolerations":[{"key":"k","operator":"Exists"}],)")), "");
}

TEST_F(NodeAdmission, PortsOfTheNodeAreGivenOnce) {
  const auto with = [](const std::string& port) { return pod("", R"(,"ports":[{"containerPort":1,)" + port + "}]"); };
  run(with(R"("hostPort":8080,"hostIP":"10.0.0.1")"));
  EXPECT_EQ(reason(with(R"("hostPort":8080)")), "NodePorts");
  EXPECT_EQ(reason(with(R"("hostPort":8080,"hostIP":"10.0.0.2")")), "");
  EXPECT_EQ(reason(with(R"("hostPort":8080,"protocol":"UDP")")), "");
  node.id = NodeId(2);
  EXPECT_EQ(reason(with(R"("hostPort":8080)")), "") << "taken on the other node";
}

}  // namespace
}  // namespace lockstep::kube
