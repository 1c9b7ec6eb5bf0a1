#include "rules/preempt.h"

#include <gtest/gtest.h>

#include "model/job.h"
#include "model/records.h"
#include "model/spec.h"

namespace lockstep {
namespace {

struct Preempt : testing::Test {
  Directory directory;
  Partition low_tier, high_tier;
  Instant now{1'000'000'000};

  void SetUp() override {
    low_tier.meta.name = "low";
    high_tier.meta.name = "high";
    high_tier.tier = 2;
  }
  template <class T>
  void put(T record) {
    directory.apply_directory({1, Ref<T>(std::make_shared<T>(std::move(record))), false});
  }
  void qos(const std::string& name, std::vector<std::string> preempts = {}, bool scavenger = false) {
    Qos record;
    record.meta.name = name;
    record.preempts = std::move(preempts);
    record.scavenger = scavenger;
    put(record);
  }
  static JobSpec spec(const std::string& qos) {
    JobSpec out;
    out.qos = qos;
    GroupSpec group;
    group.launch = Launch::kScript;
    out.groups = {group};
    return out;
  }
  Job running(const std::string& qos, std::uint32_t gpus = 0) {
    Job job;
    job.id = JobId{7};
    job.spec = std::make_shared<JobSpec>(spec(qos));
    job.state = JobState::kRunning;
    job.started = now - seconds(100);
    auto allocation = std::make_shared<Allocation>();
    Grant grant;
    grant.tasks = 1;
    grant.cores = CoreSet::first_n(8);
    grant.devices = DeviceSet::first_n(gpus);
    allocation->grants = {grant};
    job.allocation = allocation;
    return job;
  }
  bool may(const std::string& qos, const Partition& from, const Job& victim, const Partition& where) {
    const JobSpec asks = spec(qos);
    return PreemptRight(directory, asks, from, nullptr, {}).against(victim, &where).has_value();
  }
};

TEST_F(Preempt, no_two_jobs_may_preempt_each_other) {
  qos("spare", {"gold"}, true);
  qos("gold", {"silver"});
  qos("silver", {"bronze"});
  qos("bronze");
  for (const bool by_tier : {false, true}) {
    Policy policy;
    policy.preempt_by_tier = by_tier;
    put(policy);
    const char* names[] = {"spare", "gold", "silver", "bronze", ""};
    for (const char* a : names)
      for (const char* b : names)
        for (const Partition* pa : {&low_tier, &high_tier})
          for (const Partition* pb : {&low_tier, &high_tier})
            EXPECT_FALSE(may(a, *pa, running(b), *pb) && may(b, *pb, running(a), *pa)) << a << " " << b;
  }
}

TEST_F(Preempt, runs_of_health_checks_go_for_everybody_at_once) {
  Qos exempt;
  exempt.meta.name = "slow";
  exempt.grace = exempt.preempt_exempt = minutes(10);
  put(exempt);
  Job run = running("slow");
  JobSpec checks = spec("slow");
  checks.health_check = "gpus";
  checks.requeue = true;
  run.spec = std::make_shared<JobSpec>(checks);
  EXPECT_FALSE(PreemptRight(directory, spec("slow"), low_tier, nullptr, {}).any());
  HealthCheck check;
  check.meta.name = "gpus";
  put(check);
  qos("spare", {}, true);
  EXPECT_TRUE(preemption_is_on(directory));
  for (const char* asker : {"spare", "slow", ""}) {
    const JobSpec asks = spec(asker);
    const auto terms = PreemptRight(directory, asks, low_tier, nullptr, {}).against(run, &high_tier);
    ASSERT_TRUE(terms) << asker;
    EXPECT_EQ(terms->mode, PreemptMode::kCancel);
    EXPECT_EQ(terms->grace, Duration{});
    EXPECT_EQ(terms->from, Instant{});
  }
  EXPECT_FALSE(may("slow", low_tier, running("slow"), low_tier));
  EXPECT_LT(loss_of(directory, run, PreemptMode::kCancel, now),
            loss_of(directory, running("spare"), PreemptMode::kCancel, now));
}

TEST_F(Preempt, scavengers_then_tiers_then_qos) {
  qos("spare", {}, true);
  qos("gold", {"silver"});
  qos("silver");
  EXPECT_TRUE(may("silver", low_tier, running("spare"), high_tier));
  EXPECT_TRUE(may("gold", low_tier, running("silver"), high_tier));
  EXPECT_FALSE(may("", high_tier, running("silver"), low_tier));
  Policy policy;
  policy.preempt_by_tier = true;
  put(policy);
  EXPECT_FALSE(may("gold", low_tier, running("silver"), high_tier));
  EXPECT_TRUE(may("", high_tier, running("silver"), low_tier));
  EXPECT_TRUE(may("silver", low_tier, running("spare"), high_tier));
}

TEST_F(Preempt, the_mode_comes_from_qos_then_partition_then_policy) {
  qos("gold", {"silver"});
  qos("silver");
  const JobSpec asks = spec("gold");
  const PreemptRight right(directory, asks, low_tier, nullptr, {});
  Job victim = running("silver");
  EXPECT_EQ(right.against(victim, &low_tier)->mode, PreemptMode::kRequeue);
  low_tier.preempt_mode = PreemptMode::kSuspend;
  low_tier.grace = seconds(9);
  EXPECT_EQ(right.against(victim, &low_tier)->mode, PreemptMode::kSuspend);
  EXPECT_EQ(right.against(victim, &low_tier)->grace, seconds(9));
  Qos silver = *directory.qos_named("silver");
  silver.preempt_mode = PreemptMode::kOff;
  put(silver);
  EXPECT_FALSE(right.against(victim, &low_tier));
  silver.preempt_mode = PreemptMode::kRequeue;
  silver.preempt_exempt = seconds(200);
  put(silver);
  JobSpec once = *victim.spec;
  once.requeue = false;
  victim.spec = std::make_shared<JobSpec>(once);
  EXPECT_EQ(right.against(victim, &low_tier)->mode, PreemptMode::kCancel);
  EXPECT_EQ(right.against(victim, &low_tier)->from, now + seconds(100));
}

TEST_F(Preempt, work_is_counted_from_the_last_checkpoint) {
  Job victim = running("", 4);
  EXPECT_EQ(loss_of(directory, victim, PreemptMode::kRequeue, now).work, 400'000);
  victim.checkpointed = now - seconds(10);
  EXPECT_EQ(loss_of(directory, victim, PreemptMode::kRequeue, now).work, 40'000);
  EXPECT_EQ(loss_of(directory, victim, PreemptMode::kSuspend, now).work, 0);
  EXPECT_EQ(loss_of(directory, running(""), PreemptMode::kRequeue, now).work, 50'000);
  qos("spare", {}, true);
  EXPECT_LT(loss_of(directory, running("spare", 8), PreemptMode::kCancel, now),
            loss_of(directory, running("", 1), PreemptMode::kCancel, now));
}

}  // namespace
}  // namespace lockstep
