#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/controllers/workload_rig.h"
#include "frontends/kube/kinds/cron_schedule.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube {
namespace {

constexpr const char *kCrons = "cronjobs.batch", *kCronJobs = "jobs.batch";

std::string next_time(const char* schedule, const char* after, const char* zone = "") {
  const auto read = CronSchedule::parse(schedule, TimeZone::find(zone));
  if (!read.ok())
    return read.error().message;
  const auto next = read->next(*parse_timestamp(after));
  return next ? timestamp_text(*next) : "never";
}

TEST(CronSchedules, TheNextTime) {
  EXPECT_EQ(next_time("*/15 * * * *", "2026-11-26T11:00:00Z"), "2026-11-26T11:15:00Z");
  EXPECT_EQ(next_time("30 6-18/4 * * mon-fri", "2026-11-27T18:30:00Z"), "2026-11-30T06:30:00Z");
  EXPECT_EQ(next_time("@monthly", "2026-11-26T11:00:00Z"), "2026-12-01T00:00:00Z");
  EXPECT_EQ(next_time("0 0 29 2 *", "2026-11-26T11:00:00Z"), "2028-02-29T00:00:00Z");
  EXPECT_EQ(next_time("0 0 31 2 *", "2026-11-26T11:00:00Z"), "never");
  EXPECT_EQ(next_time("0 0 13 * fri", "2026-11-26T11:00:00Z"), "2026-11-27T00:00:00Z") << "either of the two days";
  EXPECT_EQ(next_time("@every 90s", "2026-11-26T11:00:05Z"), "2026-11-26T11:01:35Z");
  EXPECT_EQ(next_time("61 * * * *", "2026-11-26T11:00:00Z"), "cannot read \"61\" as a minute of a schedule");
  EXPECT_EQ(next_time("* * * *", "2026-11-26T11:00:00Z"), "expected exactly 5 fields, found 4: [* * * *]");
}

TEST(CronSchedules, InTimeZones) {
  if (!TimeZone::find("Europe/Berlin"))
    GTEST_SKIP() << "this machine has no tzdata";
  EXPECT_EQ(next_time("0 9 * * *", "2026-01-10T11:00:00Z", "Europe/Berlin"), "2026-01-11T08:00:00Z");
  EXPECT_EQ(next_time("0 9 * * *", "2026-07-10T11:00:00Z", "Europe/Berlin"), "2026-07-11T07:00:00Z");
  EXPECT_EQ(next_time("30 2 * * *", "2026-03-28T12:00:00Z", "Europe/Berlin"), "2026-03-30T00:30:00Z")
      << "that day has no half past two";
  EXPECT_EQ(TimeZone::find("../../etc/passwd"), nullptr);
  EXPECT_EQ(TimeZone::find("Nowhere/Land"), nullptr);
  EXPECT_EQ(TimeZone::parse("TZif2"), nullptr);
}

std::string cron(const std::string& more) {
  return R"({"metadata":{"name":"tick","namespace":"n"},"spec":{"schedule":"*/1 * * * *",)" + more +
         R"("successfulJobsHistoryLimit":2,"failedJobsHistoryLimit":1,"jobTemplate":{"metadata":{"labels":{"a":"b"}},
         "spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}})";
}

void finish_jobs(WorkloadRig& rig, const char* how = "Complete") {
  for (const std::string& name : rig.names(kCronJobs))
    if (rig.condition(kCronJobs, name, "Complete").empty() && rig.condition(kCronJobs, name, "Failed").empty())
      rig.edit(kCronJobs, name, [&](json::object& tree) {
        tree["status"] =
            json::object{{"startTime", time_text(rig.now, {})},
                         {"completionTime", time_text(rig.now, {})},
                         {"conditions", json::array{json::object{{"type", how}, {"status", "True"}, {"reason", "R"}}}}};
      });
  rig.run();
}

TEST(CronJobs, AJobAtEachTime) {
  WorkloadRig rig({cron_job_controller()});
  rig.put(kCrons, cron(R"("concurrencyPolicy":"Allow",)"));
  rig.run();
  EXPECT_TRUE(rig.names(kCronJobs).empty());
  rig.advance(seconds(61));
  ASSERT_EQ(rig.names(kCronJobs).size(), 1u);
  const json::object job = rig.tree(kCronJobs, rig.names(kCronJobs)[0]);
  EXPECT_EQ(text_in(part(part(job, "metadata"), "labels"), "a"), "b");
  EXPECT_EQ(part(rig.status(kCrons, "tick"), "active").as_array().size(), 1u);
  rig.advance(minutes(1));
  EXPECT_EQ(rig.names(kCronJobs).size(), 2u);
  finish_jobs(rig);
  EXPECT_FALSE(rig.status(kCrons, "tick").as_object().contains("active"));
  EXPECT_NE(text_in(rig.status(kCrons, "tick"), "lastSuccessfulTime"), "");
  for (int i = 0; i < 3; ++i) {
    rig.advance(minutes(1));
    finish_jobs(rig);
  }
  EXPECT_EQ(rig.names(kCronJobs).size(), 2u) << "the history's limit";
}

TEST(CronJobs, ForbidAndReplace) {
  WorkloadRig rig({cron_job_controller()});
  rig.put(kCrons, cron(R"("concurrencyPolicy":"Forbid",)"));
  rig.advance(minutes(3));
  ASSERT_EQ(rig.names(kCronJobs).size(), 1u);
  EXPECT_TRUE(
      std::ranges::any_of(rig.events(), [](const std::string& e) { return e.starts_with("JobAlreadyActive"); }));
  const std::string first = rig.names(kCronJobs)[0];
  rig.edit(kCrons, "tick", [](json::object& tree) { tree["spec"].as_object()["concurrencyPolicy"] = "Replace"; });
  rig.advance(minutes(2));
  ASSERT_EQ(rig.names(kCronJobs).size(), 1u);
  EXPECT_NE(rig.names(kCronJobs)[0], first);
}

TEST(CronJobs, SuspendedOnesAndLateOnesMakeNone) {
  WorkloadRig rig({cron_job_controller()});
  rig.put(kCrons, cron(R"("suspend":true,"startingDeadlineSeconds":20,)"));
  rig.advance(minutes(5));
  EXPECT_TRUE(rig.names(kCronJobs).empty());
  rig.advance(seconds(65));  // too late for the last one
  rig.edit(kCrons, "tick", [](json::object& tree) { tree["spec"].as_object().erase("suspend"); });
  rig.run();
  rig.advance(minutes(1));
  EXPECT_EQ(rig.names(kCronJobs).size(), 1u);
}

TEST(Expiry, EndedJobsAndOldEvents) {
  WorkloadRig rig({expiry_controller()});
  rig.put(kCronJobs,
          R"({"metadata":{"name":"j","namespace":"n"},"spec":{"ttlSecondsAfterFinished":30},"status":{"conditions":[
              {"type":"Complete","status":"True","lastTransitionTime":")" +
              time_text(rig.now, {}) + R"("}]}})");
  rig.put("events", R"({"metadata":{"name":"e","namespace":"n"},"lastTimestamp":")" + time_text(rig.now, {}) + R"("})");
  rig.advance(seconds(29));
  EXPECT_EQ(rig.names(kCronJobs).size(), 1u);
  rig.advance(seconds(2));
  EXPECT_TRUE(rig.names(kCronJobs).empty());
  EXPECT_EQ(rig.names("events").size(), 1u);
  rig.advance(hours(1));
  EXPECT_TRUE(rig.names("events").empty());
}

TEST(TaintEvictions, PodsGoWhenTheyDoNotBearIt) {
  WorkloadRig rig({taint_eviction_controller()});
  rig.put(
      "pods",
      R"({"metadata":{"name":"plain","namespace":"n"},"spec":{"nodeName":"node1","containers":[]},"status":{"phase":"Running"}})");
  rig.put("pods", R"({"metadata":{"name":"patient","namespace":"n"},"spec":{"nodeName":"node1","containers":[],
      "tolerations":[{"key":"k","operator":"Exists","tolerationSeconds":60}]},"status":{"phase":"Running"}})");
  rig.put("pods", R"({"metadata":{"name":"loyal","namespace":"n"},"spec":{"nodeName":"node1","containers":[],
      "tolerations":[{"operator":"Exists"}]},"status":{"phase":"Running"}})");
  rig.put("nodes", R"({"metadata":{"name":"node1"},"spec":{"taints":[{"key":"k","value":"v","effect":"NoExecute"}]}})");
  rig.run();
  EXPECT_EQ(rig.names("pods"), (std::vector<std::string>{"loyal", "patient"}));
  rig.advance(seconds(59));
  EXPECT_EQ(rig.names("pods").size(), 2u);
  rig.linger = true;
  rig.advance(seconds(3));
  EXPECT_TRUE(is_deleting(*rig.find("pods", "patient")) && !is_deleting(*rig.find("pods", "loyal")));
  EXPECT_EQ(rig.condition("pods", "patient", "DisruptionTarget"), "True DeletionByTaintManager");
}

TEST(CronJobs, ANameThatIsTakenIsToldAndTriedAgain) {
  WorkloadRig rig({cron_job_controller()});
  rig.put(kCrons, cron(R"("concurrencyPolicy":"Allow",)"));
  const auto next = rig.now.us / 60'000'000 + 1;
  const std::string name = "tick-" + std::to_string(next);
  rig.put(kCronJobs, R"({"metadata":{"name":")" + name + R"(","namespace":"n"},"spec":{}})");
  rig.advance(seconds(61));
  EXPECT_EQ(
      std::ranges::count(rig.events(), "FailedCreate: Error creating job: jobs.batch \"" + name + "\" already exists"),
      1);
  EXPECT_EQ(text_in(rig.status(kCrons, "tick"), "lastScheduleTime"), "");
  rig.remove(kCronJobs, name.c_str());
  rig.run();
  ASSERT_NE(rig.find(kCronJobs, name), nullptr);
  EXPECT_NE(controller_ref(*rig.find(kCronJobs, name)), nullptr);
}

}  // namespace
}  // namespace lockstep::kube
