#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/job_rules.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

constexpr const char* kJobs = "jobs.batch";

std::string job(const std::string& more, const char* policy = "Never") {
  return R"({"metadata":{"name":"work","namespace":"n"},"spec":{)" + more +
         R"(,"template":{"spec":{"restartPolicy":")" + policy + R"(","containers":[{"name":"c","image":"i"}]}}}})";
}

WorkloadRig job_rig() { return WorkloadRig({job_controller()}); }

std::vector<std::string> live(const WorkloadRig& rig) {
  std::vector<std::string> out;
  for (const std::string& name : rig.names("pods")) {
    const std::string phase = text_in(rig.status("pods", name), "phase");
    if (phase != "Succeeded" && phase != "Failed" && !is_deleting(*rig.find("pods", name)))
      out.push_back(name);
  }
  return out;
}

std::string pod_of_index(const WorkloadRig& rig, int index) {
  for (const std::string& name : live(rig))
    if (text_in(part(part(rig.tree("pods", name), "metadata"), "annotations"), kIndexKey) == std::to_string(index))
      return name;
  return "";
}

void end_pod(WorkloadRig& rig, const std::string& name, int exit_code) {
  rig.tell_pod(name, exit_code == 0 ? "Succeeded" : "Failed", false, exit_code);
  rig.run();
}

TEST(Jobs, RunUntilEnoughHaveSucceeded) {
  WorkloadRig rig = job_rig();
  rig.put(kJobs, job(R"("completions":3,"parallelism":2,"backoffLimit":6)"));
  rig.run();
  ASSERT_EQ(live(rig).size(), 2u);
  const std::string uid = uid_text(rig.find(kJobs, "work")->meta.uid);
  const json::object pod = rig.tree("pods", live(rig)[0]);
  EXPECT_EQ(text_in(part(part(pod, "metadata"), "labels"), "batch.kubernetes.io/controller-uid"), uid);
  EXPECT_EQ(text_in(part(part(pod, "metadata"), "labels"), "job-name"), "work");
  EXPECT_TRUE(has_finalizer(*rig.find("pods", live(rig)[0]), kJobFinalizer));
  EXPECT_EQ(rig.number(kJobs, "work", "active"), 2);
  const std::string first = live(rig)[0];
  end_pod(rig, first, 0);
  EXPECT_EQ(rig.number(kJobs, "work", "succeeded"), 1);
  EXPECT_FALSE(has_finalizer(*rig.find("pods", first), kJobFinalizer)) << "it is counted";
  EXPECT_EQ(live(rig).size(), 2u);
  for (const std::string& name : live(rig)) end_pod(rig, name, 0);
  EXPECT_EQ(rig.number(kJobs, "work", "succeeded"), 3);
  EXPECT_EQ(rig.condition(kJobs, "work", "SuccessCriteriaMet"), "True CompletionsReached");
  EXPECT_EQ(rig.condition(kJobs, "work", "Complete"), "True CompletionsReached");
  EXPECT_NE(text_in(rig.status(kJobs, "work"), "completionTime"), "");
  EXPECT_TRUE(std::ranges::count(rig.events(), "Completed: Job completed"));
  EXPECT_EQ(rig.run(), 0);
}

TEST(Jobs, FailuresPauseAndEndIt) {
  WorkloadRig rig = job_rig();
  rig.put(kJobs, job(R"("completions":1,"parallelism":1,"backoffLimit":1)"));
  rig.run();
  end_pod(rig, live(rig)[0], 1);
  EXPECT_TRUE(live(rig).empty()) << "10 seconds' pause";
  EXPECT_EQ(rig.number(kJobs, "work", "failed"), 1);
  rig.advance(seconds(11));
  ASSERT_EQ(live(rig).size(), 1u);
  end_pod(rig, live(rig)[0], 1);
  EXPECT_EQ(rig.condition(kJobs, "work", "FailureTarget"), "True BackoffLimitExceeded");
  EXPECT_EQ(rig.condition(kJobs, "work", "Failed"), "True BackoffLimitExceeded");
  EXPECT_EQ(rig.number(kJobs, "work", "failed"), 2);
  rig.advance(minutes(30));
  EXPECT_TRUE(live(rig).empty());
}

TEST(Jobs, WhatStillRunsGoesBeforeAJobHasFailed) {
  WorkloadRig rig = job_rig();
  rig.put(kJobs, job(R"("completions":4,"parallelism":3,"backoffLimit":0)"));
  rig.run();
  ASSERT_EQ(live(rig).size(), 3u);
  for (const std::string& name : live(rig)) rig.tell_pod(name, "Running", true);
  rig.run();
  rig.linger = true;
  end_pod(rig, live(rig)[0], 1);
  EXPECT_EQ(rig.condition(kJobs, "work", "FailureTarget"), "True BackoffLimitExceeded");
  EXPECT_EQ(rig.condition(kJobs, "work", "Failed"), "") << "two of its pods are still there";
  EXPECT_EQ(rig.number(kJobs, "work", "terminating"), 2);
  EXPECT_EQ(rig.number(kJobs, "work", "failed"), 3);
  rig.finish_deletions();
  rig.run();
  EXPECT_EQ(rig.condition(kJobs, "work", "Failed"), "True BackoffLimitExceeded");
}

TEST(Jobs, IndexesAreDoneOneByOne) {
  WorkloadRig rig = job_rig();
  rig.put(kJobs, job(R"("completions":4,"parallelism":2,"completionMode":"Indexed","backoffLimit":6)"));
  rig.run();
  const std::string zero = pod_of_index(rig, 0);
  const json::object pod = rig.tree("pods", zero);
  EXPECT_EQ(text_in(part(pod, "spec"), "hostname"), "work-0");
  EXPECT_TRUE(zero.starts_with("work-0-"));
  EXPECT_EQ(part(part(pod, "spec"), "containers").at(0).at("env").at(0).at("name"), "JOB_COMPLETION_INDEX");
  end_pod(rig, pod_of_index(rig, 1), 0);
  EXPECT_EQ(text_in(rig.status(kJobs, "work"), "completedIndexes"), "1");
  EXPECT_NE(pod_of_index(rig, 2), "");
  end_pod(rig, pod_of_index(rig, 2), 0);
  end_pod(rig, pod_of_index(rig, 3), 0);
  EXPECT_EQ(text_in(rig.status(kJobs, "work"), "completedIndexes"), "1-3");
  end_pod(rig, zero, 0);
  EXPECT_EQ(text_in(rig.status(kJobs, "work"), "completedIndexes"), "0-3");
  EXPECT_EQ(rig.condition(kJobs, "work", "Complete"), "True CompletionsReached");
}

TEST(Jobs, LimitsForEachIndex) {
  WorkloadRig rig = job_rig();
  rig.put(kJobs, job(R"("completions":2,"parallelism":2,"completionMode":"Indexed","backoffLimitPerIndex":1)"));
  rig.run();
  end_pod(rig, pod_of_index(rig, 0), 1);
  rig.advance(seconds(11));
  const std::string again = pod_of_index(rig, 0);
  ASSERT_NE(again, "");
  EXPECT_EQ(text_in(part(part(rig.tree("pods", again), "metadata"), "annotations"), kIndexFailures), "1");
  end_pod(rig, again, 1);
  EXPECT_EQ(text_in(rig.status(kJobs, "work"), "failedIndexes"), "0");
  EXPECT_EQ(rig.condition(kJobs, "work", "Failed"), "");
  end_pod(rig, pod_of_index(rig, 1), 0);
  EXPECT_EQ(rig.condition(kJobs, "work", "Failed"), "True FailedIndexes");
  EXPECT_EQ(rig.number(kJobs, "work", "failed"), 2);
  EXPECT_EQ(rig.number(kJobs, "work", "succeeded"), 1);
}

TEST(Jobs, FailurePolicies) {
  WorkloadRig rig = job_rig();
  rig.put(kJobs, job(R"("completions":2,"parallelism":2,"backoffLimit":0,"podFailurePolicy":{"rules":[
      {"action":"Ignore","onExitCodes":{"operator":"In","values":[9]}},
      {"action":"FailJob","onExitCodes":{"containerName":"c","operator":"In","values":[42]}}]})"));
  rig.run();
  end_pod(rig, live(rig)[0], 9);
  EXPECT_EQ(rig.number(kJobs, "work", "failed"), 0) << "ignored";
  rig.advance(seconds(11));
  ASSERT_EQ(live(rig).size(), 2u);
  const std::string name = live(rig)[0];
  end_pod(rig, name, 42);
  EXPECT_EQ(rig.condition(kJobs, "work", "Failed"), "True PodFailurePolicy");
  const json::value told = rig.status(kJobs, "work");
  EXPECT_EQ(text_in(*find_condition(told.as_object(), "Failed"), "message"),
            "Container c for pod n/" + name + " failed with exit code 42 matching FailJob rule at index 1");
}

TEST(Jobs, SuccessPolicies) {
  WorkloadRig rig = job_rig();
  rig.put(kJobs, job(R"("completions":5,"parallelism":5,"completionMode":"Indexed","backoffLimit":6,
      "successPolicy":{"rules":[{"succeededIndexes":"0-2","succeededCount":2}]})"));
  rig.run();
  end_pod(rig, pod_of_index(rig, 4), 0);
  end_pod(rig, pod_of_index(rig, 0), 0);
  EXPECT_EQ(rig.condition(kJobs, "work", "SuccessCriteriaMet"), "");
  end_pod(rig, pod_of_index(rig, 2), 0);
  EXPECT_EQ(rig.condition(kJobs, "work", "Complete"), "True SuccessPolicy");
  EXPECT_EQ(text_in(rig.status(kJobs, "work"), "completedIndexes"), "0,2,4");
  EXPECT_EQ(rig.number(kJobs, "work", "failed"), 0);
  EXPECT_TRUE(live(rig).empty());
}

TEST(Jobs, SuspendAndResume) {
  WorkloadRig rig = job_rig();
  rig.put(kJobs, job(R"("completions":2,"parallelism":2,"suspend":true,"backoffLimit":6)"));
  rig.run();
  EXPECT_TRUE(live(rig).empty());
  EXPECT_EQ(rig.condition(kJobs, "work", "Suspended"), "True JobSuspended");
  EXPECT_EQ(text_in(rig.status(kJobs, "work"), "startTime"), "");
  const auto suspend = [&](bool is) {
    rig.edit(kJobs, "work", [&](json::object& tree) { tree["spec"].as_object()["suspend"] = is; });
    rig.run();
  };
  suspend(false);
  EXPECT_EQ(live(rig).size(), 2u);
  EXPECT_EQ(rig.condition(kJobs, "work", "Suspended"), "False JobResumed");
  suspend(true);
  EXPECT_TRUE(live(rig).empty());
  EXPECT_EQ(rig.number(kJobs, "work", "failed"), 0) << "its own pods' end is no failure";
}

TEST(Jobs, DeadlinesAndRestartsOfContainers) {
  WorkloadRig rig = job_rig();
  rig.put(kJobs, job(R"("completions":1,"parallelism":1,"activeDeadlineSeconds":30,"backoffLimit":6)"));
  rig.run();
  rig.advance(seconds(29));
  EXPECT_EQ(live(rig).size(), 1u);
  rig.advance(seconds(2));
  EXPECT_EQ(rig.condition(kJobs, "work", "Failed"), "True DeadlineExceeded");
  EXPECT_TRUE(live(rig).empty());
}

TEST(Jobs, PodsOfAJobThatIsGoneAreLetGo) {
  WorkloadRig rig = job_rig();
  rig.put(kJobs, job(R"("completions":2,"parallelism":2,"backoffLimit":6)"));
  rig.run();
  const auto pods = live(rig);
  rig.remove(kJobs, "work");
  rig.run();
  for (const std::string& name : pods) EXPECT_FALSE(has_finalizer(*rig.find("pods", name), kJobFinalizer));
}

TEST(JobRules, TextOfIndexes) {
  EXPECT_EQ(indexes_text(read_indexes("0-2,5,7,8", 100)), "0-2,5,7,8");
  EXPECT_EQ(indexes_text(read_indexes("0-9", 5)), "0-4");
  EXPECT_EQ(indexes_text(read_indexes("", 5)), "");
  EXPECT_EQ(pause_after(0), Duration{});
  EXPECT_EQ(pause_after(3), seconds(40));
  EXPECT_EQ(pause_after(50), minutes(10));
}

}  // namespace
}  // namespace lockstep::kube
