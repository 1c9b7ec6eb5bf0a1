#include "model/job.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

struct Growth : testing::Test {
  MiniCore core;
  Driver driver;
  Instant now = kNow;

  void SetUp() override {
    core.add_partition("main", {"ALL"});
    for (std::uint32_t n = 1; n <= 3; ++n) core.add_node(n, 8, 8);
  }
  // Tasks of one device each.
  static JobSpec elastic(std::uint32_t min, std::uint32_t max, Duration limit = hours(1)) {
    JobSpec spec = ask(1, 0, limit);
    GroupSpec& group = spec.groups[0];
    group.launch = Launch::kTasks;
    group.restart = RestartRule::kOnFailure;
    group.nodes = {};
    group.tasks = {min, max};
    group.per_task.devices = {{.count = 1}};
    return spec;
  }
  std::size_t run() { return driver.run(core, now); }
  std::uint32_t tasks(JobId id) const { return core.tasks_of(id); }
};

TEST_F(Growth, it_takes_what_becomes_free_up_to_its_most) {
  const JobId big = core.add_job(ask(2, 8, hours(1)), 2);
  const JobId id = core.add_job(elastic(2, 20));
  run();
  EXPECT_EQ(tasks(id), 8u);
  core.end(big);
  run();
  EXPECT_EQ(tasks(id), 20u);
}

TEST_F(Growth, whoever_waits_goes_first) {
  const JobId big = core.add_job(ask(2, 8, hours(1)), 2);
  const JobId id = core.add_job(elastic(2, 20));
  run();
  const JobId next = core.add_job(ask(1, 8, hours(1)), 1);
  run();
  core.end(big);
  run();
  EXPECT_EQ(core.tables.job(next)->state, JobState::kRunning);
  EXPECT_EQ(tasks(id), 16u);
}

TEST_F(Growth, not_into_what_a_head_waits_for_beyond_its_time) {
  const JobId one = core.add_job(ask(1, 8, hours(1)), 5);
  core.add_job(ask(1, 8, hours(2)), 4);
  const JobId longer = core.add_job(elastic(2, 24, hours(10)), 3);
  run();
  ASSERT_EQ(tasks(longer), 8u);
  const JobId head = core.add_job(ask(2, 8, hours(1)), 9);
  run();
  core.end(one);
  run();
  EXPECT_EQ(tasks(longer), 8u) << "it would outlast the head's wait";
  EXPECT_EQ(core.tables.job(head)->state, JobState::kPending);
}

TEST_F(Growth, what_ends_before_a_head_can_start_may_use_its_place) {
  const JobId one = core.add_job(ask(1, 8, hours(1)), 5);
  core.add_job(ask(1, 8, hours(20)), 4);
  const JobId shorter = core.add_job(elastic(2, 24, hours(10)), 3);
  run();
  core.add_job(ask(3, 8, hours(1)), 9);
  run();
  core.end(one);
  run();
  EXPECT_EQ(tasks(shorter), 16u);
}

TEST_F(Growth, the_higher_one_grows_first_and_limits_bound_it) {
  Qos qos;
  qos.meta.name = "bounded";
  qos.limits.grp_tres.gpus = 5;
  core.put(qos);
  const JobId big = core.add_job(ask(3, 7, hours(1)), 9);
  run();
  JobSpec spec = elastic(1, 2);
  const JobId low = core.add_job(elastic(1, 30), 1);
  const JobId high = core.add_job(spec, 2);
  run();
  ASSERT_EQ(tasks(high), 2u);
  ASSERT_EQ(tasks(low), 1u);
  core.end(high);
  core.end(big);
  spec.groups[0].tasks = {1, 10};
  spec.qos = "bounded";
  const JobId bounded = core.add_job(spec, 2);
  run();
  EXPECT_EQ(tasks(bounded), 5u) << "it starts with what the limit leaves";
  EXPECT_EQ(tasks(low), 19u);
  qos.limits.grp_tres.gpus = 7;
  core.put(qos);
  core.end(low);
  run();
  EXPECT_EQ(tasks(bounded), 7u) << "and grows with the limit";
}

TEST_F(Growth, a_node_cap_and_a_cap_on_nodes_hold) {
  const JobId big = core.add_job(ask(2, 8, hours(1)), 2);
  JobSpec spec = elastic(1, 20);
  spec.groups[0].tasks_per_node = 3;
  spec.groups[0].nodes = {0, 2};
  const JobId id = core.add_job(spec);
  run();
  EXPECT_EQ(tasks(id), 3u);
  core.end(big);
  run();
  EXPECT_EQ(tasks(id), 6u);
}

TEST_F(Growth, what_a_topology_binds_grows_where_it_is_bound) {
  for (const int bound : {0, 1, 2}) {
    SCOPED_TRACE(bound);
    core = {};
    driver.~Driver();
    new (&driver) Driver;
    Topology topology;
    topology.levels = {"spine", "leaf"};
    core.put(topology);
    core.add_partition("main", {"ALL"});
    std::vector<JobId> there{{}};
    for (std::uint32_t n = 1; n <= 4; ++n) {
      core.add_node(n, 8, 8, {"s", n <= 2 ? "a" : "b"});
      JobSpec spec = ask(1, 8, hours(1));
      spec.groups[0].only_nodes = {format("n{}", n)};
      if (n > 1)
        there.push_back(core.add_job(spec, 9));
    }
    JobSpec spec = elastic(2, 32);
    if (bound == 0)
      spec.groups[0].topology_level = "!leaf";
    else
      spec.groups[0].switches_max = static_cast<std::uint32_t>(bound);
    spec.groups[0].switches_wait = kForever;
    const JobId id = core.add_job(spec);
    run();
    ASSERT_EQ(tasks(id), 8u);
    core.end(there[2]);
    run();
    EXPECT_EQ(tasks(id), bound == 2 ? 16u : 8u);
    core.end(there[1]);
    core.end(there[3]);
    run();
    EXPECT_EQ(tasks(id), bound == 2 ? 32u : 16u);
  }
}

TEST_F(Growth, daemons_come_to_new_nodes) {
  JobSpec spec = elastic(1, UINT32_MAX, kForever);
  spec.groups[0].per_task.devices.clear();
  const JobId id = core.add_job(spec);
  run();
  EXPECT_EQ(tasks(id), 3u);
  core.add_node(4, 8, 8);
  run();
  EXPECT_EQ(tasks(id), 4u);
}

// Jobs come, go and are lost; a planner made from the records proposes the same as the one that saw it all.
TEST_F(Growth, a_rebuilt_planner_grows_the_same) {
  std::size_t grown = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    core = {};
    driver = {};
    SetUp();
    Rng rng(seed);
    now = kNow;
    if (rng.chance(0.5)) {
      Qos qos;
      qos.meta.name = "bounded";
      qos.limits.grp_tres.gpus = static_cast<std::int64_t>(rng.between(4, 12));
      core.put(qos);
    }
    for (int i = 0; i < 40 && !HasFailure(); ++i) {
      now = now + seconds(rng.between(0, 5));
      if (rng.chance(0.6)) {
        const auto least = static_cast<std::uint32_t>(rng.between(1, 4));
        JobSpec spec =
            elastic(least, least + static_cast<std::uint32_t>(rng.between(0, 12)), seconds(rng.between(5, 60)));
        if (rng.chance(0.5))
          spec = random_ask(rng);
        else if (rng.chance(0.3))
          spec.groups[0].nodes = {0, 2};
        spec.partitions = {};
        if (core.tables.qos_named("bounded") && rng.chance(0.5))
          spec.qos = "bounded";
        core.add_job(spec, static_cast<std::uint64_t>(rng.between(1, 3)));
      }
      std::vector<JobId> ending;
      for (const auto& [id, job] : core.tables.jobs)
        if (job->state == JobState::kRunning && (job->limit_end <= now || rng.chance(0.1)))
          ending.push_back(id);
      for (const JobId id : ending) core.end(id);
      driver.planner.observe(core.drain());
      for (int round = 0; round < 20; ++round) {
        Driver rebuilt;
        rebuilt.planner.observe(core.tables.snapshot());
        const auto there = rebuilt.pass(now);
        const auto here = driver.pass(now);
        ASSERT_EQ(there.size(), here.size());
        for (std::size_t n = 0; n < here.size(); ++n) EXPECT_EQ(there[n].grants, here[n].grants);
        ASSERT_EQ(rebuilt.growths.size(), driver.growths.size()) << "step " << i << " round " << round;
        for (std::size_t n = 0; n < driver.growths.size(); ++n) {
          EXPECT_EQ(rebuilt.growths[n].job, driver.growths[n].job);
          EXPECT_EQ(rebuilt.growths[n].grants, driver.growths[n].grants);
        }
        grown += here.empty() ? driver.growths.size() : 0;
        const bool any = !here.empty() || !driver.growths.empty();
        for (const PlannedStart& start : here) core.start(start, now);
        for (const PlannedGrowth& growth : driver.growths) core.grow(growth, now);
        driver.planner.observe(core.drain());
        driver.planner.settled();
        if (!any)
          break;
      }
    }
  }
  EXPECT_GT(grown, 50u);
}

}  // namespace
}  // namespace lockstep
