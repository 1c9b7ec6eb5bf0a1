#include "frontends/kube/controllers/pod_events.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/workload_rig.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"
#include "wire/container_notes.h"

namespace lockstep::kube {
namespace {

constexpr Instant kTold{seconds(1000).us};

// A pod on n1 whose records a test sets, and the events that are told of it.
struct PodEventsTest : testing::Test {
  ObjectView view;
  Ref<Object> pod;
  Job job;
  Task task;
  Node node;

  PodEventsTest() {
    put(object_of("namespaces", json::parse(R"({"metadata":{"name":"lab"}})").as_object()));
    pod = put(object_of("pods", json::parse(R"({"metadata":{"name":"web","namespace":"lab"},
      "spec":{"containers":[{"name":"a","image":"reg/i:1"},{"name":"b","image":"reg/j:1"}]}})")
                                    .as_object()));
    job.id = JobId(7);
    job.state = JobState::kRunning;
    job.started = kTold;
    node.meta.name = "n1";
    task.state = TaskState::kRunning;
  }
  Ref<Object> put(Object object) {
    object.meta.seq = view.tables().seq + 1;
    object.meta.uid = Uid(object.meta.seq);
    auto ref = std::make_shared<const Object>(std::move(object));
    view.apply({ref->meta.seq, ref, false});
    return ref;
  }
  ContainerStatus& container(ContainerState state, const char* name = "a") {
    ContainerStatus one;
    one.name = name;
    one.state = state;
    one.started = kTold;
    task.containers.edit().push_back(one);
    return task.containers.edit().back();
  }
  ContainerStatus& told(std::size_t i = 0) { return task.containers.edit()[i]; }
  // What is told now: "Reason: message", or with its count behind it where that is not 1. In the order of their names,
  // in which clients show what fell into one second.
  std::vector<std::string> events(Instant now = kTold) {
    Wishes out;
    wish_pod_events(
        out, view, *pod,
        {std::make_shared<const Job>(job), std::make_shared<const Task>(task), std::make_shared<const Node>(node)},
        now);
    std::map<std::string, std::string> all;
    for (const Wishes::Wish& wish : out.wishes) {
      const Object& event = std::get<PutObject>(wish.body).object;
      const json::object body = body_of(event);
      const std::int64_t count = body.at("count").as_int64();
      all[event.meta.name] = format("{}: {}{}", text_in(body, "reason"), text_in(body, "message"),
                                    count == 1 ? "" : format(" x{}", count));
      put(event);
    }
    std::vector<std::string> words;
    for (const auto& [name, one] : all) words.push_back(one);
    return words;
  }
  using Words = std::vector<std::string>;
};

TEST_F(PodEventsTest, ABeginningIsToldInItsOrder) {
  container(ContainerState::kRunning).message = encode_container_notes({.fetch_time = millis(1234)});
  container(ContainerState::kRunning, "b");
  EXPECT_EQ(events(),
            (Words{"Scheduled: Successfully assigned lab/web to n1", "Pulling: Pulling image \"reg/i:1\"",
                   "Pulled: Successfully pulled image \"reg/i:1\" in 1.234s", "Created: Created container: a",
                   "Started: Started container a", "Pulled: Container image \"reg/j:1\" already present on machine",
                   "Created: Created container: b", "Started: Started container b"}));
  EXPECT_EQ(events(), Words{}) << "once";
  told().message.clear();
  told().state = ContainerState::kEnded;
  EXPECT_EQ(events(), Words{}) << "what is over is not told otherwise";
  told().restarts = 1;
  told().state = ContainerState::kRunning;
  EXPECT_EQ(events(), (Words{"Pulled: Container image \"reg/i:1\" already present on machine x2",
                             "Created: Created container: a x2", "Started: Started container a x2"}));
}

TEST_F(PodEventsTest, AnImageThatDoesNotCome) {
  job.started = {};
  ContainerStatus& one = container(ContainerState::kWaiting);
  one.reason = kFetchingImage;
  EXPECT_EQ(events(), Words{"Pulling: Pulling image \"reg/i:1\""});
  told().reason = "ErrImagePull";
  told().message = "failed to pull image \"reg/i:1\": manifest unknown";
  EXPECT_EQ(events(),
            (Words{"Failed: Failed to pull image \"reg/i:1\": manifest unknown", "Failed: Error: ErrImagePull"}));
  told().reason = "ImagePullBackOff";
  EXPECT_EQ(events(), (Words{"BackOff: Back-off pulling image \"reg/i:1\"", "Failed: Error: ImagePullBackOff"}));
}

TEST_F(PodEventsTest, AnImageOfALifeThatWasOverAtOnce) {
  job.started = {};
  container(ContainerState::kWaiting).reason = kFetchingImage;
  EXPECT_EQ(events(), Words{"Pulling: Pulling image \"reg/i:1\""});
  told().state = ContainerState::kEnded;
  told().started = kTold;
  EXPECT_EQ(events(), (Words{"Pulled: Successfully pulled image \"reg/i:1\"", "Created: Created container: a",
                             "Started: Started container a"}));
}

TEST_F(PodEventsTest, AVolumeThatIsNotThere) {
  job.started = {};
  const char* const words = "MountVolume.SetUp failed for volume \"s\" : secret \"no\" not found";
  for (const char* name : {"a", "b"}) {
    ContainerStatus& one = container(ContainerState::kWaiting, name);
    one.reason = "ContainerCreating";
    one.message = words;
  }
  EXPECT_EQ(events(), Words{std::string("FailedMount: ") + words}) << "once for all containers";
}

TEST_F(PodEventsTest, WhatKeepsASandboxFromBeingMade) {
  job.started = {};
  const char* const words = "Failed to create pod sandbox: no runtime for \"kata\" is configured";
  for (const char* name : {"a", "b"}) {
    ContainerStatus& one = container(ContainerState::kWaiting, name);
    one.reason = "ContainerCreating";
    one.message = words;
  }
  EXPECT_EQ(events(), Words{std::string("FailedCreatePodSandBox: ") + words}) << "once for all containers";
}

TEST_F(PodEventsTest, LinksOfAnImageThatFoldersReplace) {
  job.started = {};
  container(ContainerState::kRunning).message = encode_container_notes({.replaced = "/dev, /etc"});
  const Words told = events();
  EXPECT_NE(std::ranges::find(told,
                              "ImageLinksReplaced: Container image \"reg/i:1\" has symbolic links where folders must "
                              "be: empty folders have taken the place of /dev, /etc"),
            told.end());
}

TEST_F(PodEventsTest, ProbesThatFailAreCounted) {
  job.started = {};
  ContainerStatus& one = container(ContainerState::kRunning);
  one.started = {};
  const auto fails = [&](std::uint32_t times, std::uint32_t ends, const char* output) {
    ContainerNotes notes;
    notes.failed_probes = {{Probe::What::kLiveness, times, ends, output}};
    told().message = encode_container_notes(notes);
    return events();
  };
  EXPECT_EQ(fails(1, 0, "no"), Words{"Unhealthy: Liveness probe failed: no"});
  EXPECT_EQ(fails(2, 0, "no"), Words{"Unhealthy: Liveness probe failed: no x2"});
  EXPECT_EQ(fails(2, 0, "no"), Words{});
  EXPECT_EQ(fails(3, 1, "no"), (Words{"Unhealthy: Liveness probe failed: no x3",
                                      "Killing: Container a failed liveness probe, will be restarted"}));
  EXPECT_EQ(fails(4, 1, "other"), Words{"Unhealthy: Liveness probe failed: other"}) << "these words are new";
}

TEST_F(PodEventsTest, WhoCancelledItsJob) {
  job.started = {};
  container(ContainerState::kRunning).started = {};
  job.state = JobState::kCompleting;
  job.ending = JobState::kCancelled;
  job.ended = kTold;
  EXPECT_EQ(events(), (Words{"Killing: Stopping container a", "Cancelled: Job 7 was cancelled"}));
  job.state = JobState::kCancelled;
  EXPECT_EQ(events(), Words{});
}

TEST_F(PodEventsTest, AFolderOfTheNodeThatIsNoneIsToldAsAVolume) {
  task.state = TaskState::kWaiting;
  task.reason = "MountVolume.SetUp failed for volume \"v\" : hostPath type check failed: /x is not a directory";
  const auto told = events();
  EXPECT_EQ(
      told.back(),
      "FailedMount: MountVolume.SetUp failed for volume \"v\" : hostPath type check failed: /x is not a directory");
  task.reason = "no address is left";
  EXPECT_EQ(events().back(), "FailedCreatePodSandBox: Failed to create pod sandbox: no address is left");
}

// What another scheduler says of a pod that it is to place, it tells itself.
TEST(PodEventsOfOthers, AnotherSchedulersWordIsNoEventOfOurs) {
  WorkloadRig rig({pod_controller()});
  const auto pod = [&](const char* name, const char* scheduler) {
    json::object tree = json::parse(R"({"metadata":{"namespace":"n"},"spec":{"containers":[{"name":"c","image":"i"}]},
        "status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable",
        "message":"said"}]}})")
                            .as_object();
    tree["metadata"].as_object()["name"] = name;
    tree["spec"].as_object()["schedulerName"] = scheduler;
    rig.put("pods", std::move(tree));
    rig.run();
  };
  pod("theirs", "mine");
  EXPECT_TRUE(rig.events().empty());
  pod("ours", "default-scheduler");
  EXPECT_FALSE(rig.events().empty());
}

}  // namespace
}  // namespace lockstep::kube
