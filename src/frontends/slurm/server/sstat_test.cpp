#include "frontends/slurm/server/sstat.h"

#include <gtest/gtest.h>

#include "frontends/slurm/server/show.h"
#include "frontends/slurm/server/sinfo.h"
#include "frontends/slurm/server/test_cluster.h"
#include "model/step.h"

namespace lockstep::slurm {
namespace {

WorkUse use_of(std::uint32_t rank, std::int64_t mib, Duration cpu) {
  WorkUse use;
  use.tasks = 1;
  use.user = use.least_cpu = cpu;
  use.memory_peak = use.memory_sum = mib << 20;
  use.memory_peak_rank = use.least_cpu_rank = rank;
  return use;
}

// Job 5 on n1 and n2: its script, a step on both that runs, one that has ended. It began a minute ago.
struct Measured {
  TestCluster cluster{3, 8, 2};
  LiveUse live;

  Measured() {
    cluster.put(TestCluster::running(5, TestCluster::spec("train"), {{1, 2, 1, 4, 2}}));
    for (const StepNo number : {0, 1}) {
      Step step;
      step.job = JobId(5);
      step.number = number;
      step.attempt = 1;
      step.user = UserId(1);
      step.spec = std::make_shared<const StepSpec>();
      step.state = number == 0 ? StepState::kEnded : StepState::kRunning;
      step.started = Instant{1'700'000'100'000'000};
      std::vector<StepPlace> places(2);
      places[0].node = NodeId(1);
      places[0].ranks = {0};
      places[1].node = NodeId(2);
      places[1].grant = 1;
      places[1].ranks = {1};
      step.places = places;
      cluster.put(step);
    }
    Telemetry first{112, 5000, {{1, 80, 300, 200, 60}, {1, 1, 1, 1, 1}, {9, 1, 1, 1, 1}}, {}};
    first.work.push_back({JobId(5), 1, ScriptPart{}, use_of(0, 1, {})});
    first.work.push_back({JobId(5), 1, StepPart{1}, use_of(0, 100, seconds(30))});
    first.work.push_back({JobId(5), 2, StepPart{1}, use_of(0, 9999, seconds(9999))});
    Telemetry second{0, 1000, {}, {}};
    second.work.push_back({JobId(5), 1, StepPart{1}, use_of(1, 300, seconds(50))});
    second.work.back().use.gpu = seconds(90);
    second.work.back().use.gpu_memory_peak = std::int64_t{2000} << 20;
    Telemetry third{0, 0, {}, second.work};  // of a node that has nothing of the job
    live.take(cluster.tables, *cluster.tables.node("n1"), first, Instant{1});
    live.take(cluster.tables, *cluster.tables.node("n2"), second, Instant{1});
    live.take(cluster.tables, *cluster.tables.node("n3"), third, Instant{1});
  }
  ReadContext context() const {
    ReadContext out = context_of(cluster);
    out.live = &live;
    return out;
  }
  PageReply ask(const std::string& jobs, const std::string& columns, bool all = false) const {
    return whole(sstat_page(context(), {"", {{"jobs", jobs}, {"columns", columns}, {"allsteps", all ? "1" : "0"}}}));
  }
};

TEST(Sstat, AddsUpWhatTheNodesOfAStepSay) {
  const Measured m;
  EXPECT_EQ(m.ask("5", "jobid,nodelist,ntasks,maxrss,maxrsstask,maxrssnode,averss,mincpu,mincpunode,avecpu").body,
            "5.1\tn[1-2]\t2\t307200K\t1\tn2\t204800K\t00:00:30\tn1\t00:00:40\n");
  EXPECT_EQ(m.ask("5.1", "tresusageintot,tresusageinmax").body,
            "cpu=00:01:20,mem=409600K,gres/gpuutil=150\t"
            "cpu=00:00:40,mem=307200K,gres/gpumem=2000M,gres/gpuutil=75\n");
}

// In whole seconds, 90 of GPUs within 1.9 would be those of 90 of them, and not of 47.
TEST(Sstat, WhatGpusDidIsAShareOfTheTimeToTheMoment) {
  const Measured m;
  ReadContext early = m.context();
  early.now = Instant{1'700'000'101'900'000};
  EXPECT_EQ(whole(sstat_page(early, {"", {{"jobs", "5.1"}, {"columns", "tresusageintot"}}})).body,
            "cpu=00:01:20,mem=409600K,gres/gpuutil=4736\n");
}

TEST(Sstat, AStepOrAllOfThemOrTheScript) {
  const Measured m;
  EXPECT_EQ(m.ask("5", "jobid,maxrss", true).body, "5.batch\t1024K\n5.1\t307200K\n");
  EXPECT_EQ(m.ask("5.batch", "jobid,nodelist,maxrssnode").body, "5.batch\tn1\tn1\n");
  EXPECT_EQ(m.ask("5.0", "jobid").body, "") << "it has ended";
  EXPECT_EQ(m.ask("5.7,6,99.batch", "jobid").body, "");
}

TEST(Sstat, OthersSeeNothing) {
  Measured m;
  ReadContext context = m.context();
  context.caller = nullptr;
  const PageRequest request{"", {{"jobs", "5"}, {"columns", "jobid"}}};
  EXPECT_EQ(whole(sstat_page(context, request)).body, "");
  context.admin = true;
  EXPECT_EQ(whole(sstat_page(context, request)).body, "5.1\n");
}

TEST(Sstat, WhatCannotBeAskedIsRefused) {
  const Measured m;
  EXPECT_EQ(m.ask("5", "password").status, 400);
  EXPECT_EQ(m.ask("", "jobid").status, 400);
  EXPECT_EQ(m.ask("five", "jobid").status, 400);
  EXPECT_EQ(m.ask("5", "").status, 400);
}

TEST(Sstat, NodesShowTheirLoadAndMemory) {
  const Measured m;
  const std::string shown = whole(show_node_page(m.context(), {"", {{"name", "n1"}}})).body;
  EXPECT_NE(shown.find("CPULoad=1.12"), std::string::npos) << shown;
  EXPECT_NE(shown.find("FreeMem=5000"), std::string::npos) << shown;
  EXPECT_EQ(whole(sinfo_page(m.context(), {"", {{"columns", "nodelist,cpusload,freemem"}, {"nodes", "n2"}}})).body,
            "n2\t0.00\t1000\n");
  const NodeMeasures* measures = m.live.node(NodeId(1));
  ASSERT_TRUE(measures);
  ASSERT_EQ(measures->devices.size(), 1u) << "each once, and those that the node has";
  EXPECT_EQ(measures->devices[0].device, 1u);
}

TEST(Sstat, ANodeThatIsLostIsForgotten) {
  Measured m;
  Node node = *m.cluster.tables.node("n1");
  node.link = NodeLink::kLost;
  m.live.apply({{1, std::make_shared<const Node>(node), false}});
  EXPECT_EQ(m.live.node(NodeId(1)), nullptr);
  EXPECT_EQ(m.ask("5", "maxrss").body, "307200K\n");
  EXPECT_EQ(m.ask("5", "maxrss", true).body, "\n307200K\n") << "of the script nothing is known now";
}

}  // namespace
}  // namespace lockstep::slurm
