#include "frontends/slurm/server/squeue.h"

#include <gtest/gtest.h>

#include "frontends/slurm/server/show.h"
#include "frontends/slurm/server/show_text.h"
#include "frontends/slurm/server/test_cluster.h"
#include "model/job.h"
#include "model/spec.h"

namespace lockstep::slurm {
namespace {

std::string ask_squeue(const TestCluster& cluster, std::map<std::string, std::string, std::less<>> query) {
  const PageReply reply = whole(squeue_page(context_of(cluster), {"/slurm/v1/squeue", std::move(query)}));
  return reply.status == 200 ? reply.body : format("{} {}", reply.status, reply.body);
}

TestCluster busy_cluster() {
  TestCluster cluster(4, 16, 8);
  cluster.put(TestCluster::running(10, TestCluster::spec("train"), {{.nodes = 4, .cores = 8, .gpus = 8}}));
  cluster.put(TestCluster::pending(11, TestCluster::spec("next")));
  cluster.notes.put({JobId(11), Wait::kResources, "", Instant{1'700'003'700'000'000}, {NodeId(1)}});
  Job done = TestCluster::pending(9, TestCluster::spec("old"));
  done.state = JobState::kFailed;
  done.exit.code = 3;
  done.end_reason = "NonZeroExitCode";
  cluster.put(done);
  Job array = TestCluster::pending(20, TestCluster::spec("sweep"));
  ArrayState state;
  state.asked = IntervalSet(0, 9);
  state.waiting = IntervalSet(3, 5);
  state.throttle = 2;
  array.array = std::make_shared<const ArrayState>(state);
  cluster.put(array);
  Job element = TestCluster::running(21, TestCluster::spec("sweep"), {{}});
  element.array_job = JobId(20);
  element.array_index = 2;
  cluster.put(element);
  return cluster;
}

TEST(Squeue, DefaultColumns) {
  EXPECT_EQ(ask_squeue(busy_cluster(),
                       {{"columns", "jobarrayid,partition,name,username,statecompact,timeused,numnodes,reasonlist"}}),
            "10\tmain\ttrain\talice\tR\t60\t4\tn[1-4]\n"
            "11\tmain\tnext\talice\tPD\t0\t1\t(Resources)\n"
            "20_[3-5%2]\tmain\tsweep\talice\tPD\t0\t1\t(None)\n"
            "20_2\tmain\tsweep\talice\tR\t60\t1\tn1\n");
}

TEST(Squeue, IndicesAndMemoryStandBare) {
  EXPECT_EQ(ask_squeue(busy_cluster(), {{"columns", "jobarrayid,arraytaskid,minmemory"}, {"name", "sweep"}}),
            "20_[3-5%2]\t3-5%2\t0\n20_2\t2\t0\n");
}

TEST(Squeue, Filters) {
  const TestCluster cluster = busy_cluster();
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"states", "R"}}), "10\n21\n");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid,statecompact"}, {"states", "all"}, {"jobs", "9"}}), "9\tF\n");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"jobs", "9"}}), "");  // ended: not listed unless asked for
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobarrayid"}, {"jobs", "20"}}), "20_[3-5%2]\n20_2\n");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobarrayid"}, {"jobs", "20_[2,4]"}}), "20_4\n20_2\n");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobarrayid"}, {"array", "1"}, {"name", "sweep"}}),
            "20_3\n20_4\n20_5\n20_2\n");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"nodes", "n[2-3]"}}), "10\n");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"user", "1000"}, {"name", "next"}}), "11\n");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"partition", "other"}}), "");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"me", "1"}, {"states", "PD"}}), "11\n20\n");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"jobs", "11,10,11,999"}}), "10\n11\n");
}

TEST(Squeue, AnEmptyFilterLetsNothingThrough) {
  const TestCluster cluster = busy_cluster();
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"states", ""}}), "");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"partition", ""}}), "");
}

TEST(Squeue, Refusals) {
  const TestCluster cluster = busy_cluster();
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"jobs", "999"}}), "404 Invalid job id specified");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"jobs", "x"}}), "400 Invalid job id: x");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"jobs", "1_[a]"}}), "400 Invalid job id: 1_[a]");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"user", "nobody"}}), "400 Invalid user: nobody");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"user", "some,1000,any"}}), "400 Invalid user: any,some");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"user", "4711"}}), "");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"states", "ZZ"}}), "400 Invalid job state specified: ZZ");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid"}, {"nodes", "n9"}}), "400 Invalid node name n9");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid,nonsense"}}), "400 no such column: nonsense");
  EXPECT_EQ(ask_squeue(cluster, {}), "400 columns are missing");
}

// A reader takes one backslash away and shows the rest: a\tb\nc\d.
TEST(Squeue, TextsAreEscaped) {
  TestCluster cluster(1, 1, 0);
  cluster.put(TestCluster::pending(1, TestCluster::spec("a\tb\nc\\d")));
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "name,jobid"}}), "a\\\\tb\\\\nc\\\\d\t1\n");
}

TEST(Squeue, TimesAndLimits) {
  const TestCluster cluster = busy_cluster();
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "starttime,endtime,timelimit,timeleft"}, {"jobs", "10"}}),
            "1700000100\t1700003700\t-1\t-1\n");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "starttime,schednodes"}, {"jobs", "11"}}), "1700003700\tn1\n");
}

TEST(Squeue, RequeuedJobStartsAfterItsPause) {
  TestCluster cluster(1, 1, 0);
  Job job = TestCluster::pending(1, TestCluster::spec("x"));
  job.begin_after = Instant{1'700'000'200'000'000};
  cluster.put(job);
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "starttime,endtime"}}), "1700000200\t0\n");
}

TEST(Squeue, JobOfALaterTimeIsEligibleThen) {
  TestCluster cluster(1, 1, 0);
  JobSpec spec = TestCluster::spec("x");
  spec.begin = WallTime{1'700'009'000'000'000};
  Job job = TestCluster::pending(1, spec);
  job.eligible = {};
  job.hold = Hold::kBeginTime;
  cluster.put(job);
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "starttime,eligibletime"}}), "1700009000\t1700009000\n");
  const std::string shown = whole(show_job_page(context_of(cluster), {"", {{"name", "1"}, {"times", "marked"}}})).body;
  for (const char* key : {"StartTime", "EligibleTime"})
    EXPECT_NE(shown.find(format("{}=\x1f"
                                "1700009000\x1f",
                                key)),
              std::string::npos)
        << key << " in " << shown;
  EXPECT_NE(shown.find("AccrueTime=Unknown"), std::string::npos) << shown;
}

TEST(Squeue, HetJobsHaveALineForEachComponent) {
  TestCluster cluster(3, 16, 0);
  JobSpec spec = TestCluster::spec("het");
  spec.groups.resize(2);
  cluster.put(TestCluster::running(30, spec, {{.first = 1}, {.first = 2, .nodes = 2, .group = 1}}));
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobarrayid,nodelist"}}), "30+0\tn1\n30+1\tn[2-3]\n");
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobarrayid"}, {"jobs", "30+1"}}), "30+1\n");
}

TEST(Squeue, Steps) {
  TestCluster cluster = busy_cluster();
  Step step;
  step.job = JobId(10);
  StepSpec spec;
  spec.name = "python";
  step.spec = std::make_shared<const StepSpec>(spec);
  step.state = StepState::kRunning;
  step.user = UserId(1);
  step.started = Instant{1'700'000'100'000'000};
  step.places = {{.node = NodeId(1), .ranks = {0}}, {.node = NodeId(2), .ranks = {1}}};
  cluster.put(step);
  const PageReply reply = whole(steps_page(
      context_of(cluster), {"", {{"columns", "stepid,name,partition,username,timeused,nodelist,numtasks"}}}));
  EXPECT_EQ(reply.body, "10.0\tpython\tmain\talice\t60\tn[1-2]\t2\n");
  step.number = 1;
  step.state = StepState::kEnded;
  cluster.put(step);
  const auto shown = [&](const char* name) {
    return whole(show_step_page(context_of(cluster), {"", {{"name", name}}}));
  };
  for (const char* name : {"", "10"}) {
    EXPECT_NE(shown(name).body.find("StepId=10.0 "), std::string::npos) << name;
    EXPECT_EQ(shown(name).body.find("StepId=10.1 "), std::string::npos) << "it has ended: " << name;
  }
  EXPECT_EQ(shown("10.1").status, 404);
}

std::string show(const TestCluster& cluster, const std::string& name, bool one_line = false, bool detail = false) {
  const PageReply reply = whole(show_job_page(
      context_of(cluster), {"", {{"name", name}, {"oneline", one_line ? "1" : ""}, {"detail", detail ? "1" : ""}}}));
  return reply.status == 200 ? reply.body : format("{} {}", reply.status, reply.body);
}

TEST(Squeue, AFlagThatIsZeroIsOff) {
  const TestCluster cluster = busy_cluster();
  const auto listed = [&](const char* value) {
    return ask_squeue(cluster, {{"columns", "jobid"}, {"jobs", "20"}, {"array", value}});
  };
  EXPECT_EQ(listed("0"), listed(""));
  EXPECT_NE(listed("1"), listed("0"));
}

TEST(Show, TimesMayBeMarkedForTheClientsZone) {
  TestCluster cluster(2, 16, 0);
  cluster.put(TestCluster::running(30,
                                   TestCluster::spec("a\x1f"
                                                     "5\x1f"),
                                   {{.nodes = 1}}));
  Node drained = *cluster.tables.node(NodeId(2));
  drained.reason = "fan";
  drained.reason_at = Instant{5'000'000};
  cluster.put(drained);
  const auto marks = [&](const Page& page, const char* times) {
    const std::string text = whole(page(context_of(cluster), {"", {{"times", times}}})).body;
    return std::count(text.begin(), text.end(), kTimeMark);
  };
  EXPECT_EQ(marks(show_job_page, ""), 0);
  EXPECT_GE(marks(show_job_page, "marked"), 2 * 4);
  EXPECT_GE(marks(show_node_page, "marked"), 2);
  EXPECT_EQ(marks(show_node_page, "marked") % 2, 0);
  EXPECT_EQ(marks(show_config_page, "marked"), 2) << "the time it is of";
  Reservation kept;
  kept.meta.name = "kept";
  kept.start = WallTime{2'000'000'000'000'000};
  kept.duration = hours(1);
  cluster.put(kept);
  EXPECT_EQ(marks(list_reservations_page, "marked"), 2 * 2) << "start and end";
  EXPECT_EQ(marks(list_reservations_page, ""), 0);
  const std::string job = whole(show_job_page(context_of(cluster), {"", {{"times", "marked"}}})).body;
  EXPECT_NE(job.find("JobName=a\\x1f5\\x1f"), std::string::npos) << "no name holds a mark: " << job;
  EXPECT_NE(job.find("SubmitTime=\x1f"), std::string::npos) << job;
}

TEST(Show, Topology) {
  TestCluster cluster(4, 16, 0);
  Topology topology;
  topology.levels = {"spine", "leaf"};
  topology.leaves = {{{"top", "s1"}, {"n1", "n2"}}, {{"top", "s2"}, {"n3", "n4"}}};
  cluster.put(topology);
  for (std::uint32_t n = 1; n <= 4; ++n) {
    Node node = *cluster.tables.node(NodeId(n));
    node.domains = {"top", n <= 2 ? "s1" : "s2"};
    cluster.put(node);
  }
  JobSpec spec = TestCluster::spec("near");
  spec.groups.resize(1);
  spec.groups[0].switches_max = 1;
  spec.groups[0].switches_wait = minutes(5);
  spec.groups[0].segment = 2;
  spec.groups[0].topology_level = "!leaf";
  cluster.put(TestCluster::running(30, spec, {{.first = 3, .nodes = 2}}));
  cluster.put(TestCluster::running(31, spec, {{.first = 2, .nodes = 2}}));
  const std::string near = show(cluster, "30", true), apart = show(cluster, "31", true);
  EXPECT_NE(near.find(" Switches=1@00:05:00 SegmentSize=2 ReqTopology=leaf Topology=leaf BestTopology=leaf Leaves=1 "),
            std::string::npos)
      << near;
  EXPECT_NE(apart.find(" Topology=spine BestTopology=leaf Leaves=2 "), std::string::npos) << apart;
  EXPECT_EQ(ask_squeue(cluster, {{"columns", "jobid,reqswitch"}}), "30\t1\n31\t1\n");
  const auto shown = [&](const std::string& name) {
    return show_topology_page(context_of(cluster), {"", {{"name", name}}});
  };
  EXPECT_EQ(shown("").body,
            "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
            "SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
            "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[1-2]\n");
  EXPECT_EQ(shown("n3").body,
            "SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
            "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[1-2]\n");
  EXPECT_EQ(shown("x").status, 404);
}

TEST(Show, Job) {
  setenv("TZ", "UTC", 1);
  tzset();
  EXPECT_EQ(show(busy_cluster(), "10"),
            "JobId=10 JobName=train\n"
            "   UserId=alice(1000) GroupId=alice(100) MCS_label=N/A\n"
            "   Priority=100 Nice=0 Account=(null) QOS=normal\n"
            "   JobState=RUNNING Reason=None Dependency=(null)\n"
            "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n"
            "   RunTime=00:01:00 TimeLimit=UNLIMITED TimeMin=N/A\n"
            "   SubmitTime=2023-11-14T22:13:20 EligibleTime=2023-11-14T22:13:20\n"
            "   AccrueTime=2023-11-14T22:13:20\n"
            "   StartTime=2023-11-14T22:15:00 EndTime=2023-11-14T23:15:00 Deadline=N/A\n"
            "   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2023-11-14T22:15:00 Scheduler=Main\n"
            "   Partition=main AllocNode:Sid=login:0\n"
            "   ReqNodeList=(null) ExcNodeList=(null)\n"
            "   NodeList=n[1-4]\n"
            "   BatchHost=n1\n"
            "   NumNodes=4 NumCPUs=32 NumTasks=4 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n"
            "   ReqTRES=cpu=1,node=1,billing=1\n"
            "   AllocTRES=cpu=32,mem=4000M,node=4,billing=32,gres/gpu=32,gres/gpu:h100=32\n"
            "   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*\n"
            "   MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0\n"
            "   Features=(null) DelayBoot=00:00:00\n"
            "   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)\n"
            "   Command=(null)\n"
            "   WorkDir=/home/alice/run\n"
            "   StdErr=/home/alice/run/slurm-10.out\n"
            "   StdIn=/dev/null\n"
            "   StdOut=/home/alice/run/slurm-10.out\n\n");
}

TEST(Show, JobOnOneLine) {
  const std::string text = show(busy_cluster(), "11", true);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  EXPECT_EQ(text.find("  "), std::string::npos);
  EXPECT_NE(text.find(" JobState=PENDING Reason=Resources Dependency=(null) Requeue=1 "), std::string::npos);
}

TEST(Show, JobDetailsNameTheDevices) {
  EXPECT_NE(show(busy_cluster(), "10", true, true).find("Nodes=n4 CPU_IDs=0-7 Mem=1000 GRES=gpu:h100:8(IDX:0-7)"),
            std::string::npos);
}

TEST(Show, ArrayRecordAndElement) {
  EXPECT_EQ(show(busy_cluster(), "20_2", true).find("JobId=21 ArrayJobId=20 ArrayTaskId=2 JobName=sweep"), 0u);
  EXPECT_EQ(
      show(busy_cluster(), "20", true).find("JobId=20 ArrayJobId=20 ArrayTaskId=3-5%2 ArrayTaskThrottle=2 JobName"),
      0u);
}

TEST(Show, UnknownJob) {
  EXPECT_EQ(show(busy_cluster(), "999"), "404 Invalid job id specified");
  EXPECT_EQ(show(busy_cluster(), "9x"), "400 Invalid job id specified");
}

TEST(Show, NodePartitionConfig) {
  const TestCluster cluster = busy_cluster();
  const PageReply node = whole(show_node_page(context_of(cluster), {"", {{"name", "n2"}, {"oneline", "1"}}}));
  EXPECT_NE(node.body.find("CPUAlloc=8 CPUEfctv=16 CPUTot=16"), std::string::npos);
  EXPECT_NE(node.body.find("Gres=gpu:h100:8 "), std::string::npos);
  EXPECT_NE(node.body.find("State=MIXED "), std::string::npos);
  EXPECT_NE(node.body.find("AllocTRES=cpu=8,mem=1000M,gres/gpu=8,gres/gpu:h100=8\n"), std::string::npos);
  EXPECT_EQ(show_node_page(context_of(cluster), {"", {{"name", "x"}}}).status, 404);
  EXPECT_EQ(show_topology_page(context_of(cluster), {}).body, "No topology information available\n");
  const PageReply part = whole(show_partition_page(context_of(cluster), {"", {{"oneline", "1"}}}));
  EXPECT_EQ(part.body.find("PartitionName=main AllowGroups=ALL"), 0u);
  EXPECT_NE(part.body.find("Nodes=n[1-4] "), std::string::npos);
  EXPECT_NE(part.body.find("State=UP TotalCPUs=64 TotalNodes=4"), std::string::npos);
  EXPECT_NE(show_config_page(context_of(cluster), {}).body.find("\nInactiveLimit           = 60 sec\n"),
            std::string::npos)
      << "what client_grace is";
  EXPECT_NE(show_config_page(context_of(cluster), {}).body.find("\nMinJobAge               = 300 sec\n"),
            std::string::npos);
}

std::size_t pieces_of(PageReply reply) {
  std::size_t pieces = 0;
  for (bool more = reply.more != nullptr; more; ++pieces) more = reply.more(reply.body);
  return pieces;
}

TEST(Squeue, LongLinesAreAPieceEach) {
  TestCluster cluster(2000, 16, 8);
  JobSpec wide = TestCluster::spec("het");
  wide.groups.resize(40);
  std::vector<TestCluster::Share> shares;
  for (std::uint16_t g = 0; g < 40; ++g) shares.push_back({.first = 1 + g * 50u, .nodes = 50, .group = g});
  cluster.put(TestCluster::running(10, wide, shares));
  cluster.put(TestCluster::running(11, TestCluster::spec("wide"), {{.nodes = 2000}}));
  cluster.put(TestCluster::pending(12, TestCluster::spec("small")));
  const std::map<std::string, std::string, std::less<>> query{{"columns", "jobid,nodelist,batchhost,reason"}};
  EXPECT_GE(pieces_of(squeue_page(context_of(cluster), {"/slurm/v1/squeue", query})), 41u * 2000 / 64 / 64);
  const std::string text = ask_squeue(cluster, query);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 42);
  EXPECT_NE(text.find("10\tn[1-50]\tn1\tNone\n10\tn[51-100]\tn51\tNone\n"), std::string::npos) << text.substr(0, 200);
  EXPECT_NE(text.find("11\tn[1-2000]\tn1\tNone\n12\t"), std::string::npos);
  EXPECT_GE(pieces_of(show_job_page(context_of(cluster), {"/slurm/v1/show/job", {}})), 10u);
}

TEST(Squeue, TheStepsOfAJobAreListedSomeAtATime) {
  TestCluster cluster(2, 16, 8);
  cluster.put(TestCluster::running(10, TestCluster::spec("many"), {{.nodes = 1}}));
  cluster.put(TestCluster::running(11, TestCluster::spec("few"), {{.first = 2, .nodes = 1}}));
  for (StepNo number = 0; number < 1000; ++number) {
    Step step;
    step.job = JobId(number < 990 ? 10 : 11);
    step.number = number;
    step.spec = std::make_shared<const StepSpec>();
    step.user = UserId(1);
    step.state = number % 2 ? StepState::kEnded : StepState::kRunning;
    cluster.put(step);
  }
  const PageRequest request{"/slurm/v1/steps", {{"columns", "stepid"}}};
  EXPECT_GE(pieces_of(steps_page(context_of(cluster), request)), 4u);
  const std::string text = whole(steps_page(context_of(cluster), request)).body;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 500);
  EXPECT_TRUE(text.starts_with("10.0\n10.2\n") && text.ends_with("11.996\n11.998\n"));
}

// Every level names all nodes: too long for the thread that answers everybody.
TEST(Pages, WhatLooksAtTheWholeTopologyRunsAside) {
  for (const FrontRoute& row : routes())
    if (row.route.path == "/slurm/v1/show/topology")
      EXPECT_EQ(std::get<FrontPage>(row.work).kind, PageKind::kTables);
}

}  // namespace
}  // namespace lockstep::slurm
