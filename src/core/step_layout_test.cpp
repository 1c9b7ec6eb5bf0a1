// Where the tasks of a step run: distributions, lists of a node for every task, and what is said when devices are
// short.
#include <gtest/gtest.h>

#include "base/text.h"
#include "core/testing.h"
#include "model/bounds.h"
#include "model/job.h"

namespace lockstep {
namespace {

class StepLayout : public ::testing::Test {
 protected:
  StepLayout() {
    JobSpec spec = World::interactive(2);
    spec.groups[0].tasks = {8, 8};
    spec.groups[0].tasks_per_node = 4;
    spec.groups[0].per_node.devices = {{"gpu", "", 2}};
    job_ = w_.submit(spec);
    w_.settle();
  }
  static Command ask(JobId job, const StepSpec& spec) {
    return {kAliceCalls, CreateStep{job, std::make_shared<const StepSpec>(spec)}};
  }
  StepSpec step(const char* distribution, std::uint32_t tasks = 0) const {
    StepSpec spec;
    spec.argv = {"true"};
    spec.distribution = distribution;
    spec.tasks = tasks;
    spec.overlap = true;
    return spec;
  }
  // "n1:0,1 n2:2", or why not.
  std::string made(const StepSpec& spec) {
    const auto outcome = apply(w_.state, ask(job_, spec), w_.now);
    if (!outcome.ok())
      return outcome.error().message;
    check_invariants(w_.state);
    std::string out;
    for (const StepPlace& place : w_.state.tables().step(job_, outcome->answer.step)->places) {
      out += format("{}{}:", out.empty() ? "" : " ", w_.state.tables().node(place.node)->meta.name);
      for (std::size_t i = 0; i < place.ranks.size(); ++i) out += format("{}{}", i ? "," : "", place.ranks[i]);
    }
    return out;
  }
  World w_{2};
  JobId job_;
};

TEST_F(StepLayout, Distributions) {
  EXPECT_EQ(made(step("", 8)), "n1:0,1,2,3 n2:4,5,6,7");
  EXPECT_EQ(made(step("block", 8)), "n1:0,1,2,3 n2:4,5,6,7");
  EXPECT_EQ(made(step("cyclic", 8)), "n1:0,2,4,6 n2:1,3,5,7");
  EXPECT_EQ(made(step("plane=2", 8)), "n1:0,1,4,5 n2:2,3,6,7");
  EXPECT_EQ(made(step("plane=3", 8)), "n1:0,1,2,6 n2:3,4,5,7");
  EXPECT_EQ(made(step("plane=100", 8)), made(step("block", 8)));
  EXPECT_EQ(made(step("plane=99999999999999999999", 8)), made(step("block", 8)));
}

TEST_F(StepLayout, ANodeForEveryTask) {
  StepSpec spec = step("arbitrary");
  spec.only_nodes = {"n2", "n1", "n2", "n2"};
  EXPECT_EQ(made(spec), "n1:1 n2:0,2,3");
  spec.only_nodes = {"n2"};
  EXPECT_EQ(made(spec), "n2:0");
  spec.only_nodes = {"n1", "n3"};
  EXPECT_EQ(made(spec), "Requested nodes are not in the job's allocation: n3");
  spec.only_nodes.clear();
  EXPECT_NE(made(spec).find("not available"), std::string::npos);
  spec.only_nodes.assign(kTasksPerNodeMax + 1, "n1");
  EXPECT_EQ(made(spec).find("n1:"), std::string::npos);
  spec.only_nodes = {"n1", "n2", "n1"};
  spec.multi_prog = {{"a"}, {"b"}};
  EXPECT_EQ(made(spec), "names programs for 2 tasks; the step has 3");
}

// Four tasks of four cores have their own on a node; a fifth shares them if that was asked for.
TEST_F(StepLayout, ANodeForEveryTaskIsOvercommittedWhereThatIsAskedFor) {
  StepSpec spec = step("arbitrary");
  spec.only_nodes.assign(5, "n1");
  spec.exact = true;
  EXPECT_NE(made(spec).find("ask for fewer, or with --overcommit"), std::string::npos) << made(spec);
  spec.overcommit = true;
  EXPECT_EQ(made(spec), "n1:0,1,2,3,4");
}

TEST_F(StepLayout, AStepBeginsAtANodeThatTheJobHas) {
  StepSpec spec = step("block", 1);
  spec.relative = 1;
  EXPECT_EQ(made(spec), "n2:0");
  spec.relative = 2;
  EXPECT_EQ(made(spec), format("the step is to begin at node 2, counted from 0, but job {} holds 2", job_.value));
}

// As --ntasks-per-gpu=N and --gpu-bind=single:N want it: no GPU has more than N tasks, and none is idle.
TEST_F(StepLayout, TasksThatShareAGpuAreWhereGpusAre) {
  JobSpec uneven = World::interactive(2);
  uneven.groups[0].tasks = {4, 4};
  uneven.groups[0].tasks_per_node = 0;
  uneven.groups[0].per_job = {{"gpu", "", 4}};
  w_.must(CancelJob{{job_, {}}});
  w_.obey();
  job_ = w_.submit(uneven);
  w_.settle();
  ASSERT_EQ(w_.state_of(job_), JobState::kRunning);
  StepSpec spec = step("", 8);
  spec.overcommit = true;
  EXPECT_EQ(made(spec), "n1:0,1,2,3 n2:4,5,6,7");
  spec.options = {{"gpu-bind", "single:2"}};
  EXPECT_EQ(made(spec), "n1:0,1,2,3,4,5 n2:6,7");
  spec.options = {{"gpu-bind", "verbose,single:1"}};
  EXPECT_EQ(made(spec), "n1:0,1,2,3 n2:4,5,6,7") << "there are not enough of them anyway";
}

TEST_F(StepLayout, GpusOfAllTheStepAreWhereItsTasksAre) {
  StepSpec spec = step("", 4);
  spec.devices_total = 4;
  const auto outcome = apply(w_.state, ask(job_, spec), w_.now);
  ASSERT_TRUE(outcome.ok());
  for (const StepPlace& place : w_.state.tables().step(job_, outcome->answer.step)->places) {
    EXPECT_EQ(place.ranks.size(), 2u);
    EXPECT_EQ(place.devices.count(), 2u);
  }
}

TEST(FirstStep, HasANodeOfItsJob) {
  World w(2);
  SubmitJob ask{.spec = std::make_shared<const JobSpec>(World::interactive(2))};
  StepSpec step;
  step.argv = {"true"};
  const auto refused = [&]() -> std::string {
    ask.first_step = std::make_shared<const StepSpec>(step);
    const auto outcome = w.run(ask);
    return outcome.ok() ? "" : outcome.error().field;
  };
  step.relative = 2;
  EXPECT_EQ(refused(), "first_step.relative");
  step.relative = 1;
  EXPECT_EQ(refused(), "");
  step.group = 1;
  EXPECT_EQ(refused(), "first_step.group");
}

TEST_F(StepLayout, ATypeThatTheJobDoesNotHoldIsRefused) {
  const std::string held = w_.state.tables().node("n1")->devices.at(0).type;
  StepSpec total = step("", 1);
  total.devices_total = 1;
  total.devices_per_node = {{"gpu", "a100", 0}};  // --gpus=a100:1
  const std::string refused =
      format("Invalid generic resource (gres) specification: gpu:a100 is not among the devices of job {}", job_.value);
  EXPECT_EQ(made(total), refused);
  total.devices_per_node[0].type = held;
  EXPECT_EQ(made(total), "n1:0");
  StepSpec each = step("", 1);
  each.devices_per_node = {{"gpu", "a100", 1}};
  EXPECT_EQ(made(each), refused);
  each.devices_per_node.clear();
  each.devices_per_task = {{"gpu", "a100", 1}};
  EXPECT_EQ(made(each), refused);
  each.devices_per_task[0].type = held;
  EXPECT_EQ(made(each), "n1:0");
}

TEST_F(StepLayout, TooFewDevicesAreNamed) {
  StepSpec spec = step("", 2);
  spec.devices_per_node = {{"gpu", "", 3}};
  EXPECT_EQ(
      made(spec),
      format("Requested node configuration is not available: the 4 device(s) that job {} holds on 2 node(s) are too "
             "few for the step",
             job_.value));
  spec.devices_per_node.clear();
  spec.overlap = false;
  spec.tasks = 2000;
  EXPECT_NE(made(spec).find("More processors requested than permitted"), std::string::npos) << made(spec);
}

// Each step has all parts that its job has; what it says of them is how many its tasks need.
TEST(StepParts, AreAsManyAsTheirTasksNeed) {
  World w{1};
  JobSpec spec = World::interactive(1);
  spec.groups[0].tasks = {2, 2};
  spec.groups[0].tasks_per_node = 2;
  spec.groups[0].per_task.devices = {{"gpu", "", 1, 250}};
  const JobId job = w.submit(spec);
  w.settle();
  ASSERT_EQ(w.state.tables().job(job)->allocation->grants[0].parts.size(), 2u);
  const auto made = [&](std::uint32_t tasks, DeviceAsk ask) -> std::string {
    StepSpec step;
    step.argv = {"true"};
    step.tasks = tasks;
    step.overlap = step.overcommit = true;
    step.devices_per_task = {ask};
    const auto outcome = apply(w.state, {kAliceCalls, CreateStep{job, std::make_shared<const StepSpec>(step)}}, w.now);
    if (!outcome.ok())
      return outcome.error().message;
    check_invariants(w.state);
    return format("{}", w.state.tables().step(job, outcome->answer.step)->places[0].ranks.size());
  };
  EXPECT_EQ(made(2, {"gpu", "", 1, 250}), "2");
  EXPECT_EQ(made(1, {"gpu", "", 2, 250}), "1");
  EXPECT_NE(made(3, {"gpu", "", 1, 250}).find("the 2 device(s)"), std::string::npos) << made(3, {"gpu", "", 1, 250});
  EXPECT_NE(made(1, {"gpu", "", 1, 500}).find("are too few"), std::string::npos);
  EXPECT_NE(made(1, {"gpu", "", 1, kWholeDevice, 0, "1g.10gb"}).find("are too few"), std::string::npos);
}

class StepMemory : public ::testing::Test {
 protected:
  StepMemory() {
    JobSpec spec = World::interactive(1);
    spec.groups[0].tasks = {4, 4};
    spec.groups[0].tasks_per_node = 4;
    spec.groups[0].per_task.cores = 1;
    spec.groups[0].per_task.memory_mb = 0;
    spec.groups[0].per_node.memory_mb = 400;
    job_ = w_.submit(spec);
    w_.settle();
  }
  StepSpec step(std::int64_t memory_mb) const {
    StepSpec spec;
    spec.argv = {"true"};
    spec.tasks = 1;
    spec.exact = spec.immediate = true;
    spec.memory_mb = memory_mb;
    return spec;
  }
  // Its memory, or why not.
  std::string made(const StepSpec& spec) {
    const auto outcome =
        apply(w_.state, {kAliceCalls, CreateStep{job_, std::make_shared<const StepSpec>(spec)}}, w_.now);
    if (!outcome.ok())
      return outcome.error().message;
    check_invariants(w_.state);
    return std::to_string(w_.state.tables().step(job_, outcome->answer.step)->places[0].memory_mb);
  }
  World w_{1};
  JobId job_;
};

TEST_F(StepMemory, IsDividedAmongStepsThatSayHowMuch) {
  const std::string busy = format("Requested nodes are busy: job {}", job_.value);
  EXPECT_EQ(made(step(300)), "300");
  EXPECT_EQ(made(step(300)), busy);
  EXPECT_EQ(made(step(100)), "100");
  EXPECT_EQ(made(step(1)), busy);
  EXPECT_EQ(made(step(-1)), "400") << "who says nothing shares what the job has";
  StepSpec beside = step(400);
  beside.overlap = true;
  EXPECT_EQ(made(beside), "400");
}

TEST_F(StepMemory, MoreThanTheJobHasIsRefused) {
  EXPECT_EQ(made(step(400)), "400");
  const std::string refused =
      format("Memory required by task is not available: the step asks for 401 MB on a node, of which job {} holds 400",
             job_.value);
  EXPECT_EQ(made(step(401)), refused);
  StepSpec beside = step(401);
  beside.overlap = true;
  EXPECT_EQ(made(beside), refused);
  StepSpec listed = step(401);
  listed.distribution = "arbitrary";
  listed.only_nodes = {"n1"};
  EXPECT_EQ(made(listed), refused);
}

// As with Slurm: who shares the cores with other steps still has no more of them than the job.
TEST_F(StepLayout, AnOverlappingStepHasNoMoreTasksThanTheJobHasCores) {
  std::uint32_t cores = 0;
  for (const Grant& grant : w_.job(job_).allocation->grants) cores += grant.cores.count();
  const std::uint32_t fit = cores / 4;  // each task of the job has four
  EXPECT_TRUE(made(step("", fit)).starts_with("n1:"));
  EXPECT_TRUE(made(step("", fit)).starts_with("n1:")) << "beside the other";
  EXPECT_EQ(made(step("", fit + 1)),
            format("More processors requested than permitted: job {} holds {} core(s) on 2 node(s), which are too few "
                   "for {} task(s) of 4 core(s) each: ask for fewer, or with --overcommit",
                   job_.value, cores, fit + 1));
  StepSpec crowded = step("", fit + 1);
  crowded.overcommit = true;
  EXPECT_TRUE(made(crowded).starts_with("n1:"));
}

}  // namespace
}  // namespace lockstep
