// What other systems call their things, as values of this model, each run through the core: the table of
// ARCHITECTURE.md ("How other systems' nouns map onto ours"), kept true.
#include "core/objects.h"
#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

constexpr ExitStatus kGood{};
constexpr ExitStatus kBad{1, 0, false};

GroupSpec pods(const std::string& name, std::uint32_t count, RestartRule rule, std::uint32_t gpus = 0) {
  GroupSpec group;
  group.name = name;
  group.launch = Launch::kTasks;
  group.tasks = {count, count};
  group.restart = rule;
  group.per_task.cores = 2;
  group.per_task.memory_mb = 512;
  if (gpus != 0)
    group.per_task.devices = {{"gpu", "", gpus}};
  group.container.image = "example/" + name + ":1";
  group.argv = {"/bin/" + name};
  return group;
}

SubmitJob from(const std::string& front_end, std::vector<GroupSpec> groups, const std::string& type,
               const std::string& name) {
  JobSpec spec;
  spec.name = name;
  spec.front_end = front_end;
  spec.user = World::kAlice;
  spec.groups = std::move(groups);
  SubmitJob ask{.spec = std::make_shared<const JobSpec>(std::move(spec))};
  if (!type.empty()) {
    Object object;
    object.type = type;
    object.meta.ns = "default";
    object.meta.name = name;
    object.body = "{}";
    ask.objects = {object};
  }
  return ask;
}

const Task& task(const World& w, JobId job, std::uint16_t group, std::uint32_t index) {
  return *w.state.tables().tasks.at({job, group, index});
}
std::uint32_t node_of(const World& w, const Task& t) {
  const NodeId node = w.job(t.job).allocation->grants.at(t.grant).node;
  return static_cast<std::uint32_t>(std::stoul(w.state.tables().node(node)->meta.name.substr(1)));
}
void end_task(World& w, JobId job, std::uint16_t group, std::uint32_t index, const ExitStatus& exit) {
  const Task t = task(w, job, group, index);
  (void)w.report(node_of(w, t), job, TaskEnded{group, index, t.incarnation, exit});
  w.obey();
}

TEST(Mapping, SlurmArrayIsOneRecordWithIntervals) {
  World w(2);
  JobSpec spec = World::batch(1, 1);
  spec.options = {{"array", "0-8:4%2"}};
  SubmitJob ask{.spec = std::make_shared<const JobSpec>(spec)};
  ask.array = ArrayAsk{IntervalSet::parse("0-8:4").value(), 2, 4};
  const JobId array = w.submit(ask);
  EXPECT_EQ(w.start_what_fits(), 2u);
  w.obey();
  w.end_script(w.element(array, 0).id);
  w.end_script(w.element(array, 4).id);
  w.settle();
  w.end_script(w.element(array, 8).id);
  EXPECT_EQ(w.state_of(array), JobState::kCompleted);
}

TEST(Mapping, SlurmHetJobIsAJobWithGroups) {
  World w(3);
  JobSpec spec = World::batch(1);  // the head: cores only
  GroupSpec workers = World::batch(2, 8).groups[0];
  workers.launch = Launch::kNothing;  // steps go there
  spec.groups.push_back(workers);
  const JobId job = w.submit(spec);
  w.settle();
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  ASSERT_EQ(w.job(job).allocation->grants.size(), 3u);
  EXPECT_EQ(w.job(job).allocation->grants[2].group, 1);
  auto step = std::make_shared<StepSpec>();
  step->argv = {"train"};
  step->group = 1;
  const StepNo number = w.must(CreateStep{job, step}).step;
  EXPECT_EQ(w.state.tables().step(job, number)->places.size(), 2u);
  w.obey();
  w.end_script(job);
  EXPECT_EQ(w.state_of(job), JobState::kCompleted);
  EXPECT_EQ(w.state.tables().step(job, number)->state, StepState::kEnded);
}

TEST(Mapping, KubernetesJobRetriesPodsAndCompletes) {
  World w(2);
  GroupSpec group = pods("work", 3, RestartRule::kOnFailure);
  group.restarts_max = 2;  // backoffLimit
  const JobId job = w.submit(from("kubernetes", {group}, "batch/v1/Job", "work"));
  w.settle();
  EXPECT_EQ(task(w, job, 0, 2).state, TaskState::kRunning);
  end_task(w, job, 0, 0, kGood);
  end_task(w, job, 0, 1, kBad);
  EXPECT_EQ(task(w, job, 0, 1).state, TaskState::kWaiting);
  w.pass(minutes(1));
  w.obey();
  EXPECT_EQ(task(w, job, 0, 1).incarnation, 2u);
  end_task(w, job, 0, 1, kGood);
  end_task(w, job, 0, 2, kGood);
  EXPECT_EQ(w.state_of(job), JobState::kCompleted);
}

TEST(Mapping, KubernetesDeploymentIsAnEndlessJob) {
  World w(2);
  GroupSpec group = pods("web", 3, RestartRule::kAlways);
  group.endless = true;
  group.ports = {{"http", 8080}};
  Probe ready;
  ready.path = "/healthz";
  ready.port = 8080;
  group.probes = {ready};
  const JobId job = w.submit(from("kubernetes", {group}, "apps/v1/Deployment", "web"));
  w.settle();
  EXPECT_EQ(task(w, job, 0, 0).state, TaskState::kRunning);
  EXPECT_FALSE(task(w, job, 0, 0).ready);
  (void)w.report(node_of(w, task(w, job, 0, 0)), job, TaskReady{0, 0, 1, true});
  EXPECT_TRUE(task(w, job, 0, 0).ready);
  for (int i = 0; i < 3; ++i) {  // crashes are mended one by one, for ever
    end_task(w, job, 0, 1, kBad);
    EXPECT_EQ(w.state_of(job), JobState::kRunning);
    w.pass(minutes(6));
    w.obey();
    EXPECT_EQ(task(w, job, 0, 1).state, TaskState::kRunning);
  }
  EXPECT_EQ(task(w, job, 0, 0).incarnation, 1u);
  w.must(SetTaskCount{job, 0, 2});  // kubectl scale
  w.obey();
  EXPECT_EQ(task(w, job, 0, 2).state, TaskState::kEnded);
  w.must(RemoveObject{"apps/v1/Deployment", "default", "web", 0});
  EXPECT_TRUE(w.state.tables().objects.empty());  // its job goes after it: controller/collector.h
}

TEST(Mapping, KubernetesStatefulSetKeepsNumbers) {
  World w(2);
  GroupSpec group = pods("db", 3, RestartRule::kAlways);
  group.endless = true;
  const JobId job = w.submit(from("kubernetes", {group}, "apps/v1/StatefulSet", "db"));
  w.settle();
  const std::uint32_t grant = task(w, job, 0, 1).grant;
  end_task(w, job, 0, 1, kBad);
  w.pass(minutes(1));
  w.obey();
  EXPECT_EQ(task(w, job, 0, 1).index, 1u);  // db-1 again, in its place
  EXPECT_EQ(task(w, job, 0, 1).grant, grant);
  EXPECT_EQ(task(w, job, 0, 1).incarnation, 2u);
  EXPECT_EQ(task(w, job, 0, 1).state, TaskState::kRunning);
}

TEST(Mapping, JobSetIsAJobWithAGroupPerReplicatedJob) {
  World w(3);
  GroupSpec driver = pods("driver", 1, RestartRule::kNever);
  GroupSpec workers = pods("workers", 4, RestartRule::kNever, 4);
  for (GroupSpec* group : {&driver, &workers}) group->one_failure_restarts_all = true;  // failurePolicy
  const JobId job = w.submit(from("kubernetes", {driver, workers}, "jobset.x-k8s.io/v1alpha2/JobSet", "train"));
  w.settle();
  EXPECT_EQ(w.state.tables().tasks_of(job).size(), 5u);
  end_task(w, job, 1, 2, kBad);  // one failed: all start again
  EXPECT_EQ(w.state_of(job), JobState::kPending);
  EXPECT_EQ(w.job(job).restarts, 1u);
  w.pass(seconds(2));
  w.settle();
  EXPECT_EQ(w.job(job).attempt, 2u);
  end_task(w, job, 0, 0, kGood);
  for (std::uint32_t i = 0; i < 4; ++i) end_task(w, job, 1, i, kGood);
  EXPECT_EQ(w.state_of(job), JobState::kCompleted);
}

TEST(Mapping, LeaderWorkerSetIsAGangThatRestartsWhole) {
  World w(4);
  GroupSpec leader = pods("leader", 1, RestartRule::kAlways, 8);
  GroupSpec workers = pods("workers", 2, RestartRule::kAlways, 8);
  for (GroupSpec* group : {&leader, &workers}) {
    group->one_failure_restarts_all = true;  // RecreateGroupOnPodRestart
    group->endless = true;
  }
  leader.ports = {{"rendezvous", 29500}};
  const JobId job =
      w.submit(from("kubernetes", {leader, workers}, "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", "llm"));
  w.settle();
  const std::uint32_t node = node_of(w, task(w, job, 1, 1));
  w.lose(node);
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kRunning);  // no proof yet
  w.fence(node);
  w.obey();
  w.pass(seconds(2));
  w.settle();
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  EXPECT_EQ(w.job(job).attempt, 2u);
  EXPECT_NE(node_of(w, task(w, job, 1, 1)), node);
}

TEST(Mapping, SkyPilotTaskRunsItsCommandOnEveryNode) {
  World w(2);
  GroupSpec group = pods("task", 2, RestartRule::kNever);
  group.nodes = {2, 2};
  group.tasks_per_node = 1;
  group.tasks_per_node_exact = true;
  group.per_task.devices = {{"gpu", "h100", 8}};
  group.container = {};
  group.argv = {"bash", "-c", "python train.py"};
  group.env = {{"SKYPILOT_NUM_NODES", "2"}};
  const JobId job = w.submit(from("skypilot", {group}, "", "task"));
  w.settle();
  EXPECT_NE(node_of(w, task(w, job, 0, 0)), node_of(w, task(w, job, 0, 1)));
  end_task(w, job, 0, 1, kGood);
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  end_task(w, job, 0, 0, {7, 0, false});
  EXPECT_EQ(w.state_of(job), JobState::kFailed);
  EXPECT_EQ(w.job(job).exit.code, 7);
}

TEST(Mapping, SkyPilotServiceIsAnObjectOverReplicaJobs) {
  World w(3);
  for (int replica = 0; replica < 2; ++replica) {  // replicas come and go one by one: a job each
    GroupSpec group = pods("serve", 1, RestartRule::kAlways, 8);
    group.endless = true;
    group.one_failure_restarts_all = true;  // its loss moves it to another node
    Probe ready;
    ready.path = "/v1/models";
    ready.port = 8000;
    group.probes = {ready};
    w.submit(from("skypilot", {group}, "skypilot/v1/Service", "llm"));
  }
  EXPECT_EQ(w.state.tables().objects.size(), 1u);
  w.settle();
  const JobId a(1), b(2);
  EXPECT_EQ(w.state_of(a), JobState::kRunning);
  const std::uint32_t node = w.first_node(a);
  w.lose(node);
  w.fence(node);
  w.pass(seconds(2));
  w.settle();
  EXPECT_EQ(w.state_of(a), JobState::kRunning);
  EXPECT_EQ(w.job(b).attempt, 1u);
  const Uid service = w.state.tables().objects.begin()->second->meta.uid;
  for (const JobId job : {a, b}) EXPECT_EQ(controller_of(w.job(job).meta), service);
}

}  // namespace
}  // namespace lockstep
