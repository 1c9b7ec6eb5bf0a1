// Requests and names that want to hurt: arrays of a thousand million, lists of everything, control characters, others'
// private fields. What is asserted is how much is written and looked at, never how long it took.
#include <gtest/gtest.h>

#include <algorithm>

#include "frontends/slurm/server/job_filter.h"
#include "frontends/slurm/server/json_pages.h"
#include "frontends/slurm/server/sacct.h"
#include "frontends/slurm/server/shares.h"
#include "frontends/slurm/server/show.h"
#include "frontends/slurm/server/sinfo.h"
#include "frontends/slurm/server/squeue.h"
#include "frontends/slurm/server/test_cluster.h"
#include "model/job.h"
#include "model/spec.h"

namespace lockstep::slurm {
namespace {

using Query = std::map<std::string, std::string, std::less<>>;

Job array(std::uint64_t id, IntervalSet waiting, std::uint32_t user = 1) {
  JobSpec spec = TestCluster::spec("sweep");
  spec.user = UserId(user);
  Job job = TestCluster::pending(id, spec);
  ArrayState state;
  state.asked = state.waiting = std::move(waiting);
  job.array = std::make_shared<const ArrayState>(std::move(state));
  return job;
}

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::string squeue(const TestCluster& cluster, Query query) {
  query.emplace("columns", "jobarrayid");
  const PageReply reply = whole(squeue_page(context_of(cluster), {"", std::move(query)}));
  return reply.status == 200 ? reply.body : format("{} {}", reply.status, reply.body);
}

TEST(Hostile, ElementsOfHugeArraysAreFoundWithoutGoingThroughThem) {
  TestCluster cluster(1, 4, 0);
  for (std::uint64_t id = 40; id < 43; ++id) cluster.put(array(id, IntervalSet(0, 999'999'999)));
  EXPECT_EQ(squeue(cluster, {{"jobs", "40_5,41_5,42_999999999"}}), "40_5\n41_5\n42_999999999\n");
  EXPECT_EQ(squeue(cluster, {{"jobs", "40_[7,9-11]"}, {"array", "1"}}), "40_7\n40_9\n40_10\n40_11\n");
  EXPECT_EQ(squeue(cluster, {{"jobs", "40_1000000000"}}), "");
}

TEST(Hostile, ElementsListedOneByOneAreBoundedForEachUser) {
  TestCluster cluster(1, 4, 0);
  User bob;
  bob.meta.name = "bob";
  bob.id = UserId(2);
  bob.uid = 1001;
  cluster.put(bob);
  cluster.put(array(40, IntervalSet(0, 2'999'999)));
  cluster.put(array(41, IntervalSet(5, 6)));
  cluster.put(array(42, IntervalSet(1, 3), 2));
  const std::string all = squeue(cluster, {{"array", "1"}});
  // What is left of the first array, and all of the second, is one line each; the other user's are whole.
  EXPECT_EQ(lines_in(all), kElementLines + 1 + 1 + 3);
  EXPECT_TRUE(
      all.ends_with(format("40_{}\n40_[{}-2999999]\n41_[5-6]\n42_1\n42_2\n42_3\n", kElementLines - 1, kElementLines)))
      << all.substr(all.size() - 100);
}

TEST(Hostile, ScatteredElementsAreFoundAndTheirLabelsAreCut) {
  TestCluster cluster(1, 4, 0);
  IntervalSet odd;
  for (std::uint32_t i = 0; i < 20'000; ++i) odd.insert(2 * i + 1);
  cluster.put(array(40, odd));
  EXPECT_EQ(squeue(cluster, {{"jobs", "40_[0-7]"}}), "40_1\n40_3\n40_5\n40_7\n");
  EXPECT_EQ(squeue(cluster, {{"jobs", "40_[2,4,39998]"}}), "");
  const std::string label = squeue(cluster, {});
  EXPECT_TRUE(label.starts_with("40_[1,3,5,")) << label;
  EXPECT_TRUE(label.ends_with(",...]\n")) << label;
  EXPECT_LE(label.size(), kIndicesShown + 20);
}

TEST(Hostile, WhatARequestNamesIsBounded) {
  TestCluster cluster(1, 4, 0);
  cluster.put(array(40, IntervalSet(0, 999'999'999)));
  const std::string many = squeue(cluster, {{"jobs", "40_[0-1999998:2]"}});
  EXPECT_TRUE(many.starts_with("400 at most 100000 separate ranges")) << many;
  const std::string some = squeue(cluster, {{"jobs", "40_[0-120000:2],40_[0-120000:2]"}});
  EXPECT_TRUE(some.starts_with("400 at most")) << some;
  std::string names;
  for (int i = 0; i < 10'001; ++i) names += "40,";
  EXPECT_TRUE(squeue(cluster, {{"jobs", names}}).starts_with("400 at most 10000 jobs"));
}

TEST(Hostile, AColumnIsAskedForOnce) {
  TestCluster cluster(1, 4, 0);
  ReadContext context = context_of(cluster);
  context.history = [](const HistoryQuery&) { return std::vector<JobRow>(); };
  const std::pair<Page, std::string> pages[] = {{squeue_page, "jobid"},   {steps_page, "stepid"},
                                                {sinfo_page, "nodelist"}, {sacct_page, "jobid"},
                                                {sshare_page, "account"}, {sprio_page, "jobid"}};
  for (const auto& [page, column] : pages) {
    EXPECT_EQ(page(context, {"", {{"columns", column}}}).status, 200) << column;
    const PageReply twice = page(context, {"", {{"columns", column + "," + column}}});
    EXPECT_EQ(twice.status, 400) << column;
    EXPECT_EQ(twice.body, format("column {} is asked for twice: ask for each once", column));
  }
}

TEST(Hostile, LongListsAreWrittenInPiecesFromTheJobsOfOneMoment) {
  TestCluster cluster(1, 4, 0);
  for (std::uint64_t id = 1; id <= 1'000; ++id) cluster.put(TestCluster::pending(id, TestCluster::spec("a")));
  const ReadContext context = context_of(cluster);
  for (const auto page : {squeue_page, squeue_json_page, show_job_page}) {
    PageReply reply = page(context, {"", {{"columns", "jobid"}}});
    std::size_t pieces = 0, longest = 0, before = reply.body.size();
    while (reply.more && reply.more(reply.body)) {
      longest = std::max(longest, reply.body.size() - std::exchange(before, reply.body.size()));
      if (++pieces == 3) {  // a job goes while it is listed
        const Ref<Job> gone = cluster.tables.jobs.at(JobId(900));
        cluster.tables.apply({cluster.tables.seq + 1, gone, true});
        cluster.put(TestCluster::pending(900, TestCluster::spec("b")));
      }
    }
    EXPECT_GE(pieces, 10u);
    EXPECT_LE(longest, reply.body.size() / 10);
    EXPECT_NE(reply.body.find("900"), std::string::npos);
    EXPECT_NE(reply.body.find("1000"), std::string::npos);
  }
}

TEST(Hostile, APieceOfAListIsBoundedByWhatItsLinesHold) {
  TestCluster cluster(1, 4, 0);
  JobSpec spec = TestCluster::spec("a");
  for (std::uint64_t i = 1; i <= 1'024; ++i) spec.dependencies.push_back({.job = JobId(i)});
  for (std::uint64_t id = 2'001; id <= 2'020; ++id) {
    Job job = TestCluster::pending(id, spec);
    job.hold = Hold::kDependency;
    cluster.put(job);
  }
  const ReadContext context = context_of(cluster);
  PageReply reply = squeue_page(context, {"", {{"columns", "dependency"}}});
  std::size_t pieces = 1;
  while (reply.more && reply.more(reply.body)) ++pieces;
  EXPECT_GE(pieces, 20u) << "no two of these lines in one piece";
}

TEST(Hostile, ElementsNamedOneByOneAreNotGoneThroughForEachJob) {
  TestCluster cluster(1, 4, 0);
  const Job sweep = array(40, IntervalSet(0, 9'999));
  cluster.put(sweep);
  JobIndex index;
  std::string names = "40_0";
  for (std::uint32_t i = 1; i < 3'000; ++i) {
    Job element = TestCluster::pending(1'000 + i, TestCluster::spec("a"));
    element.array_job = JobId(40);
    element.array_index = i;
    cluster.put(element);
    names += ",40_" + std::to_string(i);
  }
  for (std::uint64_t id = 5'000; id < 8'000; ++id) cluster.put(TestCluster::pending(id, TestCluster::spec("b")));
  for (const auto& [id, job] : cluster.tables.jobs) index.changed(nullptr, job.get());
  ReadContext context = context_of(cluster);
  context.index = &index;
  const auto filter = JobFilter::parse(context, {"", {{"jobs", names}}});
  ASSERT_TRUE(filter.ok());
  EXPECT_EQ(JobCursor(context, *filter).jobs(), 3'000u) << "the array and its elements";
  const PageReply listed = whole(squeue_page(context, {"", {{"jobs", "40_2,40_7,40_3"}, {"columns", "jobid"}}}));
  EXPECT_EQ(lines_in(listed.body), 6u) << "each is an element that waits and a record here";
}

TEST(ShowJob, SaysWhatSlurmSays) {
  TestCluster cluster(1, 4, 0);
  Job sweep = array(40, IntervalSet(0, 9));
  ArrayState state = *sweep.array;
  state.throttle = 2;
  sweep.array = std::make_shared<const ArrayState>(state);
  cluster.put(sweep);
  JobSpec spec = TestCluster::spec("a");
  GroupSpec group = spec.groups->front();
  group.tasks_per_node = 2;
  group.per_task.cores = 3;
  spec.groups = std::vector<GroupSpec>{group};
  spec.dependencies = {{.type = Dependency::Type::kSingleton}};
  Job waits = TestCluster::pending(41, spec);
  waits.hold = Hold::kDependency;
  cluster.put(waits);
  const ReadContext context = context_of(cluster);
  const auto show = [&](const char* name) { return whole(show_job_page(context, {"", {{"name", name}}})).body; };
  EXPECT_NE(show("40").find("ArrayTaskId=0-9%2 ArrayTaskThrottle=2"), std::string::npos) << show("40");
  EXPECT_NE(show("41").find("MinCPUsNode=6"), std::string::npos) << show("41");
  EXPECT_NE(show("41").find("Dependency=singleton(unfulfilled)"), std::string::npos) << show("41");
  EXPECT_EQ(squeue(cluster, {{"jobs", "41"}, {"columns", "mincpus"}}), "6\n");
  const std::string config = whole(show_config_page(context, {})).body;
  EXPECT_NE(config.find("ProctrackType           = proctrack/cgroup\n"), std::string::npos) << config;
  for (const char* not_so : {"task/cgroup", "jobacct_gather/cgroup", "affinity"})
    EXPECT_EQ(config.find(not_so), std::string::npos) << config;
}

TEST(Hostile, TheRowOfTheWeightsIsAboutNoJob) {
  TestCluster cluster(1, 4, 0);
  const std::string columns =
      "jobid,user,account,qosname,partitionname,priority,age,assoc,fairshare,jobsize,partition,qos,site,nice,tres,"
      "normpriority,normage,normassoc,normfairshare,normjobsize,normpartition,normqos";
  const PageReply reply = sprio_page(context_of(cluster), {"", {{"columns", columns}, {"weights", "1"}}});
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.body.starts_with("\t\t\t\t\t")) << reply.body;
}

// --- names of others ---

constexpr const char* kEvil =
    "x\n99 root PENDING\r\t\x1b[2J\x1b]0;owned\x07\xc2\x9b"
    "31m\xe2\x80\xaey\x7f";

bool is_clean(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f)
      return false;
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0)
      return false;
  }
  return text.find("\xe2\x80\xae") == std::string::npos;
}

TestCluster evil_cluster() {
  TestCluster cluster(2, 8, 0);
  Node node = *cluster.tables.node(NodeId(1));
  node.reason = node.version = node.address = kEvil;
  node.features = {kEvil};
  node.drain = true;
  cluster.put(node);
  User user = *cluster.tables.user(UserId(1));
  user.meta.name = kEvil;
  cluster.put(user);
  Partition partition = *cluster.tables.partition("main");
  partition.allow_accounts = {kEvil};
  cluster.put(partition);
  Licence licence;
  licence.meta.name = kEvil;
  cluster.put(licence);
  Reservation reservation;
  reservation.meta.name = kEvil;
  reservation.users = {kEvil};
  reservation.start = WallTime{1};
  reservation.duration = hours(1);
  cluster.put(reservation);
  Topology topology;
  topology.levels = {"leaf"};
  topology.leaves = {{{kEvil}, {"n1"}}};
  cluster.put(topology);
  Account account;
  account.meta.name = kEvil;
  cluster.put(account);
  for (std::uint64_t id = 1; id <= 2; ++id) {
    JobSpec spec = TestCluster::spec(kEvil);
    for (SharedText JobSpec::*text :
         {&JobSpec::account, &JobSpec::qos, &JobSpec::comment, &JobSpec::wckey, &JobSpec::licenses,
          &JobSpec::reservation, &JobSpec::work_dir, &JobSpec::command, &JobSpec::std_out, &JobSpec::submit_host})
      (spec.*text) = SharedText(kEvil);
    spec.groups[0].constraint = kEvil;
    spec.options = {{"gres", kEvil}, {"ntasks-per-node", kEvil}};
    cluster.put(id == 1 ? TestCluster::pending(id, spec) : TestCluster::running(id, spec, {{.nodes = 2}}));
  }
  Job ended = TestCluster::pending(3, TestCluster::spec(kEvil));
  ended.state = JobState::kFailed;
  ended.exit.code = 1;
  ended.end_reason = kEvil;
  cluster.put(ended);
  Step step;
  step.job = JobId(2);
  step.user = UserId(1);
  step.state = StepState::kRunning;
  StepSpec spec;
  spec.name = kEvil;
  step.spec = std::make_shared<const StepSpec>(spec);
  cluster.put(step);
  return cluster;
}

TEST(Hostile, NoNameForgesARowOrMovesTheCursor) {
  const TestCluster cluster = evil_cluster();
  ReadContext context = context_of(cluster);
  context.cluster_name = kEvil;
  context.history = [](const HistoryQuery&) -> Result<std::vector<JobRow>> {
    JobRow row;
    row.job = JobId(1);
    row.name = row.user = row.account = row.partition = row.qos = row.state = row.node_list = row.work_dir =
        row.comment = row.command = row.reason = row.wckey = row.cancelled_by = kEvil;
    return std::vector<JobRow>{row};
  };
  const auto text = [&](const auto& page, Query query) {
    const PageReply reply = whole(page(context, {"", std::move(query)}));
    EXPECT_TRUE(is_clean(reply.body)) << reply.body;
    return reply.status == 200 ? reply.body : format("{} {}", reply.status, reply.body);
  };
  const std::string job_columns =
      "account,cluster,command,comment,feature,licenses,name,nodelist,ntpernode,partition,qos,reason,reasonlist,"
      "reservation,stdout,trespernode,username,wckey,workdir";
  EXPECT_EQ(lines_in(text(squeue_page, {{"columns", job_columns}, {"states", "all"}})), 3u);
  EXPECT_EQ(lines_in(text(steps_page, {{"columns", "name,username,partition,nodelist"}})), 1u);
  EXPECT_EQ(
      lines_in(text(sinfo_page, {{"columns", "nodeaddr,features,reason,version,user,cluster"}, {"each_node", "1"}})),
      2u);
  EXPECT_EQ(lines_in(text(sacct_page, {{"columns",
                                        "account,cluster,comment,jobname,nodelist,partition,qos,reason,state,"
                                        "submitline,user,wckey,workdir"}})),
            1u);
  EXPECT_EQ(lines_in(text(sprio_page, {{"columns", "jobid,user,account,qosname,partitionname"}})), 1u);
  const std::string shares = text(sshare_page, {{"columns", "account,user,partition"}, {"all", "1"}});
  EXPECT_EQ(static_cast<std::size_t>(std::count(shares.begin(), shares.end(), '\t')), 2 * lines_in(shares)) << shares;
  EXPECT_LE(lines_in(shares), 3u) << shares;
  const Query one_line{{"oneline", "1"}};
  EXPECT_EQ(lines_in(text(show_job_page, one_line)), 3u);
  EXPECT_EQ(lines_in(text(show_step_page, one_line)), 1u);
  EXPECT_EQ(lines_in(text(show_node_page, one_line)), 2u);
  EXPECT_EQ(lines_in(text(show_partition_page, one_line)), 1u);
  EXPECT_EQ(lines_in(text(show_reservation_page, one_line)), 1u);
  EXPECT_EQ(lines_in(text(show_licence_page, one_line)), 1u);
  EXPECT_EQ(lines_in(text(list_reservations_page, {{"noheader", "1"}})), 1u);
  EXPECT_EQ(lines_in(text(show_topology_page, {})), 1u);
  text(show_config_page, {});
  // Refusals repeat what was asked for.
  for (const auto& page : {show_node_page, show_partition_page, show_reservation_page, show_licence_page})
    text(page, {{"name", kEvil}});
  text(squeue_page, {{"columns", "jobid"}, {"user", kEvil}});
  text(squeue_page, {{"columns", kEvil}});
}

TEST(Hostile, OthersDoNotSeeWhereAJobReadsAndWrites) {
  TestCluster cluster(1, 4, 0);
  User bob;
  bob.meta.name = "bob";
  bob.id = UserId(2);
  bob.uid = 1001;
  cluster.put(bob);
  JobSpec spec = TestCluster::spec("train");
  spec.std_in = spec.std_out = spec.std_err = "/home/alice/secret";
  cluster.put(TestCluster::running(1, spec, {{}}));
  ReadContext context = context_of(cluster);
  const auto seen = [&] {
    return whole(squeue_page(context, {"", {{"columns", "stdin,stdout,stderr"}}})).body +
           whole(squeue_json_page(context, {"", {}})).body + whole(show_job_page(context, {"", {{"name", "1"}}})).body;
  };
  const auto mine = seen();
  EXPECT_TRUE(mine.starts_with("/home/alice/secret\t")) << mine;
  EXPECT_NE(mine.find("secret"), std::string::npos);
  context.caller = cluster.tables.user(UserId(2));
  EXPECT_TRUE(seen().starts_with("(null)\t(null)\t(null)\n"));
  EXPECT_EQ(seen().find("secret"), std::string::npos);
  EXPECT_NE(seen().find("train"), std::string::npos);
  PageReply environment;
  for (const FrontRoute& row : routes())
    if (row.route.path == "/slurm/v1/environment")
      environment = std::get<FrontPage>(row.work).page(context, {"", {{"job", "1"}}});
  EXPECT_EQ(environment.status, 403);
  context.caller = nullptr;
  EXPECT_EQ(seen().find("secret"), std::string::npos);
  context.admin = true;
  EXPECT_NE(seen().find("secret"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::slurm
