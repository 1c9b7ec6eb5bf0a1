#include "frontends/slurm/server/words.h"

#include <gtest/gtest.h>

#include "frontends/slurm/server/environment.h"
#include "frontends/slurm/server/test_cluster.h"
#include "model/job.h"
#include "model/spec.h"

namespace lockstep::slurm {
namespace {

using Share = TestCluster::Share;

std::map<std::string, std::string> as_map(const std::vector<std::string>& env) {
  std::map<std::string, std::string> out;
  for (const std::string& line : env) {
    const auto at = line.find('=');
    EXPECT_TRUE(out.emplace(line.substr(0, at), line.substr(at + 1)).second) << "twice: " << line;
  }
  return out;
}

// One NAME=value a line, sorted: golden texts stay readable.
std::string as_text(const std::vector<std::string>& env) {
  std::string out;
  for (const auto& [name, value] : as_map(env)) out += name + "=" + value + "\n";
  return out;
}

const SlurmFacts kFacts{"home", seconds(0), WallTime{1'700'000'000'000'000}};

LaunchAttempt batch(const TestCluster& cluster, const Job& job, std::vector<std::string> env = {}) {
  LaunchAttempt launch;
  launch.has_script = true;
  launch.process.env = std::move(env);
  launch.process.work_dir = job.spec->work_dir;
  launch.process.std_out = job.spec->std_out;
  add_slurm_words(launch, cluster.tables, job, 0, kFacts);
  return launch;
}

JobSpec torch_spec() {
  JobSpec spec = TestCluster::spec("train");
  spec.options = {{"gpus-per-node", "h100:8"}, {"ntasks-per-node", "1"}};
  spec.groups[0].per_node.devices = {{"gpu", "h100", 8}};
  return spec;
}

Step step_over(const Job& job, std::vector<std::vector<std::uint32_t>> ranks, StepSpec spec = {}) {
  Step step;
  step.job = job.id;
  step.spec = std::make_shared<const StepSpec>(std::move(spec));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Grant& grant = job.allocation->grants[i];
    step.places.push_back({grant.node, static_cast<std::uint32_t>(i), ranks[i], grant.cores, grant.devices, {}, 0});
  }
  return step;
}

TEST(Environment, BatchScriptOfATorchrunJob) {
  TestCluster cluster(4, 16, 8);
  const Job job = TestCluster::running(12, torch_spec(), {{.nodes = 4, .tasks = 1, .cores = 8, .gpus = 8}});
  EXPECT_EQ(as_text(batch(cluster, job, {"PATH=/bin", "SLURM_PROCID=7", "CUDA_VISIBLE_DEVICES=3"}).process.env),
            "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7\n"
            "ENVIRONMENT=BATCH\n"
            "GPU_DEVICE_ORDINAL=0,1,2,3,4,5,6,7\n"
            "HOSTNAME=n1\n"
            "PATH=/bin\n"
            "SLURMD_NODENAME=n1\n"
            "SLURM_CLUSTER_NAME=home\n"
            "SLURM_CPUS_ON_NODE=8\n"
            "SLURM_GPUS_ON_NODE=8\n"
            "SLURM_GPUS_PER_NODE=h100:8\n"
            "SLURM_GTIDS=0\n"
            "SLURM_JOBID=12\n"
            "SLURM_JOB_CPUS_PER_NODE=8(x4)\n"
            "SLURM_JOB_END_TIME=1700003700\n"
            "SLURM_JOB_GID=100\n"
            "SLURM_JOB_GPUS=0,1,2,3,4,5,6,7\n"
            "SLURM_JOB_ID=12\n"
            "SLURM_JOB_NAME=train\n"
            "SLURM_JOB_NODELIST=n[1-4]\n"
            "SLURM_JOB_NUM_NODES=4\n"
            "SLURM_JOB_PARTITION=main\n"
            "SLURM_JOB_START_TIME=1700000100\n"
            "SLURM_JOB_UID=1000\n"
            "SLURM_JOB_USER=alice\n"
            "SLURM_LOCALID=0\n"
            "SLURM_NNODES=4\n"
            "SLURM_NODEID=0\n"
            "SLURM_NODELIST=n[1-4]\n"
            "SLURM_NPROCS=4\n"
            "SLURM_NTASKS=4\n"
            "SLURM_NTASKS_PER_NODE=1\n"
            "SLURM_PRIO_PROCESS=0\n"
            "SLURM_PROCID=0\n"
            "SLURM_SUBMIT_DIR=/home/alice/run\n"
            "SLURM_SUBMIT_HOST=login\n"
            "SLURM_TASKS_PER_NODE=1(x4)\n"
            "SLURM_TOPOLOGY_ADDR=n1\n"
            "SLURM_TOPOLOGY_ADDR_PATTERN=node\n"
            "SLURM_UMASK=0022\n"
            "TMPDIR=/tmp\n");
  const auto own = as_map(batch(cluster, job, {"TMPDIR=/scratch/alice"}).process.env);
  EXPECT_EQ(own.at("TMPDIR"), "/scratch/alice");
}

TEST(Environment, TasksAppearOnlyWhenAskedFor) {
  TestCluster cluster(2, 16, 0);
  const Job job = TestCluster::running(3, TestCluster::spec("x"), {{.nodes = 2, .cores = 4}});
  const auto env = as_map(batch(cluster, job).process.env);
  EXPECT_EQ(env.count("SLURM_NTASKS"), 0u);
  EXPECT_EQ(env.count("SLURM_CPUS_PER_TASK"), 0u);
  EXPECT_EQ(env.count("CUDA_VISIBLE_DEVICES"), 0u);
  EXPECT_EQ(env.count("SLURM_RESTART_COUNT"), 0u);
  EXPECT_EQ(env.at("SLURM_TASKS_PER_NODE"), "4(x2)");  // what Slurm plans: a task per processor
}

TEST(Environment, StepSeesItsOwnCounts) {
  TestCluster cluster(4, 16, 8);
  const Job job = TestCluster::running(12, torch_spec(), {{.nodes = 4, .tasks = 1, .cores = 8, .gpus = 8}});
  const Step step = step_over(job, {{0, 1}, {2, 3}, {4}});
  LaunchStep launch;
  launch.process.env = {"SLURM_SUBMIT_DIR=/elsewhere", "SLURM_NTASKS=4"};
  add_slurm_words(launch, cluster.tables, job, step, 1, kFacts);
  const auto env = as_map(launch.process.env);
  EXPECT_EQ(env.at("SLURM_STEP_ID"), "0");
  EXPECT_EQ(env.at("SLURM_NTASKS"), "5");
  EXPECT_EQ(env.at("SLURM_NNODES"), "3");
  EXPECT_EQ(env.at("SLURM_JOB_NUM_NODES"), "4");
  EXPECT_EQ(env.at("SLURM_JOB_NODELIST"), "n[1-4]");
  EXPECT_EQ(env.at("SLURM_STEP_NODELIST"), "n[1-3]");
  EXPECT_EQ(env.at("SLURM_TASKS_PER_NODE"), "2(x2),1");
  EXPECT_EQ(env.at("SLURM_STEP_TASKS_PER_NODE"), "2(x2),1");
  EXPECT_EQ(env.at("SLURM_NODEID"), "1");
  EXPECT_EQ(env.at("SLURM_GTIDS"), "2,3");
  EXPECT_EQ(env.at("SLURMD_NODENAME"), "n2");
  EXPECT_EQ(env.at("SLURM_LAUNCH_NODE_IPADDR"), "10.0.0.1");
  EXPECT_EQ(env.at("SLURM_STEP_GPUS"), "0,1,2,3,4,5,6,7");
  EXPECT_EQ(env.at("SLURM_SUBMIT_DIR"), "/elsewhere");
  EXPECT_EQ(launch.process.task_env,
            (std::vector<std::string>{"SLURM_PROCID=\x01t", "SLURM_LOCALID=\x01l", "SLURM_TASK_PID=\x01p"}));
  EXPECT_TRUE(launch.env_by_rank.empty());  // every GPU is visible to every task
}

TEST(Environment, StepWithoutDevicesSeesNoGpu) {
  TestCluster cluster(1, 16, 8);
  const Job job = TestCluster::running(12, torch_spec(), {{.cores = 8, .gpus = 8}});
  Step step = step_over(job, {{0}});
  step.places[0].devices = {};
  LaunchStep launch;
  add_slurm_words(launch, cluster.tables, job, step, 0, kFacts);
  const auto env = as_map(launch.process.env);
  EXPECT_EQ(env.count("CUDA_VISIBLE_DEVICES"), 0u);
  EXPECT_EQ(env.count("SLURM_STEP_GPUS"), 0u);
}

TEST(Environment, GpusPerTaskBindsEachTask) {
  TestCluster cluster(1, 16, 8);
  const Job job = TestCluster::running(12, torch_spec(), {{.cores = 8, .gpus = 4}});
  StepSpec spec;
  spec.devices_per_task = {{"gpu", "", 2}};
  const Step step = step_over(job, {{0, 1}}, spec);
  LaunchStep launch;
  add_slurm_words(launch, cluster.tables, job, step, 0, kFacts);
  ASSERT_EQ(launch.env_by_rank.size(), 2u);
  EXPECT_EQ(launch.env_by_rank[0][0], "CUDA_VISIBLE_DEVICES=0,1");
  EXPECT_EQ(launch.env_by_rank[1][0], "CUDA_VISIBLE_DEVICES=2,3");
  spec.options = {{"gpu-bind", "verbose,per_task:2"}};
  LaunchStep told;
  add_slurm_words(told, cluster.tables, job, step_over(job, {{0, 1}}, spec), 0, kFacts);
  ASSERT_EQ(told.env_by_rank.size(), 2u);
  EXPECT_EQ(told.env_by_rank[1].back(),
            "LOCKSTEP_GPU_BINDING=usable_gres=0xc; bit_alloc=0xf; local_inx=2; global_list=2,3; local_list=2,3");
}

TEST(Environment, ArrayElement) {
  TestCluster cluster(1, 16, 0);
  Job parent = TestCluster::pending(20, TestCluster::spec("sweep"));
  ArrayState array;
  array.asked = IntervalSet::parse("1-5:2").value();
  array.step = 2;
  parent.array = std::make_shared<const ArrayState>(array);
  cluster.put(parent);
  Job job = TestCluster::running(23, TestCluster::spec("sweep"), {{}});
  job.array_job = JobId(20);
  job.array_index = 3;
  const LaunchAttempt launch = batch(cluster, job);
  const auto env = as_map(launch.process.env);
  EXPECT_EQ(env.at("SLURM_JOB_ID"), "23");
  EXPECT_EQ(env.at("SLURM_ARRAY_JOB_ID"), "20");
  EXPECT_EQ(env.at("SLURM_ARRAY_TASK_ID"), "3");
  EXPECT_EQ(env.at("SLURM_ARRAY_TASK_COUNT"), "3");
  EXPECT_EQ(env.at("SLURM_ARRAY_TASK_MIN"), "1");
  EXPECT_EQ(env.at("SLURM_ARRAY_TASK_MAX"), "5");
  EXPECT_EQ(env.at("SLURM_ARRAY_TASK_STEP"), "2");
  EXPECT_EQ(launch.process.std_out, "/home/alice/run/slurm-20_3.out");
}

TEST(Environment, HetJobHasOneSetPerComponent) {
  TestCluster cluster(3, 16, 8);
  JobSpec spec = TestCluster::spec("het");
  spec.groups.resize(2);
  spec.groups[1].per_task.cores = 2;
  spec.options = {{"ntasks", "1"}};
  const Job job = TestCluster::running(
      30, spec, {{.first = 1, .nodes = 1, .tasks = 1}, {.first = 2, .nodes = 2, .tasks = 4, .cores = 8, .group = 1}});
  const auto env = as_map(batch(cluster, job, {"SLURM_JOB_ID_HET_GROUP_7=1"}).process.env);
  EXPECT_EQ(env.at("SLURM_HET_SIZE"), "2");
  EXPECT_EQ(env.at("SLURM_JOB_NODELIST"), "n1");
  EXPECT_EQ(env.at("SLURM_JOB_NODELIST_HET_GROUP_0"), "n1");
  EXPECT_EQ(env.at("SLURM_JOB_NODELIST_HET_GROUP_1"), "n[2-3]");
  EXPECT_EQ(env.at("SLURM_TASKS_PER_NODE_HET_GROUP_1"), "4(x2)");
  EXPECT_EQ(env.at("SLURM_CPUS_PER_TASK_HET_GROUP_1"), "2");
  EXPECT_EQ(env.count("SLURM_JOB_ID_HET_GROUP_7"), 0u);  // of another job
}

TEST(Environment, RequeuedJobCountsItsRestarts) {
  TestCluster cluster(1, 16, 0);
  Job job = TestCluster::running(5, TestCluster::spec("x"), {{}});
  job.restarts = 2;
  job.preemptions = 1;
  job.limit_end = kNever;
  const auto env = as_map(batch(cluster, job).process.env);
  EXPECT_EQ(env.at("SLURM_RESTART_COUNT"), "3");
  EXPECT_EQ(env.at("SLURM_JOB_END_TIME"), "1731536100");  // no limit: a year, as Slurm projects it
}

TEST(Environment, AttemptBeingLaunchedStartsNow) {
  TestCluster cluster(1, 16, 0);
  JobSpec spec = TestCluster::spec("x");
  spec.time_limit = minutes(5);
  Job job = TestCluster::running(5, spec, {{}});
  job.state = JobState::kStarting;
  job.started = job.limit_end = Instant{};
  const auto env = as_map(batch(cluster, job).process.env);
  EXPECT_EQ(env.at("SLURM_JOB_START_TIME"), "1700000000");
  EXPECT_EQ(env.at("SLURM_JOB_END_TIME"), "1700000300");
}

TEST(Environment, WallOffsetMovesTimes) {
  TestCluster cluster(1, 16, 0);
  const Job job = TestCluster::running(5, TestCluster::spec("x"), {{}});
  LaunchAttempt launch;
  add_slurm_words(launch, cluster.tables, job, 0, {"home", seconds(50), WallTime{}});
  EXPECT_EQ(as_map(launch.process.env).at("SLURM_JOB_START_TIME"), "1700000150");
}

TEST(Environment, SubmitDirectoryDiffersWithChdir) {
  TestCluster cluster(1, 16, 0);
  JobSpec spec = TestCluster::spec("x");
  spec.options = {{"chdir", "/home/alice/run"}};
  const Job job = TestCluster::running(5, spec, {{}});
  EXPECT_EQ(as_map(batch(cluster, job, {"PWD=/home/alice"}).process.env).at("SLURM_SUBMIT_DIR"), "/home/alice");
}

TEST(Environment, SallocGetsTheJobOnly) {
  TestCluster cluster(2, 16, 0);
  const Job job = TestCluster::running(5, TestCluster::spec("x"), {{.nodes = 2}});
  const std::string text = slurm_job_environment(cluster.tables, job, kFacts);
  EXPECT_NE(text.find(std::string("SLURM_JOB_NODELIST=n[1-2]\0", 26)), std::string::npos);
  EXPECT_EQ(text.find("SLURM_PROCID"), std::string::npos);
  EXPECT_EQ(text.back(), '\0');
  EXPECT_EQ(slurm_job_environment(cluster.tables, TestCluster::pending(6, TestCluster::spec("y")), kFacts), "");
}

TEST(Environment, RankOrderIsKept) {
  TestCluster cluster(3, 16, 0);
  const Job job = TestCluster::running(5, TestCluster::spec("x"), {{.first = 3}, {.first = 1, .nodes = 2}});
  EXPECT_EQ(as_map(batch(cluster, job).process.env).at("SLURM_JOB_NODELIST"), "n[3,1-2]");
}

TEST(Environment, TheNodesOfAWideJobAreNamedOnceForAllLaunches) {
  TestCluster cluster(60, 16, 8);
  Job job = TestCluster::running(12, torch_spec(), {{.nodes = 60, .tasks = 1, .cores = 8}});
  LayoutMemory memory;
  SlurmFacts facts = kFacts;
  facts.layouts = &memory;
  std::vector<std::vector<std::uint32_t>> ranks;
  for (std::uint32_t i = 0; i < 60; ++i) ranks.push_back({i});
  Step step = step_over(job, ranks);
  for (std::size_t i = 0; i < 60; ++i) {
    LaunchAttempt launch, plain;
    add_slurm_words(launch, cluster.tables, job, i, facts);
    add_slurm_words(plain, cluster.tables, job, i, kFacts);
    EXPECT_EQ(launch.process.env, plain.process.env);
    LaunchStep of_step, plain_step;
    add_slurm_words(of_step, cluster.tables, job, step, i, facts);
    add_slurm_words(plain_step, cluster.tables, job, step, i, kFacts);
    EXPECT_EQ(of_step.process.env, plain_step.process.env);
  }
  EXPECT_EQ(memory.worked_out(), 2u);
  step.number = 1;  // another step, on fewer nodes
  step.places.resize(2);
  EXPECT_EQ(memory.of(cluster.tables, step).node_list, "n[1-2]");
  job = TestCluster::running(12, torch_spec(), {{.first = 3, .nodes = 2, .tasks = 1, .cores = 8}});
  EXPECT_EQ(memory.of(cluster.tables, job, 0).node_list, "n[3-4]");
}

}  // namespace
}  // namespace lockstep::slurm
