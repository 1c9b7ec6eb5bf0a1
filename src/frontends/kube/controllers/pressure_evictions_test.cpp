#include <map>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

constexpr std::int64_t kMi = 1 << 20;
const NodeId kNode{1};

struct PressureRig {
  std::map<std::uint64_t, std::vector<ContainerUse>> use;  // by job
  WorkloadRig rig{{pressure_eviction_controller([this](NodeId, JobId job) { return use[job.value]; })}};
  std::uint64_t jobs = 0;
  Node node;

  PressureRig() {
    node.meta.name = "n1";
    node.id = kNode;
    node.link = NodeLink::kUp;
    rig.put_record(node);
    rig.put("nodes", R"({"metadata":{"name":"n1"},"spec":{}})");
  }
  // A pod that runs on the node, has asked for so many MiB and holds so many.
  JobId pod(const std::string& name, int priority, int requested, int held) {
    const JobId id{++jobs};
    Job job;
    job.id = id;
    job.spec = std::make_shared<const JobSpec>();
    job.state = JobState::kRunning;
    job.attempt = 1;
    job.started = rig.now;
    auto allocation = std::make_shared<Allocation>();
    allocation->attempt = 1;
    allocation->grants = {{.node = kNode, .tasks = 1}};
    job.allocation = allocation;
    Task task;
    task.job = id;
    task.attempt = 1;
    task.state = TaskState::kRunning;
    ContainerStatus status;
    status.name = "c";
    status.state = ContainerState::kRunning;
    task.containers = std::vector<ContainerStatus>{status};
    rig.put_record(job);
    rig.put_record(task);
    Object object = object_of(
        "pods", json::parse(format(R"({{"metadata":{{"name":"{}","namespace":"n"}},"spec":{{"priority":{},"containers":[
            {{"name":"c","resources":{{"requests":{{"memory":"{}Mi"}}}}}}]}}}})",
                                   name, priority, requested))
                    .as_object());
    object.shows = {{.kind = Kind::kJob, .job = id}, {.kind = Kind::kTask, .job = id}};
    WorkloadRig::Staged staged{rig.tables, {}};
    rig.write(staged, std::move(object));
    rig.commit(std::move(staged));
    use[id.value] = {{.container = "c", .memory = held * kMi}};
    return id;
  }
  void measures(bool acute, int available = 50) {
    const Instant since = node.shortages.empty() ? rig.now : node.shortages.front().since;
    node.shortages = {{.what = Shortage::What::kMemory,
                       .acute = acute,
                       .available = available * kMi,
                       .threshold = 100 * kMi,
                       .since = since,
                       .measured = rig.now}};
    rig.put_record(node);
    rig.run();
  }
  std::vector<std::string> evicted() const {
    std::vector<std::string> out;
    for (const std::string& name : rig.names("pods"))
      if (text_in(rig.status("pods", name), "reason") == "Evicted")
        out.push_back(name);
    return out;
  }
  JobState state(JobId id) const { return rig.tables.job(id)->state; }
};

TEST(PressureEvictions, OneAfterTheOtherUntilThereIsEnough) {
  PressureRig p;
  const JobId greedy = p.pod("greedy", 0, 10, 200), modest = p.pod("modest", 0, 100, 50);
  const JobId greedier = p.pod("greedier", 0, 10, 300), dear = p.pod("dear", 100, 10, 900);
  p.measures(true);
  EXPECT_EQ(p.evicted(), std::vector<std::string>{"greedier"})
      << "furthest above its request among the least important";
  const json::value status = p.rig.status("pods", "greedier");
  EXPECT_EQ(text_in(status, "phase"), "Failed");
  EXPECT_EQ(text_in(status, "message"),
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container c was using "
            "300Mi, request is 10Mi, has larger consumption of memory. ");
  EXPECT_EQ(p.rig.condition("pods", "greedier", "DisruptionTarget"), "True TerminationByKubelet");
  ASSERT_EQ(p.rig.events().size(), 1u);
  EXPECT_TRUE(p.rig.events()[0].starts_with("Evicted: The node was low on resource: memory.")) << p.rig.events()[0];
  EXPECT_EQ(p.state(greedier), JobState::kCompleting);

  p.measures(true, 40);
  EXPECT_EQ(p.evicted().size(), 1u) << "the first is not gone yet";
  p.rig.advance(seconds(3));
  EXPECT_EQ(p.state(greedier), JobState::kCancelled) << "it was given a second";
  EXPECT_EQ(p.evicted().size(), 1u) << "nobody has measured since";
  p.rig.advance(seconds(10));
  p.measures(true, 90);
  EXPECT_EQ(p.evicted(), (std::vector<std::string>{"greedier", "greedy"}));
  p.rig.advance(seconds(10));
  p.measures(false, 300);
  p.rig.advance(seconds(60));
  EXPECT_EQ(p.evicted().size(), 2u) << "it has enough";
  EXPECT_EQ(p.state(greedy), JobState::kCancelled);
  EXPECT_EQ(p.state(modest), JobState::kRunning);
  EXPECT_EQ(p.state(dear), JobState::kRunning);
}

TEST(PressureEvictions, WhoIsBelowItsRequestGoesLastAndSystemPodsNever) {
  PressureRig p;
  p.pod("above", 1000, 10, 11);
  p.pod("below", -5, 500, 499);
  p.pod("system", 2'000'000'000, 0, 5000);
  for (const std::size_t count : {1u, 2u, 2u}) {
    p.measures(true);
    p.rig.advance(seconds(10));
    EXPECT_EQ(p.evicted().size(), count);
    const bool has_above = p.evicted().front() == "above";
    EXPECT_TRUE(has_above) << "its priority counts among those above their requests alone";
  }
}

TEST(PressureEvictions, ANewControllerWaitsForMeasures) {
  PressureRig p;
  p.pod("a", 0, 10, 200);
  p.use.clear();
  p.measures(true);
  EXPECT_TRUE(p.evicted().empty());
  p.rig.advance(seconds(40));
  EXPECT_EQ(p.evicted().size(), 1u) << "in the end somebody has to go";
}

TEST(PressureEvictions, ADoubledOrNewOneTakesNoSecondPod) {
  PressureRig p;
  p.pod("a", 0, 10, 200);
  p.pod("b", 0, 10, 300);
  p.measures(true);
  std::vector<Change> all;
  for (const auto& [id, node] : p.rig.tables.nodes) all.push_back({node->meta.seq, node, false});
  for (const auto& [id, job] : p.rig.tables.jobs) all.push_back({job->meta.seq, job, false});
  for (const auto& [key, task] : p.rig.tables.tasks) all.push_back({task->meta.seq, task, false});
  for (const auto& [key, object] : p.rig.tables.objects) all.push_back({object->meta.seq, object, false});
  std::ranges::sort(all, {}, &Change::seq);
  p.rig.actor.restart(all);
  p.rig.run();
  EXPECT_EQ(p.evicted(), std::vector<std::string>{"b"});
}

}  // namespace
}  // namespace lockstep::kube
