#include "model/job.h"
#include "rules/awaited.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

struct Preempting : testing::Test {
  MiniCore core;
  Driver driver;
  Instant now = kNow;

  void SetUp() override {
    core.add_partition("main", {"ALL"});
    core.add_node(1, 8, 8);
    core.add_node(2, 8, 8);
  }
  JobId add(const std::string& qos, std::uint32_t nodes, std::uint32_t devices, Duration limit = hours(1),
            std::uint64_t priority = 1) {
    JobSpec spec = ask(nodes, devices, limit);
    spec.groups[0].launch = Launch::kScript;
    spec.qos = qos;
    return core.add_job(spec, priority);
  }
  std::size_t run() { return driver.run(core, now); }
  JobState state(JobId id) const { return core.tables.job(id)->state; }
  // A planner made from the records proposes the same as this one.
  void expect_law() {
    driver.planner.observe(core.drain());
    Driver rebuilt;
    rebuilt.planner.observe(core.tables.snapshot());
    const auto there = rebuilt.pass(now);
    const auto here = driver.pass(now);
    ASSERT_EQ(there.size(), here.size());
    ASSERT_EQ(rebuilt.preemptions.size(), driver.preemptions.size());
    for (std::size_t i = 0; i < here.size(); ++i) {
      EXPECT_EQ(there[i].job, here[i].job);
      EXPECT_EQ(there[i].grants, here[i].grants);
    }
    for (std::size_t i = 0; i < driver.preemptions.size(); ++i) {
      EXPECT_EQ(rebuilt.preemptions[i].job, driver.preemptions[i].job);
      EXPECT_EQ(rebuilt.preemptions[i].grants, driver.preemptions[i].grants);
      EXPECT_EQ(rebuilt.preemptions[i].victims, driver.preemptions[i].victims);
    }
    ASSERT_EQ(rebuilt.resumes.size(), driver.resumes.size());
    ASSERT_EQ(rebuilt.promises.size(), driver.promises.size());
    for (const PlannedStart& start : here) core.start(start, now);
    for (const PlannedPromise& promise : driver.promises) core.promise(promise);
    for (const PlannedPreemption& preemption : driver.preemptions) core.preempt(preemption, now);
    for (const PlannedResume& resume : driver.resumes) core.resume(resume);
    for (const PlannedGrowth& growth : driver.growths) core.grow(growth, now);
    driver.planner.observe(core.drain());
    driver.planner.settled();
  }
};

TEST_F(Preempting, a_blocked_job_takes_the_place_of_the_one_that_lost_the_least) {
  core.add_qos("low");
  core.add_qos("high", {"low"});
  const JobId old = add("low", 1, 8);
  run();
  now = now + minutes(10);
  const JobId young = add("low", 1, 8);
  run();
  now = now + minutes(1);
  const JobId urgent = add("high", 1, 8);
  run();
  EXPECT_EQ(state(urgent), JobState::kRunning);
  EXPECT_EQ(state(old), JobState::kRunning);
  EXPECT_EQ(state(young), JobState::kPending);
}

TEST_F(Preempting, a_run_of_a_health_check_goes_for_any_job_at_once) {
  HealthCheck check;
  check.meta.name = "gpus";
  core.put(check);
  const JobId work = add("", 1, 8);
  run();
  JobSpec spec = ask(1, 8, minutes(5));
  spec.groups[0].launch = Launch::kTasks;
  spec.requeue = false;
  spec.health_check = "gpus";
  const JobId checks = core.add_job(spec);
  run();
  ASSERT_EQ(state(checks), JobState::kRunning);
  const JobId user = add("", 1, 8);
  run();
  EXPECT_EQ(state(user), JobState::kRunning);
  EXPECT_EQ(state(work), JobState::kRunning);
  EXPECT_EQ(core.preempted, (std::map<JobId, int>{{checks, 1}}));
}

TEST_F(Preempting, nobody_goes_while_nodes_are_about_to_answer) {
  core.add_qos("low");
  core.add_qos("high", {"low"});
  const JobId victim = add("low", 1, 8);
  run();
  const NodeId busy = core.tables.job(victim)->allocation->grants[0].node;
  for (const std::uint32_t id : {1u, 2u}) core.await(id, now);
  core.answer(busy.value);
  const JobId urgent = add("high", 1, 8);
  EXPECT_EQ(run(), 0u);
  EXPECT_TRUE(core.preempted.empty());
  core.answer(3 - busy.value);
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(state(urgent), JobState::kRunning);
  EXPECT_TRUE(core.preempted.empty());
}

// One that breaks later does not begin it anew.
TEST_F(Preempting, a_node_that_does_not_answer_holds_it_up_for_a_moment_only) {
  core.add_qos("low");
  core.add_qos("high", {"low"});
  const JobId one = add("low", 1, 8), two = add("low", 1, 8);
  run();
  const NodeId away = core.tables.job(one)->allocation->grants[0].node;
  core.await(away.value, now);
  const JobId urgent = add("high", 1, 8);
  EXPECT_EQ(run(), 0u);
  EXPECT_TRUE(core.preempted.empty());
  EXPECT_EQ(driver.planner.wake_at(), now + kAwaitedBeforeOthersGo);
  now = now + seconds(6);
  core.add_node(3, 1, 0);
  core.await(3, now);
  EXPECT_EQ(run(), 0u);
  EXPECT_TRUE(core.preempted.empty());
  now = now + seconds(1);
  expect_law();
  run();
  EXPECT_TRUE(core.preempted.contains(two));
  EXPECT_FALSE(core.preempted.contains(one)) << "nobody can take its place";
  run();
  EXPECT_EQ(state(urgent), JobState::kRunning);
}

TEST_F(Preempting, nobody_goes_for_a_job_without_the_right) {
  core.add_qos("low");
  core.add_qos("high", {"low"});
  add("high", 2, 8);
  run();
  const JobId same = add("high", 1, 8), low = add("low", 1, 8);
  EXPECT_EQ(run(), 0u);
  EXPECT_TRUE(core.preempted.empty());
  EXPECT_EQ(state(same), JobState::kPending);
  EXPECT_EQ(state(low), JobState::kPending);
}

TEST_F(Preempting, what_is_held_during_the_grace_goes_to_nobody_else) {
  core.add_qos("low", {}, PreemptMode::kRequeue, minutes(5));
  core.add_qos("high", {"low"});
  const JobId a = add("low", 1, 8), b = add("low", 1, 8);
  run();
  const JobId urgent = add("high", 1, 8);
  run();
  EXPECT_EQ(state(urgent), JobState::kPending);
  ASSERT_NE(core.tables.job(urgent)->promise, nullptr);
  EXPECT_EQ(driver.planner.expected_start(urgent), now + minutes(5));
  const JobId victim = core.tables.job(a)->eviction ? a : b;
  // The victim ends early; a job of the highest priority comes at the same moment.
  core.end(victim);
  const JobId quick = add("high", 1, 4, seconds(10), 1000);
  run();
  EXPECT_EQ(state(urgent), JobState::kRunning);
  EXPECT_EQ(core.preempted.size(), 2u);  // it has a right of its own, to the other one
  EXPECT_EQ(state(quick), JobState::kPending);
}

// The node's load is not the sum of its holders then.
TEST_F(Preempting, who_must_have_a_node_that_is_held_for_another_is_foreseen_behind_both) {
  core.add_qos("low", {}, PreemptMode::kRequeue, minutes(5));
  core.add_qos("high", {"low"});
  add("low", 2, 8, hours(3));
  run();
  const JobId urgent = add("high", 1, 8, hours(2));
  run();
  ASSERT_EQ(core.tables.job(urgent)->promise->grants.size(), 1u);
  JobSpec spec = ask(1, 8, minutes(10));
  spec.qos = "low";
  spec.groups[0].only_nodes = {format("n{}", core.tables.job(urgent)->promise->grants[0].node.value)};
  const JobId behind = core.add_job(spec);
  run();
  EXPECT_EQ(driver.planner.expected_start(urgent), now + minutes(5));
  EXPECT_GE(driver.planner.expected_start(behind), now + hours(2) + minutes(5));
}

// Together they hold twice the memory of the node that one leaves for the other.
TEST_F(Preempting, who_asks_for_no_memory_may_be_foreseen_beside_those_who_hold_all_of_it) {
  core.add_qos("low", {}, PreemptMode::kRequeue, minutes(5));
  core.add_qos("high", {"low"});
  const auto whole_memory = [&](const std::string& qos) {
    JobSpec spec = ask(1, 4, hours(10), 4);
    spec.qos = qos;
    spec.groups[0].all_memory = true;
    spec.groups[0].only_nodes = {"n1"};
    return core.add_job(spec);
  };
  whole_memory("low");
  run();
  add("high", 1, 8, minutes(2));
  run();
  const JobId urgent = whole_memory("high");
  run();
  ASSERT_NE(core.tables.job(urgent)->promise, nullptr);
  const JobId wide = add("low", 2, 4);
  run();
  EXPECT_EQ(driver.planner.expected_start(wide), now + minutes(2));
}

TEST_F(Preempting, it_starts_elsewhere_when_there_is_room_sooner) {
  core.add_qos("low", {}, PreemptMode::kRequeue, minutes(5));
  core.add_qos("other");
  core.add_qos("high", {"low"});
  const JobId a = add("low", 1, 8), b = add("other", 1, 8);
  run();
  const JobId urgent = add("high", 1, 8);
  run();
  ASSERT_NE(core.tables.job(a)->eviction, nullptr);
  core.end(b);
  run();
  EXPECT_EQ(state(urgent), JobState::kRunning);
}

TEST_F(Preempting, there_is_no_loop) {
  core.add_qos("low");
  core.add_qos("high", {"low"});
  const JobId a = add("low", 2, 8, hours(1), 1000);
  run();
  const JobId b = add("high", 1, 8, minutes(30));
  for (int second = 0; second < 600; ++second) {
    now = now + seconds(1);
    run();
  }
  EXPECT_EQ(core.preempted[a], 1);
  EXPECT_EQ(core.preempted.count(b), 0u);
  EXPECT_EQ(state(b), JobState::kRunning);
  EXPECT_EQ(state(a), JobState::kPending);  // it needs both nodes
}

TEST_F(Preempting, scavengers_go_for_everybody) {
  Qos spare;
  spare.meta.name = "spare";
  spare.scavenger = true;
  core.put(spare);
  const JobId a = add("spare", 1, 8, hours(1), 1000), b = add("", 1, 8);
  run();
  const JobId c = add("", 1, 8), d = add("spare", 1, 1);
  run();
  EXPECT_EQ(state(a), JobState::kPending);
  EXPECT_EQ(state(b), JobState::kRunning);
  EXPECT_EQ(state(c), JobState::kRunning);
  EXPECT_EQ(state(d), JobState::kPending);
}

TEST_F(Preempting, scavengers_wait_behind_everybody) {
  Qos spare;
  spare.meta.name = "spare";
  const JobId a = add("", 2, 8), b = add("spare", 2, 8, hours(1), 1000), c = add("", 2, 8);
  core.put(spare);
  run();
  EXPECT_EQ(state(b), JobState::kRunning);
  spare.scavenger = true;
  core.put(spare);
  core.end(b);
  run();
  EXPECT_EQ(state(a), JobState::kRunning);
  const JobId d = add("spare", 2, 8, hours(1), 1000);
  core.end(a);
  run();
  EXPECT_EQ(state(c), JobState::kRunning);
  EXPECT_EQ(state(d), JobState::kPending);
}

TEST_F(Preempting, exempt_jobs_go_when_their_time_is_over) {
  core.add_qos("low");
  core.add_qos("high", {"low"});
  Policy policy;
  policy.preempt_exempt = minutes(5);
  core.put(policy);
  add("low", 2, 8);
  run();
  const JobId urgent = add("high", 1, 8);
  run();
  EXPECT_EQ(state(urgent), JobState::kPending);
  EXPECT_LE(driver.planner.wake_at(), now + minutes(5));
  now = now + minutes(5);
  for (const PlannedStart& start : driver.pass(now)) core.start(start, now);
  ASSERT_EQ(driver.preemptions.size(), 1u);
  core.preempt(driver.preemptions[0], now);
  driver.planner.observe(core.drain());
  driver.planner.settled();
  run();
  EXPECT_EQ(state(urgent), JobState::kRunning);
}

TEST_F(Preempting, a_suspended_job_goes_on_when_its_place_is_free) {
  core.add_qos("low", {}, PreemptMode::kSuspend);
  core.add_qos("high", {"low"});
  const JobId a = add("low", 2, 8);
  run();
  const JobId b = add("high", 1, 8);
  run();
  EXPECT_EQ(state(a), JobState::kSuspended);
  EXPECT_EQ(state(b), JobState::kPending);  // no node has said that it has stopped
  expect_law();
  core.confirm_pauses();
  expect_law();
  run();
  EXPECT_EQ(state(b), JobState::kRunning);
  const JobId c = add("low", 1, 8);  // may use what is free meanwhile
  run();
  EXPECT_EQ(state(c), JobState::kRunning);
  core.end(b);
  run();
  EXPECT_EQ(state(a), JobState::kSuspended);
  core.end(c);
  run();
  EXPECT_EQ(state(a), JobState::kRunning);
}

TEST_F(Preempting, a_suspended_job_goes_on_before_those_of_lower_rank_who_wait) {
  core.add_qos("low", {}, PreemptMode::kSuspend);
  core.add_qos("high", {"low"});
  const JobId a = add("low", 2, 8);
  run();
  const JobId b = add("high", 2, 8);
  run();
  core.confirm_pauses();
  run();
  ASSERT_EQ(state(a), JobState::kSuspended);
  ASSERT_EQ(state(b), JobState::kRunning);
  // They came later: one is the partition's head, one would fit beside it.
  const JobId wide = add("low", 2, 8), narrow = add("low", 1, 8);
  run();
  core.end(b);
  expect_law();
  run();
  EXPECT_EQ(state(a), JobState::kRunning);
  EXPECT_EQ(state(wide), JobState::kPending);
  EXPECT_EQ(state(narrow), JobState::kPending);
  core.end(a);
  run();
  EXPECT_EQ(state(wide), JobState::kRunning);
}

TEST_F(Preempting, a_head_is_promised_room_that_no_suspended_job_comes_back_to) {
  core.add_node(3, 8, 8);
  core.add_qos("low", {}, PreemptMode::kSuspend);
  core.add_qos("high", {"low"});
  const JobId endless = add("low", 1, 8, kForever);
  run();
  add("high", 1, 8, minutes(30));
  add("high", 1, 8, minutes(20));
  run();
  const JobId in_its_place = add("high", 1, 8, minutes(10));
  run();
  core.confirm_pauses();
  run();
  ASSERT_EQ(state(endless), JobState::kSuspended);
  ASSERT_EQ(state(in_its_place), JobState::kRunning);
  const JobId head = add("low", 2, 8);
  run();
  EXPECT_EQ(driver.planner.expected_start(head), now + minutes(30)) << "not beside it in 20, to wait for its end";
  core.end(in_its_place);
  run();
  EXPECT_EQ(state(endless), JobState::kRunning);
  EXPECT_EQ(driver.planner.expected_start(head), now + minutes(30));
}

// It waits for memory that the suspended job has kept, which waits for the cores that are kept for it.
TEST_F(Preempting, who_outranks_a_suspended_job_does_not_wait_for_what_only_its_end_gives) {
  core.add_qos("low", {}, PreemptMode::kSuspend);
  core.add_qos("high", {"low"});
  const auto with_memory = [&](const std::string& qos, std::uint32_t devices, std::int64_t memory_mb, Duration limit) {
    JobSpec spec = ask(1, devices, limit);
    spec.qos = qos;
    spec.groups[0].launch = Launch::kScript;
    spec.groups[0].per_node.memory_mb = memory_mb;
    spec.groups[0].only_nodes = {"n1"};
    return core.add_job(spec);
  };
  for (const Duration limit : {kForever, hours(3)}) {
    const JobId low = with_memory("low", 8, 600, limit);
    run();
    const JobId high = with_memory("high", 8, 100, hours(1));
    run();
    core.confirm_pauses();
    run();
    ASSERT_EQ(state(low), JobState::kSuspended);
    ASSERT_EQ(state(high), JobState::kRunning);
    const JobId head = with_memory("high", 1, 700, hours(1));
    run();
    core.end(high);
    expect_law();
    run();
    EXPECT_EQ(state(low), JobState::kRunning);
    EXPECT_EQ(state(head), JobState::kPending);
    core.end(low);
    run();
    EXPECT_EQ(state(head), JobState::kRunning);
    core.end(head);
    run();
  }
}

TEST_F(Preempting, who_outranks_a_suspended_job_goes_first) {
  core.add_qos("low", {}, PreemptMode::kSuspend);
  core.add_qos("high", {"low"});
  const JobId a = add("low", 2, 8);
  run();
  const JobId b = add("high", 2, 8);
  run();
  core.confirm_pauses();
  run();
  const JobId urgent = add("low", 2, 8, hours(1), 5);
  run();
  core.end(b);
  run();
  EXPECT_EQ(state(a), JobState::kSuspended);
  ASSERT_EQ(state(urgent), JobState::kRunning);
  core.end(urgent);
  run();
  EXPECT_EQ(state(a), JobState::kRunning);
}

TEST_F(Preempting, what_a_suspended_job_waits_for_is_lent_to_those_that_are_over_by_then) {
  core.add_qos("low", {}, PreemptMode::kSuspend);
  core.add_qos("high", {"low"});
  const JobId a = add("low", 2, 8, hours(9));
  run();
  const JobId b = add("high", 1, 8, hours(1));
  run();
  core.confirm_pauses();
  run();
  ASSERT_EQ(state(a), JobState::kSuspended);
  const JobId longer = add("low", 1, 8, hours(2)), shorter = add("low", 1, 8, minutes(30));
  run();
  EXPECT_EQ(state(longer), JobState::kPending);
  EXPECT_EQ(state(shorter), JobState::kRunning);
  core.end(shorter);
  run();
  EXPECT_EQ(state(longer), JobState::kPending);
  core.end(b);
  run();
  EXPECT_EQ(state(a), JobState::kRunning);
  EXPECT_EQ(state(longer), JobState::kPending);
}

TEST_F(Preempting, an_elastic_job_gives_up_what_it_can_do_without) {
  core.add_qos("low");
  core.add_qos("high", {"low"});
  JobSpec spec = ask(1, 0, hours(1));
  GroupSpec& group = spec.groups[0];
  group.launch = Launch::kTasks;
  group.restart = RestartRule::kOnFailure;
  group.nodes = {};
  group.tasks = {8, 64};
  group.per_task.devices = {{.count = 1}};
  spec.qos = "low";
  const JobId elastic = core.add_job(spec);
  run();
  const std::uint32_t all = core.tasks_of(elastic);
  ASSERT_GE(all, 16u);
  now = now + minutes(10);
  const JobId urgent = add("high", 1, 8);
  expect_law();
  run();
  EXPECT_EQ(state(urgent), JobState::kRunning);
  EXPECT_EQ(state(elastic), JobState::kRunning);
  EXPECT_EQ(core.tasks_of(elastic), all - 8);
  EXPECT_EQ(core.shrunk, 1u);
  // Below its least it goes whole, if it has to go.
  for (std::uint32_t left = all - 8; left >= 8; left -= 8) {
    add("high", 1, 8);
    run();
  }
  EXPECT_EQ(state(elastic), JobState::kPending);
}

TEST_F(Preempting, guarantees_are_claimed_back) {
  const auto account = [&](const char* name) {
    Account record;
    record.meta.name = name;
    record.quota.nominal.gpus = 8;
    core.put(record);
  };
  account("ours");
  account("theirs");
  Policy policy;
  policy.preempt_for_quota = true;
  core.put(policy);
  const auto job = [&](const char* account) {
    JobSpec spec = ask(1, 8, hours(1));
    spec.account = account;
    spec.groups[0].launch = Launch::kScript;
    return core.add_job(spec);
  };
  const JobId a = job("theirs"), b = job("theirs");
  run();
  const JobId mine = job("ours");
  run();
  EXPECT_EQ(state(mine), JobState::kRunning);
  EXPECT_NE(state(a), state(b));
  const JobId more = job("ours");
  run();
  EXPECT_EQ(state(more), JobState::kPending);
}

TEST_F(Preempting, random_clusters_keep_the_law_and_come_to_rest) {
  std::uint64_t preemptions = 0, shrunk = 0;
  for (std::uint64_t seed = 1; seed <= 300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Rng rng(seed);
    core = {};
    driver.~Driver();
    new (&driver) Driver;
    now = kNow;
    core.add_partition("main", {"ALL"});
    core.add_partition("side", {"n1", "n2"}, 2);
    const auto nodes = static_cast<std::uint32_t>(rng.between(2, 5));
    for (std::uint32_t n = 1; n <= nodes; ++n) core.add_node(n, 8, 4);
    const PreemptMode modes[] = {PreemptMode::kRequeue, PreemptMode::kCancel, PreemptMode::kSuspend,
                                 PreemptMode::kCheckpoint};
    core.add_qos("low", {}, modes[rng.below(4)], seconds(rng.between(0, 20)));
    core.add_qos("middle", {"low"}, modes[rng.below(4)], seconds(rng.between(0, 3)));
    core.add_qos("high", {"middle", "low"});
    Qos spare;
    spare.meta.name = "spare";
    spare.scavenger = true;
    core.put(spare);
    Policy policy;
    policy.preempt_by_tier = rng.chance(0.3);
    policy.preempt_exempt = seconds(rng.chance(0.3) ? 10 : 0);
    core.put(policy);
    for (int round = 0; round < 20 && !testing::Test::HasFailure(); ++round) {
      now = now + seconds(rng.between(0, 4));
      core.evict_due(now);
      core.confirm_pauses(&rng);
      for (std::int64_t i = rng.between(0, 3); i > 0; --i) {
        JobSpec spec = random_ask(rng);
        spec.groups[0].launch = Launch::kScript;
        if (rng.chance(0.3)) {
          GroupSpec& group = spec.groups[0];
          group.launch = Launch::kTasks;
          group.restart = RestartRule::kOnFailure;
          group.nodes = {};
          group.tasks_per_node = 0;
          group.tasks = {1, static_cast<std::uint32_t>(rng.between(2, 6))};
        }
        if (rng.chance(0.2))
          spec.groups[0].only_nodes = {format("n{}", rng.between(1, nodes))};
        const char* names[] = {"low", "middle", "high", "spare", ""};
        spec.qos = names[rng.below(5)];
        core.add_job(spec, rng.below(4));
      }
      std::vector<JobId> running;
      for (const auto& [id, job] : core.tables.jobs)
        if (job->state == JobState::kRunning && !job->eviction)
          running.push_back(id);
      for (const JobId id : running)
        if (rng.chance(0.1))
          core.end(id);
      const auto before = core.preempted;
      for (int i = 0; i < 3 && !testing::Test::HasFailure(); ++i) expect_law();
      run();
      shrunk += std::exchange(core.shrunk, 0);
      for (const auto& [id, count] : core.preempted)
        preemptions += static_cast<std::uint64_t>(count - (before.contains(id) ? before.at(id) : 0));
    }
  }
  EXPECT_GT(preemptions, 300u);
  EXPECT_GT(shrunk, 20u);
}

}  // namespace
}  // namespace lockstep
