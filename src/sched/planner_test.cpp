#include "sched/planner.h"

#include <set>

#include "model/job.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

TEST(Planner, starts_a_job_that_fits) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  core.add_node(1, 8, 4);
  const JobId job = core.add_job(ask(1, 2, minutes(1)));
  Driver driver;
  EXPECT_EQ(driver.run(core, kNow), 1u);
  EXPECT_EQ(core.tables.job(job)->state, JobState::kRunning);
  EXPECT_TRUE(driver.planner.idle());
}

TEST(Planner, places_a_gang_whole_or_not_at_all) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  for (std::uint32_t n = 1; n <= 3; ++n) core.add_node(n, 8, 4);
  Driver driver;
  core.add_job(ask(1, 4, minutes(1)));
  EXPECT_EQ(driver.run(core, kNow), 1u);
  const JobId gang = core.add_job(ask(3, 4, minutes(1)));
  EXPECT_EQ(driver.run(core, kNow), 0u);
  EXPECT_EQ(driver.notes[gang].wait, Wait::kResources);
  EXPECT_EQ(driver.notes[gang].expected_start, kNow + minutes(1));
  EXPECT_EQ(driver.notes[gang].expected_nodes.size(), 3u);
  core.end(JobId{1});
  EXPECT_EQ(driver.run(core, kNow), 1u);
  EXPECT_EQ(core.tables.job(gang)->allocation->grants.size(), 3u);
}

TEST(Planner, fills_nodes_that_are_used_already_and_keeps_whole_ones_free) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  for (std::uint32_t n = 1; n <= 4; ++n) core.add_node(n, 8, 8);
  for (int i = 0; i < 4; ++i) core.add_job(ask(1, 2, minutes(1)));
  core.add_job(ask(3, 8, minutes(1)));
  Driver driver;
  EXPECT_EQ(driver.run(core, kNow), 5u);
}

TEST(Planner, lower_jobs_go_first_only_when_they_do_not_delay_the_head) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  core.add_node(1, 8, 8);
  core.add_node(2, 8, 8);
  core.add_job(ask(1, 8, minutes(10)));
  Driver driver;
  driver.run(core, kNow);
  const JobId head = core.add_job(ask(2, 8, minutes(10)), 100);
  const JobId fits_before = core.add_job(ask(1, 4, minutes(9)), 10);
  const JobId too_long = core.add_job(ask(1, 4, minutes(11)), 20);
  EXPECT_EQ(driver.run(core, kNow), 1u);
  EXPECT_EQ(core.tables.job(head)->state, JobState::kPending);
  EXPECT_EQ(core.tables.job(fits_before)->state, JobState::kRunning);
  EXPECT_EQ(core.tables.job(too_long)->state, JobState::kPending);
  EXPECT_EQ(driver.notes[too_long].wait, Wait::kPriority);
  core.end(JobId{1});
  core.end(fits_before);
  driver.run(core, kNow + minutes(5));
  EXPECT_EQ(core.tables.job(head)->state, JobState::kRunning);
}

// A node that is kept for a head says that it has lost devices (seeds 5205 and 6381 of the hostile sequences).
TEST(Planner, a_node_that_a_head_waits_for_may_shrink) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  core.add_node(1, 8, 8);
  core.add_node(2, 8, 8);
  const JobId first = core.add_job(ask(1, 7, minutes(10)));
  Driver driver;
  ASSERT_EQ(driver.run(core, kNow), 1u);
  const NodeId other = core.tables.job(first)->allocation->grants[0].node == NodeId{1} ? NodeId{2} : NodeId{1};
  const JobId head = core.add_job(ask(2, 2, minutes(10)), 100);
  const JobId outlasts = core.add_job(ask(1, 7, hours(1)), 10);
  EXPECT_EQ(driver.run(core, kNow), 0u);
  Node smaller = *core.tables.node(other);
  smaller.devices.resize(4);
  core.put(smaller);
  EXPECT_EQ(driver.run(core, kNow), 0u);
  core.end(first);
  EXPECT_EQ(driver.run(core, kNow), 1u);
  EXPECT_EQ(core.tables.job(head)->state, JobState::kRunning);
  EXPECT_EQ(core.tables.job(outlasts)->state, JobState::kPending);
}

// Three nodes, one of them busy for 50 minutes, and a controller that has just begun.
struct JustBegun {
  MiniCore core;
  JobId runs;
  Driver driver;
  JustBegun() {
    core.add_partition("main", {"ALL"});
    for (std::uint32_t id = 1; id <= 3; ++id) core.add_node(id, 8, 8);
    Driver before;
    runs = core.add_job(ask(1, 8, minutes(50)));
    EXPECT_EQ(before.run(core, kNow), 1u);
    EXPECT_EQ(core.tables.job(runs)->allocation->grants[0].node, NodeId{1});
    for (std::uint32_t id = 1; id <= 3; ++id) core.await(id, kNow);
    driver.planner.observe(core.tables.snapshot());
    core.drain();
  }
  std::size_t run(std::int64_t after_ms) { return driver.run(core, kNow + millis(after_ms)); }
  JobState state(JobId id) const { return core.tables.job(id)->state; }
};

TEST(Planner, a_node_that_has_not_answered_yet_is_expected_and_not_used) {
  JustBegun w;
  const JobId wide = w.core.add_job(ask(3, 8, minutes(10)), 100);
  const JobId one = w.core.add_job(ask(1, 8, minutes(10)));
  EXPECT_EQ(w.run(5), 0u);
  EXPECT_EQ(w.driver.notes[wide].wait, Wait::kResources);
  EXPECT_EQ(w.driver.planner.expected_start(wide), kNow + minutes(50));  // as before: its time does not jump
  EXPECT_EQ(w.driver.notes[one].wait, Wait::kPriority);
  EXPECT_LE(w.driver.planner.expected_start(one), kNow + minutes(2));
  w.core.answer(3);
  EXPECT_EQ(w.run(10), 1u);  // it is over in time
  EXPECT_EQ(w.core.tables.job(one)->allocation->grants[0].node, NodeId{3});
  w.core.answer(1);
  w.core.end(w.runs);
  w.core.end(one);
  EXPECT_EQ(w.run(15), 0u);
  w.core.answer(2);
  EXPECT_EQ(w.run(20), 1u);
  EXPECT_EQ(w.state(wide), JobState::kRunning);
}

TEST(Planner, what_is_first_waits_for_nodes_that_are_about_to_answer) {
  JustBegun w;
  const JobId two = w.core.add_job(ask(2, 8, minutes(10)), 100);
  const JobId one = w.core.add_job(ask(1, 8, hours(1)));
  w.core.answer(2);
  EXPECT_EQ(w.run(5), 0u);
  w.core.answer(3);
  EXPECT_EQ(w.run(10), 1u);
  EXPECT_EQ(w.state(two), JobState::kRunning);
  EXPECT_EQ(w.state(one), JobState::kPending);
}

// It is lost for good, or drained meanwhile.
TEST(Planner, nobody_expects_what_does_not_come) {
  JustBegun w;
  const JobId two = w.core.add_job(ask(2, 8, minutes(10)), 100);
  w.core.answer(2);
  EXPECT_EQ(w.run(5), 0u);
  Node lost = *w.core.tables.node(NodeId{3});
  lost.link = NodeLink::kLost;
  w.core.put(lost);
  EXPECT_EQ(w.run(30'000), 0u);
  EXPECT_EQ(w.driver.planner.expected_start(two), kNow + minutes(50));
  Node drained = *w.core.tables.node(NodeId{1});
  drained.drain = true;
  w.core.put(drained);
  EXPECT_EQ(w.run(31'000), 0u);
  EXPECT_EQ(w.driver.notes[two].wait, Wait::kNodesUnavailable);
  EXPECT_EQ(w.driver.notes[two].detail, "UnavailableNodes:n[1,3]");
}

TEST(Planner, says_why_a_job_cannot_start) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  core.add_node(1, 8, 4);
  core.add_node(2, 8, 4);
  Node down = *core.tables.node(NodeId{2});
  down.drain = true;
  core.put(down);
  Driver driver;
  const JobId two = core.add_job(ask(2, 1, minutes(1)));
  const JobId never = core.add_job(ask(1, 5, minutes(1)));
  JobSpec constrained = ask(1, 1, minutes(1));
  constrained.groups[0].constraint = "fast";
  const JobId odd = core.add_job(constrained);
  EXPECT_EQ(driver.run(core, kNow), 0u);
  EXPECT_EQ(driver.notes[two].wait, Wait::kNodesUnavailable);
  EXPECT_EQ(driver.notes[two].detail, "UnavailableNodes:n2");
  EXPECT_EQ(driver.notes[never].wait, Wait::kBadConstraints);
  EXPECT_EQ(driver.notes[odd].wait, Wait::kBadConstraints);
  Partition main = *core.tables.partition("main");
  main.up = false;
  core.put(main);
  driver.run(core, kNow);
  EXPECT_EQ(driver.notes[two].wait, Wait::kPartitionDown);
  EXPECT_EQ(driver.notes[two].detail, "");
  main.closed = true;
  core.put(main);
  driver.run(core, kNow);
  EXPECT_EQ(driver.notes[two].wait, Wait::kPartitionDown);
  EXPECT_EQ(driver.notes[two].detail, "closed");
  // Only what changed is told again.
  driver.notes.clear();
  core.add_job(ask(1, 1, minutes(1)));
  driver.run(core, kNow);
  EXPECT_EQ(driver.notes.size(), 1u);
}

TEST(Planner, a_lost_gpu_is_waited_for_as_a_node_is_that_is_down) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  core.add_node(1, 8, 4);
  Node sick = *core.tables.node(NodeId{1});
  sick.devices[2].healthy = false;
  core.put(sick);
  Driver driver;
  const JobId all = core.add_job(ask(1, 4, minutes(1))), never = core.add_job(ask(1, 5, minutes(1)));
  EXPECT_EQ(driver.run(core, kNow), 0u);
  EXPECT_EQ(driver.notes[all].wait, Wait::kNodesUnavailable);
  EXPECT_EQ(driver.notes[all].detail, "UnavailableNodes:n1");
  EXPECT_EQ(driver.notes[never].wait, Wait::kBadConstraints);
  sick.devices[2].healthy = true;
  core.put(sick);
  EXPECT_EQ(driver.run(core, kNow), 1u);
}

TEST(Planner, takes_the_first_partition_that_fits) {
  MiniCore core;
  core.add_partition("main", {"n1"});
  core.add_partition("big", {"n2"});
  core.add_node(1, 8, 0);
  core.add_node(2, 8, 8);
  JobSpec spec = ask(1, 4, minutes(1));
  spec.partitions = {"main", "big"};
  const JobId job = core.add_job(spec);
  Driver driver;
  EXPECT_EQ(driver.run(core, kNow), 1u);
  EXPECT_EQ(core.tables.job(job)->allocation->partition, "big");
}

TEST(Planner, het_groups_start_together) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  core.add_node(1, 4, 4);
  core.add_node(2, 4, 0);
  JobSpec spec = ask(1, 4, minutes(1), 4);
  spec.groups.push_back(ask(1, 0, minutes(1), 4).groups[0]);
  const JobId both = core.add_job(spec);
  Driver driver;
  EXPECT_EQ(driver.run(core, kNow), 1u);
  EXPECT_EQ(core.tables.job(both)->allocation->grants.size(), 2u);
  core.end(both);
  core.add_job(ask(1, 0, minutes(1), 1));
  EXPECT_EQ(driver.run(core, kNow), 1u);
  core.add_job(spec);
  EXPECT_EQ(driver.run(core, kNow), 0u);
  EXPECT_EQ(core.loads[NodeId{1}].occupants + core.loads[NodeId{2}].occupants, 1u);
}

TEST(Planner, array_elements_start_up_to_the_throttle) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  core.add_node(1, 16, 0);
  Job array;
  array.id = JobId{++core.last_job};
  array.spec = std::make_shared<JobSpec>(ask(1, 0, minutes(1)));
  auto state = std::make_shared<ArrayState>();
  state->asked = state->waiting = IntervalSet(0, 9);
  state->throttle = 3;
  array.array = state;
  core.put(array);
  Driver driver;
  EXPECT_EQ(driver.run(core, kNow), 3u);
  core.end(JobId{2});
  EXPECT_EQ(driver.run(core, kNow), 1u);
  EXPECT_EQ(core.tables.job(array.id)->array->waiting.text(), "4-9");
}

TEST(Planner, a_refused_start_is_tried_again_later) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  core.add_node(1, 8, 4);
  core.add_job(ask(1, 2, minutes(1)));
  Driver driver;
  driver.planner.observe(core.drain());
  EXPECT_EQ(driver.pass(kNow).size(), 1u);
  EXPECT_EQ(driver.pass(kNow).size(), 0u);  // it counts as taken
  driver.planner.settled();
  EXPECT_EQ(driver.pass(kNow).size(), 0u);
  EXPECT_TRUE(driver.planner.idle());
  EXPECT_LT(driver.planner.wake_at(), kNever);
  EXPECT_EQ(driver.pass(driver.planner.wake_at()).size(), 1u);
}

TEST(Planner, a_delayed_job_waits_for_its_time) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  core.add_node(1, 8, 4);
  Job job;
  job.id = JobId{1};
  job.spec = std::make_shared<JobSpec>(ask(1, 1, minutes(1)));
  job.begin_after = kNow + seconds(5);
  core.put(job);
  Driver driver;
  EXPECT_EQ(driver.run(core, kNow), 0u);
  EXPECT_EQ(driver.planner.wake_at(), kNow + seconds(5));
  EXPECT_EQ(driver.pass(kNow + seconds(5)).size(), 1u);
}

TEST(Planner, a_new_job_that_fits_starts_in_the_middle_of_a_long_pass) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  for (std::uint32_t n = 1; n <= 4; ++n) core.add_node(n, 8, 8);
  core.add_job(ask(1, 8, minutes(1)));
  Driver driver;
  driver.run(core, kNow);
  // 500 shapes, none of which fits.
  for (std::uint32_t i = 0; i < 500; ++i) core.add_job(ask(4, 8, minutes(1) + micros(i)), 10);
  driver.planner.observe(core.drain());
  const PlanBudget small{.jobs = 5, .starts = 5};
  ASSERT_TRUE(driver.planner.plan(kNow, small).more);
  ASSERT_TRUE(driver.planner.plan(kNow, small).more);
  const JobId quick = core.add_job(ask(1, 1, seconds(10)), 1);
  driver.planner.observe(core.drain());
  const PlanChunk chunk = driver.planner.plan(kNow, small);
  ASSERT_EQ(chunk.starts.size(), 1u);
  EXPECT_EQ(chunk.starts[0].job, quick);
  EXPECT_TRUE(chunk.more);
}

// --- random clusters ---

bool fits_now(const MiniCore& core, const Job& job) {
  const Partition* partition = nullptr;
  std::vector<std::string> names = job.spec->partitions;
  if (names.empty())
    names = {"main"};
  for (const std::string& name : names) {
    partition = core.tables.partition(name);
    if (!partition->up)
      continue;
    std::map<NodeId, NodeLoad> loads = core.loads;
    bool whole = true;
    for (std::uint16_t g = 0; whole && g < job.spec->groups.size(); ++g) {
      std::vector<Candidate> candidates;
      for (const auto& [id, node] : core.tables.nodes)
        if (node_usable(*node) && eligible(*node, *partition, job.spec->groups[g]))
          candidates.push_back({node.get(), &loads[id]});
      const auto grants = place_group(candidates, job.spec->groups[g], g);
      whole = grants.has_value();
      if (!grants)
        break;
      for (const Grant& grant : *grants)
        EXPECT_TRUE(take(loads[grant.node], *core.tables.node(grant.node), grant).ok());
    }
    if (whole)
      return true;
  }
  return false;
}

std::vector<std::string> words_of(const std::vector<PlannedStart>& starts) {
  std::vector<std::string> out;
  for (const PlannedStart& start : starts) {
    std::string text = format("job {} in {}:", start.job.value, start.partition);
    for (const Grant& grant : start.grants) {
      text += format(" n{} cores", grant.node.value);
      grant.cores.for_each([&](std::uint32_t c) { text += format(" {}", c); });
      text += " devices";
      grant.devices.for_each([&](std::uint32_t d) { text += format(" {}", d); });
    }
    out.push_back(std::move(text));
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Planner, agrees_with_the_obvious_on_random_clusters) {
  for (std::uint64_t seed = 1; seed <= 2500 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Rng rng(seed);
    MiniCore core;
    core.add_partition("main", {"ALL"});
    core.add_partition("side", {"n1", "n2"}, static_cast<std::uint32_t>(rng.between(1, 2)));
    const auto nodes = static_cast<std::uint32_t>(rng.between(1, 5));
    for (std::uint32_t n = 1; n <= nodes; ++n)
      core.add_node(n, static_cast<std::uint32_t>(rng.between(2, 6)), static_cast<std::uint32_t>(rng.between(0, 4)));
    Driver driver;
    driver.planner.observe(core.drain());
    Instant now = kNow;
    for (int round = 0; round < 12 && !testing::Test::HasFailure(); ++round) {
      now = now + millis(rng.between(0, 4000));
      for (std::int64_t i = rng.between(0, 4); i > 0; --i)
        core.add_job(random_ask(rng), rng.below(4), random_turn(rng), seconds(rng.between(1, 20)));
      std::vector<JobId> running, pending;
      for (const auto& [id, job] : core.tables.jobs) (holds_allocation(job->state) ? running : pending).push_back(id);
      for (const JobId id : running)
        if (rng.chance(0.3))
          core.end(id);
      if (rng.chance(0.15)) {
        Node node = *core.tables.node(NodeId{static_cast<std::uint32_t>(rng.between(1, nodes))});
        node.drain = !node.drain;
        core.put(node);
      }
      if (rng.chance(0.1) && !pending.empty()) {
        Job job = *core.tables.job(pending[rng.below(pending.size())]);
        if (job.state == JobState::kPending) {
          job.state = JobState::kCancelled;
          core.put(job);
        }
      }
      driver.planner.observe(core.drain());

      // The law: a planner made from a snapshot proposes the same.
      Driver rebuilt;
      rebuilt.planner.observe(core.tables.snapshot());
      const auto expected = words_of(rebuilt.pass(now));
      const auto starts = driver.pass(now);
      ASSERT_EQ(words_of(starts), expected) << "round " << round;
      for (const PlannedStart& start : starts) core.start(start, now);
      driver.planner.observe(core.drain());
      driver.planner.settled();
      driver.run(core, now);

      // Nobody ahead and it fits: it must have started.
      const Job* first = nullptr;
      const auto tier = [&](const Job& job) {
        std::uint32_t t = 0;
        for (const std::string& name : job.spec->partitions) t = std::max(t, core.tables.partition(name)->tier);
        return std::max(t, job.spec->partitions.empty() ? core.tables.partition("main")->tier : 0);
      };
      for (const auto& [id, job] : core.tables.jobs) {
        if (job->state != JobState::kPending)
          continue;
        const auto rank = [&](const Job& j) {
          return std::tuple(-std::int64_t{tier(j)}, -static_cast<std::int64_t>(j.priority),
                            j.turn ? j.turn : j.submitted, j.id);
        };
        if (!first || rank(*job) < rank(*first))
          first = job.get();
      }
      if (first) {
        EXPECT_FALSE(fits_now(core, *first)) << "job " << first->id.value << " fits and waits";
      }
    }
  }
}

TEST(Planner, slices_of_any_size_come_to_an_end_without_overlap) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Rng rng(seed);
    MiniCore core;
    core.add_partition("main", {"ALL"});
    core.add_partition("side", {"n1", "n2"});
    for (std::uint32_t n = 1; n <= 4; ++n) core.add_node(n, 6, 4);
    Driver driver;
    for (int round = 0; round < 6; ++round) {
      for (int i = 0; i < 10; ++i) core.add_job(random_ask(rng), rng.below(4));
      driver.run(core, kNow + seconds(round), {.jobs = 1, .starts = 1});
      std::vector<JobId> running;
      for (const auto& [id, job] : core.tables.jobs)
        if (holds_allocation(job->state) && rng.chance(0.5))
          running.push_back(id);
      for (const JobId id : running) core.end(id);
    }
  }
}

// What binds is a record: proposed once, kept while it stands, moved with its reason, taken back when it is no more.
TEST(Planner, a_binding_promise_is_a_record) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  for (std::uint32_t n = 1; n <= 2; ++n) core.add_node(n, 4, 4);
  Driver driver;
  const JobId running = core.add_job(ask(1, 4, hours(2)));
  driver.run(core, kNow);
  const JobId head = core.add_job(ask(2, 4, hours(1)));
  const JobId young = core.add_job(ask(2, 2, hours(1)), 0, kNow, minutes(10));
  driver.planner.observe(core.drain());
  const auto pass = [&](Instant now) {
    driver.promises.clear();
    EXPECT_TRUE(driver.pass(now).empty());
    const auto out = driver.promises;
    for (const PlannedPromise& promise : out) core.promise(promise);
    driver.planner.observe(core.drain());
    driver.planner.settled();
    return out;
  };
  const auto made = pass(kNow);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].job, head);
  EXPECT_EQ(made[0].promise.at, kNow + hours(2));
  EXPECT_EQ(made[0].promise.grants.size(), 2u);
  EXPECT_FALSE(made[0].promise.held);
  EXPECT_TRUE(pass(kNow + minutes(1)).empty()) << "it stands";
  core.end(running);
  driver.planner.observe(core.drain());
  EXPECT_EQ(driver.run(core, kNow + minutes(2)), 1u);
  EXPECT_EQ(core.tables.job(head)->state, JobState::kRunning);
  EXPECT_TRUE(pass(kNow + minutes(3)).empty()) << "the next is head, and its promise does not bind yet";
  EXPECT_TRUE(pass(kNow + seconds(79'999)).empty());
  // It is half of the cluster, so half of two spreads after its turn it does.
  const auto later = pass(kNow + seconds(80'000));
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0].job, young);
}

// All others would go ahead of a job of the whole cluster; so its promise binds when its turn has come.
TEST(Planner, nobody_goes_ahead_of_the_widest_by_a_guess) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  for (std::uint32_t n = 1; n <= 2; ++n) core.add_node(n, 4, 4);
  Driver driver;
  core.add_job(ask(1, 4, hours(2)));
  driver.run(core, kNow);
  core.add_job(ask(2, 4, hours(1)), 0, kNow, minutes(10));
  core.add_job(ask(1, 4, hours(5)), 0, kNow, minutes(10));  // in ten minutes, as predicted; in five hours by its limit
  driver.planner.observe(core.drain());
  EXPECT_TRUE(driver.pass(kNow).empty());
}

// Nodes join in any order; side by side are those whose numbers are.
TEST(Planner, equal_nodes_are_taken_side_by_side) {
  for (const Duration limit : {hours(1), kForever}) {
    MiniCore core;
    core.add_partition("main", {"ALL"});
    const char* const names[] = {"n1", "n3", "n4", "n2"};
    for (std::uint32_t n = 1; n <= 4; ++n) {
      core.add_node(n, 4, 4);
      Node node = *core.tables.nodes.at(NodeId{n});
      node.meta.name = names[n - 1];
      core.put(node);
    }
    Driver driver;
    const JobId id = core.add_job(ask(2, 4, limit));
    EXPECT_EQ(driver.run(core, kNow), 1u);
    std::set<NodeId> nodes;
    for (const Grant& grant : core.tables.job(id)->allocation->grants) nodes.insert(grant.node);
    EXPECT_EQ(nodes, (std::set{NodeId{1}, NodeId{4}})) << "n[1-2]";
  }
}

// --time-min: a job that may be cut short goes ahead of a head it would otherwise delay.
TEST(Planner, a_flexible_job_is_cut_short_before_a_head) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  for (std::uint32_t n = 1; n <= 2; ++n) core.add_node(n, 4, 4);
  Driver driver;
  core.add_job(ask(1, 4, hours(2)));
  driver.run(core, kNow);
  core.add_job(ask(2, 4, hours(1)));
  JobSpec stiff = ask(1, 4, hours(5)), flexible = stiff;
  flexible.time_min = hours(1);
  core.add_job(stiff);
  const JobId id = core.add_job(flexible);
  driver.planner.observe(core.drain());
  const auto starts = driver.pass(kNow);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].job, id);
  EXPECT_EQ(starts[0].limit, hours(2));
}

// Partitions that come and go while a long pass is under way, more often than it is begun again for other changes.
TEST(Planner, partitions_may_change_in_the_middle_of_a_pass) {
  MiniCore core;
  core.add_partition("main", {"ALL"});
  for (std::uint32_t n = 1; n <= 4; ++n) core.add_node(n, 6, 4);
  Driver driver;
  Rng rng(1);
  driver.planner.observe(core.drain());
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 3; ++i) {
      JobSpec spec = ask(1, 4, minutes(rng.between(1, 600)));
      if (rng.chance(0.5))
        spec.partitions = {format("p{}", rng.below(6)), "main"};
      core.add_job(spec, rng.below(4));
    }
    const std::string name = format("p{}", rng.below(6));
    if (core.tables.partition(name))
      core.put(Partition(*core.tables.partition(name)), true);
    else
      core.add_partition(name, {"n1", "n2"});
    driver.planner.observe(core.drain());
    const PlanChunk chunk = driver.planner.plan(kNow + seconds(round), {.jobs = 1, .starts = 1});
    for (const PlannedStart& start : chunk.starts) core.start(start, kNow + seconds(round));
    driver.planner.observe(core.drain());
    driver.planner.settled();
  }
  driver.run(core, kNow + seconds(200));
  EXPECT_TRUE(driver.planner.idle());
}

}  // namespace
}  // namespace lockstep
