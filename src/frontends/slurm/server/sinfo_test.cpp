#include "frontends/slurm/server/sinfo.h"

#include <gtest/gtest.h>

#include "frontends/slurm/server/json_pages.h"
#include "frontends/slurm/server/sacct.h"
#include "frontends/slurm/server/test_cluster.h"
#include "model/job.h"
#include "model/spec.h"

namespace lockstep::slurm {
namespace {

using Query = std::map<std::string, std::string, std::less<>>;

std::string ask_sinfo(const TestCluster& cluster, Query query) {
  const PageReply reply = whole(sinfo_page(context_of(cluster), {"", std::move(query)}));
  return reply.status == 200 ? reply.body : format("{} {}", reply.status, reply.body);
}

// n1 and n2 fully used, n3 half, n4 idle, n5 drained, n6 lost and larger.
TestCluster varied_cluster() {
  TestCluster cluster(6, 16, 8);
  cluster.put(TestCluster::running(1, TestCluster::spec("a"), {{.nodes = 2, .cores = 16, .gpus = 8}}));
  cluster.put(TestCluster::running(2, TestCluster::spec("b"), {{.first = 3, .cores = 8, .gpus = 2}}));
  Node drained = *cluster.tables.node("n5");
  drained.drain = true;
  drained.reason = "bad fan";
  drained.reason_at = Instant{1'700'000'000'000'000};
  cluster.put(drained);
  Node lost = *cluster.tables.node("n6");
  lost.link = NodeLink::kLost;
  lost.memory_mb = 128000;
  cluster.put(lost);
  return cluster;
}

TEST(Sinfo, DefaultGroups) {
  EXPECT_EQ(ask_sinfo(varied_cluster(), {{"columns", "partition,available,time,nodes,statecompact,nodelist"}}),
            "main*\tup\t-1\t1\tdrain\tn5\n"
            "main*\tup\t-1\t1\tdown*\tn6\n"
            "main*\tup\t-1\t1\tmix\tn3\n"
            "main*\tup\t-1\t2\talloc\tn[1-2]\n"
            "main*\tup\t-1\t1\tidle\tn4\n");
}

TEST(Sinfo, SumsOverEverything) {
  EXPECT_EQ(ask_sinfo(varied_cluster(), {{"columns", "cpusstate"}}), "40/24/32/96\n");
  EXPECT_EQ(ask_sinfo(varied_cluster(), {{"columns", "nodeaiot"}}), "3/1/2/6\n");
  EXPECT_EQ(ask_sinfo(varied_cluster(), {{"columns", "gres"}}), "gpu:h100:8\n");
}

TEST(Sinfo, SizesAreRangesUnlessExact) {
  EXPECT_EQ(ask_sinfo(varied_cluster(), {{"columns", "partition,memory"}}), "main*\t64000+\n");
  EXPECT_EQ(ask_sinfo(varied_cluster(), {{"columns", "partition,memory,nodelist"}, {"exact", "1"}}),
            "main*\t64000\tn[1-5]\nmain*\t128000\tn6\n");
}

TEST(Sinfo, Filters) {
  const TestCluster cluster = varied_cluster();
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "nodelist"}, {"states", "idle"}}), "n4\n");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "nodelist"}, {"states", "drain,down"}}), "n[5-6]\n");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "nodelist"}, {"states", "alloc,mixed"}}), "n[1-3]\n");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "nodelist"}, {"nodes", "n[2-4]"}}), "n[2-4]\n");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "nodelist"}, {"dead", "1"}}), "n6\n");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "reason,user,timestamp,nodelist"}, {"reasons", "1"}}),
            "bad fan\troot\t1700000000\tn5\n");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "nodelist"}, {"partition", "other"}}), "");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "nodelist"}, {"states", "sleeping"}}),
            "400 Bad state string: \"sleeping\"");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "shoe"}}), "400 no such column: shoe");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "nodes"}, {"nodes", "n["}}).substr(0, 3), "400");
}

TEST(Sinfo, AnEmptyFilterLetsNothingThrough) {
  const TestCluster cluster = varied_cluster();
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "partition,nodes"}, {"partition", ""}}), "");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "partition,nodes"}, {"states", ""}}), "main*\t0\n");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "partition,nodes"}, {"states", ""}, {"each_node", "1"}}), "");
  const auto json = [&](Query query) {
    return whole(sinfo_json_page(context_of(cluster), {"", std::move(query)})).body;
  };
  EXPECT_NE(json({}).find("n4"), std::string::npos);
  EXPECT_EQ(json({{"partition", ""}}).find("n4"), std::string::npos);
  EXPECT_EQ(json({{"states", ""}}).find("n4"), std::string::npos);
}

TEST(Sinfo, OneLineForEachNode) {
  EXPECT_EQ(ask_sinfo(varied_cluster(), {{"columns", "nodehost,statelong"}, {"each_node", "1"}, {"nodes", "n3,n5"}}),
            "n3\tmixed\nn5\tdrained\n");
}

TEST(Sinfo, NodesOfTwoPartitionsCountOnce) {
  TestCluster cluster(2, 4, 0);
  Partition second;
  second.meta.name = "second";
  second.nodes = {"n2"};
  cluster.put(second);
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "nodes"}}), "2\n");
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "partition,nodes"}}), "main*\t2\nsecond\t1\n");
}

TEST(Sinfo, StatesOfPartitions) {
  TestCluster cluster(0, 0, 0);
  struct {
    const char* name;
    bool up, closed;
  } const kCases[] = {{"a", true, false}, {"b", true, true}, {"c", false, false}, {"d", false, true}};
  for (const auto& one : kCases) {
    Partition partition;
    partition.meta.name = one.name;
    partition.up = one.up;
    partition.closed = one.closed;
    cluster.put(partition);
  }
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "partition,available"}, {"partition", "a,b,c,d"}}),
            "a\tup\nb\tdrain\nc\tdown\nd\tinact\n");
  const PageReply shown = whole(show_partition_page(context_of(cluster), {"", {{"name", "d"}, {"oneline", "1"}}}));
  EXPECT_NE(shown.body.find("State=INACTIVE "), std::string::npos) << shown.body;
}

TEST(Sinfo, EmptyPartitionHasARow) {
  TestCluster cluster(0, 0, 0);
  EXPECT_EQ(ask_sinfo(cluster, {{"columns", "partition,nodes,statecompact,cpus"}}), "main*\t0\tn/a\t0\n");
}

TEST(Json, SqueueHasWhatToolsRead) {
  TestCluster cluster(2, 16, 8);
  JobSpec spec = TestCluster::spec("quo\"te\n");
  cluster.put(TestCluster::running(7, spec, {{.nodes = 2, .cores = 4, .gpus = 1}}));
  const PageReply reply = whole(squeue_json_page(context_of(cluster), {"", {{"jobs", "7"}}}));
  for (const char* part :
       {R"("job_id":7,)", R"("name":"quo\"te\n")", R"("job_state":["RUNNING"])", R"("user_name":"alice")",
        R"("cpus":{"set":true,"infinite":false,"number":8})", R"("nodes":"n[1-2]")",
        R"("allocation":[{"name":"n1","cpus":{"count":4,"used":4},"memory":{"used":0,"allocated":1000}},)",
        R"("allocated_nodes":[{"nodename":"n1",)", R"("time_limit":{"set":false,"infinite":true,"number":0})",
        R"("errors":[])"})
    EXPECT_NE(reply.body.find(part), std::string::npos) << part;
  EXPECT_EQ(squeue_json_page(context_of(cluster), {"", {{"jobs", "99"}}}).status, 404);
}

TEST(Json, PendingJobHoldsNothing) {
  TestCluster cluster(1, 16, 8);
  cluster.put(TestCluster::pending(7, TestCluster::spec("x")));
  EXPECT_NE(whole(squeue_json_page(context_of(cluster), {})).body.find(R"("job_resources":null})"), std::string::npos);
}

TEST(Json, SinfoHasWhatExportersRead) {
  const TestCluster varied = varied_cluster();
  const PageReply reply = whole(sinfo_json_page(context_of(varied), {"", {{"nodes", "n3"}}}));
  for (const char* part :
       {R"("name":"n3")", R"("state":["MIXED"])", R"("cpus":16)", R"("alloc_cpus":8)", R"("idle_cpus":8)",
        R"("real_memory":64000)", R"("alloc_memory":1000)", R"("gres":"gpu:h100:8")",
        R"x("gres_used":"gpu:h100:2(IDX:0-1)")x", R"("partitions":["main"])"})
    EXPECT_NE(reply.body.find(part), std::string::npos) << part;
  EXPECT_EQ(reply.body.find("\"n4\""), std::string::npos);
}

JobRow row(std::uint64_t id, StepNo step, std::string state) {
  JobRow row;
  row.job = JobId(id);
  row.step = step;
  row.name = step == -100 ? "train" : "python";
  row.user = "alice";
  row.uid = 1000;
  row.state = std::move(state);
  row.partition = "main";
  row.started_us = 1'700'000'100'000'000;
  row.ended_us = 1'700'000'160'000'000;
  row.cores = 8, row.nodes = 1, row.tasks = 2, row.devices = 8;
  row.memory_mb = 4096;
  row.devices_text = "gpu:h100=8";
  row.node_list = "n1";
  return row;
}

// Answers every question with the same rows and remembers the question.
struct Store {
  std::vector<JobRow> rows;
  HistoryQuery asked;
};
PageReply account(const TestCluster& cluster, Store& store, Query query, bool json = false) {
  ReadContext context = context_of(cluster);
  context.history = [&store](const HistoryQuery& asked) -> Result<std::vector<JobRow>> {
    store.asked = asked;
    return store.rows;
  };
  return whole(json ? sacct_json_page(context, {"", std::move(query)}) : sacct_page(context, {"", std::move(query)}));
}

TEST(SacctPage, IdsStatesAndCounts) {
  TestCluster cluster(1, 16, 8);
  JobRow element = row(21, -100, "failed");
  element.is_element = true, element.array_job = JobId(20), element.array_index = 3;
  JobRow last = element;
  last.job = JobId(23), last.array_index = 4, last.ends_array = true;
  JobRow cancelled = row(22, -100, "cancelled");
  cancelled.cancelled_by = "alice";
  Store store{
      {row(12, -100, "completed"), row(12, kBatchStep, "completed"), row(12, 0, "completed"), element, last, cancelled},
      {}};
  EXPECT_EQ(account(cluster, store, {{"columns", "jobid,jobidraw,jobname,state,ntasks,alloctres"}}).body,
            "12\t12\ttrain\tCOMPLETED\t\tcpu=8,mem=4G,node=1,billing=8,gres/gpu=8,gres/gpu:h100=8\n"
            "12.batch\t12.batch\tbatch\tCOMPLETED\t2\tcpu=8,mem=4G,node=1,billing=8,gres/gpu=8,gres/gpu:h100=8\n"
            "12.0\t12.0\tpython\tCOMPLETED\t2\tcpu=8,mem=4G,node=1,billing=8,gres/gpu=8,gres/gpu:h100=8\n"
            "20_3\t21\ttrain\tFAILED\t\tcpu=8,mem=4G,node=1,billing=8,gres/gpu=8,gres/gpu:h100=8\n"
            "20_4\t20\ttrain\tFAILED\t\tcpu=8,mem=4G,node=1,billing=8,gres/gpu=8,gres/gpu:h100=8\n"
            "22\t22\ttrain\tCANCELLED by 1000\t\tcpu=8,mem=4G,node=1,billing=8,gres/gpu=8,gres/gpu:h100=8\n");
}

TEST(SacctPage, AJobThatGivesItsNodesBackHasEnded) {
  TestCluster cluster(1, 16, 8);
  Job job = TestCluster::pending(12, TestCluster::spec("train"));
  job.state = JobState::kCompleting;
  job.ending = JobState::kFailed;
  job.attempt = 1;
  job.exit = {1, 0, false};
  job.end_reason = "NonZeroExitCode";
  job.started = Instant{} + seconds(100);
  job.ended = Instant{} + seconds(130);
  cluster.put(std::move(job));
  JobRow run = row(12, -100, "completing"), script = row(12, kBatchStep, "running"), step = row(12, 0, "running");
  for (JobRow* one : {&run, &script, &step}) one->attempt = 1, one->ended_us = 0;
  Store store{{run, script, step}, {}};
  const ReadContext context = context_of(cluster);
  const std::string end = std::to_string((Instant{} + seconds(130) + context.wall_offset).us / 1'000'000);
  const auto body = [&] { return account(cluster, store, {{"columns", "jobid,state,exitcode,end,reason"}}).body; };
  EXPECT_EQ(body(), format("12\tFAILED\t1:0\t{}\tNonZeroExitCode\n12.batch\tRUNNING\t0:0\t0\t\n"
                           "12.0\tRUNNING\t0:0\t0\t\n",
                           end));
  store.rows[0].attempt = 2;  // another run than the one that ends
  EXPECT_EQ(body().substr(0, 11), "12\tRUNNING\t");
}

TEST(SacctPage, WhatOthersEndedDidNotFail) {
  TestCluster cluster(1, 16, 8);
  Store store;
  for (const char* state : {"cancelled", "timeout", "failed"}) {
    JobRow job = row(12, -100, state), script = row(12, kBatchStep, "cancelled");
    job.exit_signal = script.exit_signal = 15;
    store.rows.push_back(job);
    store.rows.push_back(script);
  }
  EXPECT_EQ(account(cluster, store, {{"columns", "state,exitcode"}}).body,
            "CANCELLED\t0:0\nCANCELLED\t0:15\nTIMEOUT\t0:0\nCANCELLED\t0:15\nFAILED\t0:15\nCANCELLED\t0:15\n");
}

TEST(SacctPage, RunsThatWereRequeuedAndTheirTime) {
  TestCluster cluster(1, 16, 8);
  JobRow early = row(12, -100, "requeued");
  early.started_us = 1'700'000'100'900'000;
  early.ended_us = 1'700'000'102'100'000;
  Store store{{early, row(12, -100, "completed")}, {}};
  const auto body = [&](const char* states) {
    return account(cluster, store, {{"columns", "state,elapsed,cputime,start,end"}, {"states", states}}).body;
  };
  // 1.2 s over two changes of the second: what is shown agrees with itself.
  EXPECT_EQ(body("RQ"), "REQUEUED\t2\t16\t1700000100\t1700000102\n");
  EXPECT_EQ(body("requeued"), body("RQ"));
  EXPECT_EQ(body("CD"), "COMPLETED\t60\t480\t1700000100\t1700000160\n");
}

TEST(SacctPage, UsersByNameAndUidAndOneself) {
  const TestCluster cluster(1, 16, 8);
  Store store;
  const auto asked = [&](std::string name, std::string value) {
    const PageReply reply = account(cluster, store, {{"columns", "jobid"}, {std::move(name), std::move(value)}});
    return reply.status == 200 ? join(store.asked.users, ",") : reply.body;
  };
  EXPECT_EQ(asked("user", "alice"), "alice");
  EXPECT_EQ(asked("user", "1000"), "1000,alice");  // history knows names
  EXPECT_EQ(asked("user", "4711"), "4711");
  EXPECT_EQ(asked("user", "alice,nosuch"), "Invalid user id: nosuch");
  EXPECT_EQ(asked("me", "1"), "alice");
  ReadContext context = context_of(cluster);
  context.history = [&store](const HistoryQuery& query) -> Result<std::vector<JobRow>> {
    store.asked = query;
    return store.rows;
  };
  context.caller = nullptr;
  (void)sacct_page(context, {"", {{"columns", "jobid"}, {"me", "1"}}});
  EXPECT_EQ(store.asked.users, std::vector<std::string>{"-"}) << "whom nobody knows sees nobody's, not everybody's";
}

TEST(SacctPage, WaitingArrayShowsItsElements) {
  TestCluster cluster(1, 16, 8);
  Job array = TestCluster::pending(20, TestCluster::spec("sweep"));
  ArrayState state;
  state.asked = state.waiting = IntervalSet(5, 9);
  state.throttle = 3;
  array.array = std::make_shared<const ArrayState>(state);
  cluster.put(array);
  Store store{{row(20, -100, "pending")}, {}};
  EXPECT_EQ(account(cluster, store, {{"columns", "jobid,state"}}).body, "20_[5-9%3]\tPENDING\n");
}

TEST(SacctPage, QuestionsAndFilters) {
  TestCluster cluster(1, 16, 8);
  Store store{{row(12, -100, "completed"), row(12, 0, "failed")}, {}};
  const auto body = [&](Query query) {
    query["columns"] = "jobid";
    return account(cluster, store, std::move(query)).body;
  };
  EXPECT_EQ(body({{"states", "F"}}), "12.0\n");
  EXPECT_EQ(body({{"states", ",F,"}}), "12.0\n");
  EXPECT_EQ(body({{"states", "RS"}}), "") << "no job is ever in it, which is no filter left out";
  EXPECT_EQ(body({{"states", "RS,F"}}), "12.0\n");
  EXPECT_EQ(body({{"states", "CD,nonsense"}}), "unrecognized job state value 'nonsense'");
  EXPECT_EQ(body({{"states", "CF"}}), "job state CF is not supported / accounted");
  EXPECT_EQ(body({{"jobs", "12.0"}}), "12.0\n");
  EXPECT_EQ(body({{"nodes", "n[2-4]"}}), "");
  EXPECT_EQ(body({{"jobs", "12,13_[1-2]"}, {"from", "100"}, {"to", "200"}, {"allocations", "1"}, {"user", "alice"}}),
            "12\n12.0\n");
  EXPECT_EQ(store.asked.jobs.size(), 2u);
  EXPECT_TRUE(store.asked.jobs[1].elements->contains(2));
  EXPECT_EQ(store.asked.from_us, 100'000'000);
  EXPECT_EQ(store.asked.to_us, 200'000'000);
  EXPECT_FALSE(store.asked.steps);
  EXPECT_EQ(store.asked.users, std::vector<std::string>{"alice"});
}

TEST(SacctPage, Refusals) {
  TestCluster cluster(1, 16, 8);
  Store store;
  EXPECT_EQ(account(cluster, store, {{"columns", "jobid"}, {"jobs", "x"}}).status, 400);
  EXPECT_EQ(account(cluster, store, {{"columns", "jobid"}, {"jobs", "12.x"}}).status, 400);
  EXPECT_EQ(account(cluster, store, {{"columns", "jobid"}, {"states", "zz"}}).status, 400);
  EXPECT_EQ(account(cluster, store, {{"columns", "shoe"}}).status, 400);
  EXPECT_EQ(sacct_page(context_of(cluster), {"", {{"columns", "jobid"}}}).status, 503);  // no store
}

TEST(SacctPage, Json) {
  TestCluster cluster(1, 16, 8);
  Store store{{row(12, -100, "failed"), row(12, 0, "completed"), row(13, -100, "completed")}, {}};
  const std::string body = account(cluster, store, {}, true).body;
  EXPECT_NE(body.find(R"({"job_id":12,"name":"train")"), std::string::npos);
  EXPECT_NE(body.find(R"("state":{"current":["FAILED"],)"), std::string::npos);
  EXPECT_NE(body.find(R"("steps":[{"step":{"id":"12.0","name":"python"})"), std::string::npos);
  EXPECT_NE(body.find(R"({"job_id":13,)"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::slurm
