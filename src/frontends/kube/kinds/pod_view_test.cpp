#include "frontends/kube/kinds/pod_view.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "frontends/kube/kinds/columns.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "model/job.h"

namespace lockstep::kube {
namespace {

constexpr Instant kStarted{seconds(100).us};

// A pod whose job runs on n1, as its records stand.
struct PodViews : testing::Test {
  Object object;
  Job job;
  Task task;
  Node node;
  json::object tree = json::parse(R"({"metadata":{"name":"web","generation":1},
    "spec":{"restartPolicy":"Always","containers":[{"name":"a","image":"reg/i:1"}]}})")
                          .as_object();

  PodViews() {
    node.meta.name = "n1";
    node.address = "10.0.0.1:7000";
    job.id = JobId(7);
    job.spec = std::make_shared<const JobSpec>();
    job.attempt = 1;
    job.state = JobState::kRunning;
    job.submitted = Instant{1};
    job.started = kStarted;
    task.state = TaskState::kRunning;
    task.started = kStarted + seconds(1);
    task.address = "10.0.1.2";
  }
  ContainerStatus& container(ContainerState state, const char* name = "a") {
    ContainerStatus one;
    one.name = name;
    one.state = state;
    one.started = kStarted + seconds(2);
    if (state == ContainerState::kEnded)
      one.ended = kStarted + seconds(5);
    one.ready = one.begun = state == ContainerState::kRunning;
    task.containers.edit().push_back(one);
    return task.containers.edit().back();
  }
  json::object shown(bool has_task = true, std::string_view waits = {}) {
    json::object out = tree;
    show_pod(out, object,
             {std::make_shared<const Job>(job), has_task ? std::make_shared<const Task>(task) : nullptr,
              std::make_shared<const Node>(node)},
             waits, {});
    return out;
  }
  static std::string phase(const json::object& pod) { return text_in(part(pod, "status"), "phase"); }
  static json::value condition(const json::object& pod, std::string_view type) {
    for (const json::value& one : list_in(part(pod, "status"), "conditions"))
      if (text_in(one, "type") == type)
        return one;
    return nullptr;
  }
  static json::value status(const json::object& pod, const char* list = "containerStatuses", std::size_t i = 0) {
    return list_in(part(pod, "status"), list).at(i);
  }
};

// Whatever the node was told last is what its status is about.
TEST_F(PodViews, SaysWhichWishItIsAbout) {
  tree["metadata"].as_object()["generation"] = 4;
  container(ContainerState::kRunning);
  const json::object pod = shown();
  EXPECT_EQ(integer_in(part(pod, "status"), "observedGeneration"), 4);
  EXPECT_EQ(integer_in(condition(pod, "Ready"), "observedGeneration"), 4);
  job.state = JobState::kPending;
  const json::object waits = shown(false, "0/1 nodes are available");
  EXPECT_EQ(integer_in(condition(waits, "PodScheduled"), "observedGeneration"), 4);
}

TEST_F(PodViews, WaitsWithThePlannersReason) {
  job.state = JobState::kPending;
  EXPECT_EQ(phase(shown(false)), "Pending");
  EXPECT_TRUE(condition(shown(false), "PodScheduled").is_null()) << "nobody has looked at it yet";
  const json::value why = condition(shown(false, "job 7 waits: Resources"), "PodScheduled");
  EXPECT_EQ(text_in(why, "status"), "False");
  EXPECT_EQ(text_in(why, "reason"), "Unschedulable");
  EXPECT_EQ(text_in(why, "message"), "job 7 waits: Resources");
}

TEST_F(PodViews, ItsContainersAreMadeWhereItIs) {
  const json::object pod = shown(false);
  EXPECT_EQ(text_in(spec_of(pod), "nodeName"), "n1");
  EXPECT_EQ(text_in(part(pod, "status"), "hostIP"), "10.0.0.1");
  EXPECT_EQ(text_in(part(pod, "status"), "startTime"), "1970-01-01T00:01:40Z");
  EXPECT_EQ(phase(pod), "Pending");
  EXPECT_EQ(text_in(condition(pod, "PodScheduled"), "status"), "True");
  EXPECT_EQ(text_in(part(part(status(pod), "state"), "waiting"), "reason"), "ContainerCreating");
}

TEST_F(PodViews, RunsAndIsReady) {
  container(ContainerState::kRunning).image_digest = "sha256:abc";
  const json::object pod = shown();
  EXPECT_EQ(phase(pod), "Running");
  EXPECT_EQ(text_in(part(pod, "status"), "podIP"), "10.0.1.2");
  EXPECT_EQ(text_in(condition(pod, "Ready"), "status"), "True");
  EXPECT_EQ(text_in(status(pod), "imageID"), "reg/i@sha256:abc");
  EXPECT_TRUE(flag_in(status(pod), "started"));
  tree["spec"].as_object()["readinessGates"] = json::array{json::object{{"conditionType", "x/y"}}};
  EXPECT_EQ(text_in(condition(shown(), "Ready"), "reason"), "ReadinessGatesNotReady");
  tree["status"] = json::parse(R"({"conditions":[{"type":"x/y","status":"True"}],"message":"kept"})");
  EXPECT_EQ(text_in(condition(shown(), "Ready"), "status"), "True");
  EXPECT_EQ(text_in(condition(shown(), "x/y"), "status"), "True");
  EXPECT_EQ(text_in(part(shown(), "status"), "message"), "kept");
}

TEST_F(PodViews, CrashesAndComesAgain) {
  ContainerStatus& one = container(ContainerState::kWaiting);
  one.restarts = 2;
  one.reason = "CrashLoopBackOff";
  one.exit.code = 3;
  one.ended = kStarted + seconds(4);
  const json::object pod = shown();
  EXPECT_EQ(phase(pod), "Running") << "it has run and will again";
  EXPECT_EQ(integer_in(status(pod), "restartCount"), 2);
  EXPECT_EQ(text_in(part(part(status(pod), "state"), "waiting"), "reason"), "CrashLoopBackOff");
  const json::value last = part(part(status(pod), "lastState"), "terminated");
  EXPECT_EQ(integer_in(last, "exitCode"), 3);
  EXPECT_EQ(text_in(last, "reason"), "Error");
  EXPECT_EQ(text_in(condition(pod, "ContainersReady"), "message"), "containers with unready status: [a]");
}

TEST_F(PodViews, EndsAsItsContainersDo) {
  tree["spec"].as_object()["restartPolicy"] = "Never";
  container(ContainerState::kEnded);
  EXPECT_EQ(phase(shown()), "Succeeded");
  EXPECT_EQ(text_in(condition(shown(), "Ready"), "reason"), "PodCompleted");
  EXPECT_EQ(text_in(part(part(status(shown()), "state"), "terminated"), "reason"), "Completed");
  task.containers.edit()[0].exit.signal = 9;
  const json::object failed = shown();
  EXPECT_EQ(phase(failed), "Failed");
  EXPECT_EQ(integer_in(part(part(status(failed), "state"), "terminated"), "exitCode"), 137);
  tree["spec"].as_object()["restartPolicy"] = "OnFailure";
  EXPECT_EQ(phase(shown()), "Running") << "it is started again in a moment";
  job.state = JobState::kTimeout;
  EXPECT_EQ(phase(shown()), "Failed");
  EXPECT_EQ(text_in(part(shown(), "status"), "reason"), "DeadlineExceeded");
}

TEST_F(PodViews, InitContainersGoFirst) {
  tree["spec"].as_object()["initContainers"] = json::parse(R"([{"name":"i","image":"x"}])");
  ContainerStatus& init = container(ContainerState::kRunning, "i");
  init.ready = false;
  container(ContainerState::kWaiting);
  json::object pod = shown();
  EXPECT_EQ(phase(pod), "Pending");
  EXPECT_EQ(text_in(condition(pod, "Initialized"), "message"), "containers with incomplete status: [i]");
  EXPECT_EQ(text_in(part(part(status(pod), "state"), "waiting"), "reason"), "PodInitializing");
  task.containers.edit()[0].state = ContainerState::kEnded;
  task.containers.edit()[0].ended = kStarted + seconds(9);
  task.containers.edit()[1].state = ContainerState::kRunning;
  pod = shown();
  EXPECT_EQ(phase(pod), "Running");
  EXPECT_EQ(text_in(condition(pod, "Initialized"), "lastTransitionTime"), "1970-01-01T00:01:49Z");
  EXPECT_TRUE(flag_in(status(pod, "initContainerStatuses"), "ready"));
  tree["spec"].as_object()["restartPolicy"] = "Never";
  task.containers.edit()[0].exit.code = 1;
  EXPECT_EQ(phase(shown()), "Failed");
}

// As the real server's table has it.
TEST_F(PodViews, ItsTableSaysHowFarItsInitContainersAre) {
  tree["spec"].as_object()["initContainers"] = json::parse(R"([{"name":"i","image":"x"},{"name":"j","image":"x"}])");
  container(ContainerState::kRunning, "i").ready = false;
  container(ContainerState::kWaiting, "j").reason = "PodInitializing";
  container(ContainerState::kWaiting).reason = "PodInitializing";
  const auto word = [&] { return std::string(text_of(cells_of(kPods, shown(), {})[2])); };
  const auto init = [&](std::size_t i) -> ContainerStatus& { return task.containers.edit()[i]; };
  EXPECT_EQ(word(), "Init:0/2");
  init(0).state = ContainerState::kEnded;
  init(1).state = ContainerState::kRunning;
  EXPECT_EQ(word(), "Init:1/2");
  init(1).state = ContainerState::kWaiting;
  init(1).restarts = 2;
  init(1).exit.code = 3;
  init(1).reason = "CrashLoopBackOff";
  EXPECT_EQ(word(), "Init:CrashLoopBackOff");
  init(1).state = ContainerState::kEnded;
  init(1).reason.clear();
  EXPECT_EQ(word(), "Init:Error");
  init(1).exit = {0, 9, true};
  EXPECT_EQ(word(), "Init:OOMKilled");
  init(1).exit = {};
  init(2).reason.clear();
  EXPECT_EQ(word(), "ContainerCreating");
}

TEST_F(PodViews, SomebodyCancelledItsJobWhileItWaited) {
  job.state = JobState::kCancelled;
  job.started = {};
  job.ended = kStarted;
  const json::object pod = shown(false, "Job 7 was cancelled by ann");
  EXPECT_EQ(phase(pod), "Failed");
  EXPECT_EQ(text_in(part(pod, "status"), "reason"), "Cancelled");
  EXPECT_EQ(text_in(part(pod, "status"), "message"), "Job 7 was cancelled by ann");
  EXPECT_EQ(text_in(condition(pod, "PodScheduled"), "status"), "False");
  EXPECT_EQ(list_in(part(pod, "status"), "conditions").size(), 1u) << "of what never was nothing is said";
  EXPECT_EQ(text_of(cells_of(kPods, pod, {})[2]), "Cancelled");
  EXPECT_FALSE(part(spec_of(pod), "nodeName").is_string());
  tree = pod;
  EXPECT_EQ(shown(false, "Job 7 was cancelled by ann"), pod) << "and so it stays when that is written down";
}

TEST_F(PodViews, SomebodyCancelledItsJobWhileItRan) {
  tree["spec"].as_object()["containers"].as_array().push_back({{"name", "b"}, {"image", "x"}});
  container(ContainerState::kEnded).exit.signal = 9;
  container(ContainerState::kWaiting, "b").reason = "ContainerCreating";
  job.state = JobState::kCancelled;
  const json::object pod = shown(true, "Job 7 was cancelled by ann");
  EXPECT_EQ(phase(pod), "Failed");
  EXPECT_EQ(text_in(part(pod, "status"), "message"), "Job 7 was cancelled by ann");
  EXPECT_EQ(text_in(part(part(status(pod), "state"), "terminated"), "reason"), "Error");
  EXPECT_EQ(part(part(status(pod, "containerStatuses", 1), "state"), "waiting"), json::value(json::object()))
      << "it waits for nothing any more";
  EXPECT_EQ(text_in(condition(pod, "PodScheduled"), "status"), "True");
  tree = pod;
  EXPECT_EQ(shown(true, "Job 7 was cancelled by ann"), pod);
  tree["status"].as_object()["reason"] = "Mine";
  EXPECT_EQ(text_in(part(shown(true, "Job 7 was cancelled by ann"), "status"), "reason"), "Mine");
  auto extra = std::make_shared<MetaExtra>();
  extra->deleting = kStarted;
  object.meta.extra = extra;
  tree["status"] = json::object();
  EXPECT_EQ(text_in(part(shown(), "status"), "reason"), "") << "who deletes it knows";
}

TEST(WhoCancelled, NamesTheUser) {
  Tables tables;
  User ann;
  ann.id = UserId{3};
  ann.meta.name = "ann";
  ann.meta.seq = 1;
  tables.apply({1, std::make_shared<const User>(ann), false});
  Job job;
  job.id = JobId(26);
  job.state = JobState::kRunning;
  EXPECT_EQ(who_cancelled(tables, job), "");
  job.state = JobState::kCompleting;
  job.ending = JobState::kCancelled;
  job.cancelled_by = ann.id;
  EXPECT_EQ(who_cancelled(tables, job), "Job 26 was cancelled by ann");
  job.cancelled_by = {};
  EXPECT_EQ(who_cancelled(tables, job), "Job 26 was cancelled");
}

TEST_F(PodViews, WhyItsContainersWaitIsSaidAsTheRealOnesDo) {
  tree["metadata"] = json::parse(R"({"name":"web","namespace":"lab","uid":"u-1"})");
  ContainerStatus& one = container(ContainerState::kWaiting);
  const auto message = [&] { return text_in(part(part(status(shown()), "state"), "waiting"), "message"); };
  one.reason = "ErrImagePull";
  one.message = "failed to pull image \"reg/i:1\": manifest unknown";
  EXPECT_EQ(message(), "failed to pull image \"reg/i:1\": manifest unknown");
  one.reason = "ImagePullBackOff";
  EXPECT_EQ(message(),
            "Back-off pulling image \"reg/i:1\": ErrImagePull: failed to pull image \"reg/i:1\": manifest unknown");
  one.reason = "CrashLoopBackOff";
  one.message = "back-off 10s restarting failed container=a";
  EXPECT_EQ(message(), "back-off 10s restarting failed container=a pod=web_lab(u-1)");
  one.reason = "FetchingImage";
  EXPECT_EQ(text_in(part(part(status(shown()), "state"), "waiting"), "reason"), "ContainerCreating");
}

// Somebody's word through /status, as it is stored.
TEST_F(PodViews, WhatOthersWriteCountsUntilTheNodesNextWord) {
  container(ContainerState::kRunning);
  job.meta.seq = 7;
  task.meta.seq = 8;
  const json::object before = shown();
  const auto write = [&](std::string_view type, const char* is) {
    json::object out = before;
    for (json::value& one : out["status"].as_object()["conditions"].as_array())
      if (text_in(one, "type") == type)
        one.as_object()["status"] = is;
    return out;
  };
  const PodRecords records{std::make_shared<const Job>(job), std::make_shared<const Task>(task), nullptr};
  tree = write("Ready", "False");
  note_written_status(tree, before, records);
  EXPECT_EQ(text_in(condition(shown(), "Ready"), "status"), "False");
  EXPECT_EQ(text_in(condition(shown(), "ContainersReady"), "status"), "True");
  EXPECT_EQ(shown().size(), before.size()) << "the note is nobody's to see";
  task.meta.seq = 9;
  EXPECT_EQ(text_in(condition(shown(), "Ready"), "status"), "True");
  // What others add of their own changes nothing of ours, then or later.
  tree = before;
  tree["status"].as_object()["conditions"].as_array().push_back({{"type", "mine"}, {"status", "True"}});
  const std::size_t size = tree.size();
  note_written_status(tree, before, records);
  EXPECT_EQ(tree.size(), size);
}

TEST_F(PodViews, AnEndThatOthersWriteIsForGood) {
  container(ContainerState::kRunning);
  tree["status"] = json::object{{"phase", "Failed"}};
  EXPECT_EQ(phase(shown()), "Failed");
  EXPECT_EQ(text_in(condition(shown(), "Ready"), "reason"), "PodFailed");
  job.state = JobState::kCancelled;
  EXPECT_EQ(phase(shown()), "Failed");
}

TEST_F(PodViews, WhoIsEvictedByTheNodeWasDisrupted) {
  task.reason = "Evicted: The node was low on resource: memory";
  job.state = JobState::kFailed;
  container(ContainerState::kEnded);
  EXPECT_EQ(text_in(condition(shown(), "DisruptionTarget"), "reason"), "TerminationByKubelet");
}

TEST_F(PodViews, ADeletionIsOverWhenItsGraceIs) {
  auto extra = std::make_shared<MetaExtra>();
  extra->deleting = Instant{seconds(10).us};
  object.meta.extra = extra;
  tree["metadata"].as_object()["deletionGracePeriodSeconds"] = 30;
  EXPECT_EQ(text_in(part(shown(), "metadata"), "deletionTimestamp"), "1970-01-01T00:00:40Z");
}

TEST_F(PodViews, ItsEndIsKnownAfterItsJobIsForgotten) {
  object.ended = {{.what = {.kind = Kind::kJob, .job = JobId(7)},
                   .state = JobState::kCompleted,
                   .started = kStarted,
                   .ended = kStarted,
                   .exit = {},
                   .ran_on = "n1"}};
  json::object out = tree;
  show_pod(out, object, {}, {}, {});
  EXPECT_EQ(phase(out), "Succeeded");
  EXPECT_EQ(text_in(spec_of(out), "nodeName"), "n1");
}

}  // namespace
}  // namespace lockstep::kube
