#include "rules/growth.h"

#include "core/confirm.h"
#include "core/testing.h"
#include "model/job.h"
#include "model/plan.h"

namespace lockstep {
namespace {

struct Growth : testing::Test {
  World w{3};

  // Tasks of 8 cores: two on a node.
  static JobSpec elastic(std::uint32_t min, std::uint32_t max) {
    JobSpec spec = World::tasks(max, RestartRule::kOnFailure, false);
    GroupSpec& group = spec.groups[0];
    group.tasks = {min, max};
    group.restarts_max = 3;
    group.per_task.cores = 8;
    spec.time_limit = hours(1);
    return spec;
  }
  JobId start(std::uint32_t min, std::uint32_t max, std::vector<std::uint32_t> on) {
    const JobId id = w.submit(elastic(min, max));
    const std::vector<PlannedStart> starts{{.job = id, .partition = "main", .grants = grants(on)}};
    EXPECT_EQ(w.must(ApplyPlan{starts}).starts_applied, 1u);
    w.obey();
    return id;
  }
  // One task on each of the named nodes, on cores that nobody has.
  std::vector<Grant> grants(const std::vector<std::uint32_t>& on) {
    std::vector<Grant> out;
    std::map<NodeId, NodeLoad> loads;
    const GroupSpec group = elastic(1, 2).groups[0];
    for (const std::uint32_t n : on) {
      NodeLoad& load = loads.try_emplace(w.id(n), w.state.load(w.id(n))).first->second;
      auto grant = choose_grant(w.node(n), load, group, 0, 1, 0);
      CHECK(grant, "no room");
      add_grant(load, *grant);
      out.push_back(std::move(*grant));
    }
    return out;
  }
  bool grow(JobId id, std::vector<Grant> grants) {
    const Ref<Allocation> before = w.job(id).allocation;
    Plan plan;
    plan.growths = {{.job = id, .read = w.job(id).meta.seq, .grants = std::move(grants)}};
    w.must(ApplyPlan{plan});
    return w.job(id).allocation != before;
  }
  std::map<std::uint32_t, std::uint32_t> running(JobId id) const {  // index to node
    std::map<std::uint32_t, std::uint32_t> out;
    const Job& job = w.job(id);
    for (const auto& task : w.state.tables().tasks_of(id))
      if (task->state == TaskState::kRunning)
        out[task->index] = static_cast<std::uint32_t>(
            std::stoul(w.state.tables().node(job.allocation->grants.at(task->grant).node)->meta.name.substr(1)));
    return out;
  }
  using Places = std::map<std::uint32_t, std::uint32_t>;
};

TEST_F(Growth, a_running_group_takes_more_nodes_and_more_of_a_node) {
  const JobId id = start(1, 4, {1});
  EXPECT_EQ(running(id), (Places{{0, 1}}));
  EXPECT_TRUE(grow(id, grants({1, 2})));
  EXPECT_EQ(w.told_of<StartAttempt>(id), 1u);
  w.obey();
  EXPECT_EQ(w.told_of<StartAttempt>(id), 2u) << "only the new node is told of the attempt";
  EXPECT_EQ(running(id), (Places{{0, 1}, {1, 1}, {2, 2}}));
  EXPECT_EQ(w.job(id).attempt, 1u);
  EXPECT_EQ(w.job(id).allocation->tres.cpu, 24);
  EXPECT_EQ(w.job(id).allocation->tres.nodes, 2);
  EXPECT_FALSE(grow(id, grants({2, 3}))) << "beyond its most";
  EXPECT_TRUE(grow(id, grants({3})));
  w.obey();
  EXPECT_EQ(running(id).size(), 4u);
  for (std::uint32_t index = 0; index < 4; ++index)
    (void)w.report(running(id).at(index), id, TaskEnded{0, index, 1, {}});
  w.obey();
  EXPECT_EQ(w.state_of(id), JobState::kCompleted);
}

TEST_F(Growth, what_is_not_right_is_refused) {
  const JobId id = start(1, 4, {1});
  const JobId other = w.submit(World::batch(1));
  EXPECT_FALSE(grow(other, {})) << "not running";
  std::vector<Grant> held = w.job(id).allocation->grants;
  EXPECT_FALSE(grow(id, held)) << "cores twice";
  auto more = grants({2});
  more[0].cores = CoreSet::first_n(2);
  EXPECT_FALSE(grow(id, more)) << "too small";
  more = grants({2});
  w.must(UpdateNode{World::name_of(2), true, "", {}, {}});
  EXPECT_FALSE(grow(id, more)) << "drained";
  more = grants({3});
  w.must(CancelJob{{id, {}}});
  EXPECT_FALSE(grow(id, more)) << "ending";
}

TEST_F(Growth, limits_see_the_whole_and_use_is_charged_as_it_was_held) {
  Policy policy;
  policy.half_life = {};
  w.must(PutPolicy{policy});
  Qos qos;
  qos.meta.name = "bounded";
  qos.limits.max_tres_per_job.cpu = 16;
  w.must(PutQos{qos});
  Account account;
  account.meta.name = "lab";
  account.qos = {"bounded"};
  account.default_qos = "bounded";
  w.must(PutAccount{account});
  Association mine;
  mine.account = "lab";
  mine.user = "alice";
  w.must(PutAssociation{mine});
  const JobId id = start(1, 4, {1});
  ASSERT_EQ(w.job(id).spec->qos.get(), "bounded");
  w.wait(seconds(100));
  EXPECT_FALSE(grow(id, grants({1, 2})));
  EXPECT_TRUE(grow(id, grants({2})));
  w.obey();
  const auto spent = [&] {
    std::int64_t cpu = 0, wall = 0;
    for (const auto& [name, usage] : w.state.tables().usages) {
      cpu += usage->spent.cpu;
      wall += usage->wall_ms;
    }
    return std::pair(cpu, wall);
  };
  EXPECT_EQ(spent(), std::pair(std::int64_t{8 * 100'000}, std::int64_t{100'000}));
  w.wait(seconds(50));
  w.must(CancelJob{{id, {}}});
  w.obey();
  ASSERT_TRUE(is_final(w.state_of(id)));
  EXPECT_EQ(spent(), std::pair(std::int64_t{8 * 100'000 + 16 * 50'000}, std::int64_t{150'000}));
}

TEST_F(Growth, a_lost_node_shrinks_it_and_it_grows_back) {
  const JobId id = start(1, 4, {1, 1, 2, 3});
  ASSERT_EQ(running(id), (Places{{0, 1}, {1, 1}, {2, 2}, {3, 3}}));
  w.lose(1);
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
  EXPECT_EQ(w.job(id).allocation->tres.cpu, 32) << "nothing is proven";
  w.fence(1);
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
  EXPECT_EQ(w.job(id).allocation->tres.cpu, 16);
  EXPECT_EQ(w.state.load(w.id(1)), NodeLoad{});
  EXPECT_EQ(running(id), (Places{{2, 2}, {3, 3}}));
  w.silent.erase(1);
  w.hello(1);
  EXPECT_TRUE(grow(id, grants({1, 1})));
  w.obey();
  EXPECT_EQ(running(id), (Places{{0, 1}, {1, 1}, {2, 2}, {3, 3}})) << "lost tasks run again under their index";
  EXPECT_EQ(w.state.tables().tasks_of(id)[0]->incarnation, 2u);
  EXPECT_EQ(w.job(id).attempt, 1u);
}

TEST_F(Growth, an_attempt_does_not_come_back_to_a_boot_that_it_left) {
  const JobId id = start(1, 4, {1, 2});
  w.lose(2);
  (void)w.report(2, id, MemberStopped{true});  // its own fence
  ASSERT_EQ(w.job(id).allocation->tres.cpu, 8);
  w.silent.erase(2);
  w.hello(2);
  EXPECT_FALSE(grow(id, grants({2})));
  EXPECT_TRUE(grow(id, grants({3})));
  w.obey();
  w.reboot(2);
  EXPECT_EQ(running(id), (Places{{0, 1}, {1, 3}}));
  EXPECT_TRUE(grow(id, grants({2})));
  w.obey();
  EXPECT_EQ(running(id), (Places{{0, 1}, {1, 3}, {2, 2}}));
}

TEST_F(Growth, below_its_least_it_starts_again_as_a_whole) {
  const JobId id = start(2, 4, {1, 2});
  w.fence(2);
  EXPECT_EQ(w.state_of(id), JobState::kCompleting);
  w.obey();
  EXPECT_NE(w.state_of(id), JobState::kRunning);
}

TEST_F(Growth, two_losses_at_once_count_together) {
  const JobId id = start(2, 4, {1, 2, 3});
  w.lose(1);
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
  w.lose(2);
  EXPECT_EQ(w.state_of(id), JobState::kRunning) << "nothing is proven";
  w.fence(1);
  EXPECT_EQ(w.state_of(id), JobState::kCompleting) << "the other may not come back either";
}

TEST_F(Growth, a_requeue_after_growth_and_loss_starts_from_the_first_index) {
  const JobId id = start(1, 4, {1, 2});
  w.fence(2);
  EXPECT_TRUE(grow(id, grants({3})));
  w.obey();
  w.must(RequeueJob{{id, {}}});
  w.obey();
  ASSERT_EQ(w.state_of(id), JobState::kPending);
  w.wait(hours(1));
  w.must(Tick{});
  w.settle();
  ASSERT_EQ(w.state_of(id), JobState::kRunning);
  EXPECT_EQ(w.job(id).attempt, 2u);
  EXPECT_EQ(running(id).begin()->first, 0u);
  EXPECT_EQ(running(id).size(), 4u);
}

TEST_F(Growth, a_launch_that_fails_on_the_new_node_costs_that_node_alone) {
  const JobId id = start(1, 4, {1});
  EXPECT_TRUE(grow(id, grants({2})));
  w.actions.clear();
  (void)w.report(2, id, LaunchFailed{"no such user"});
  w.obey();
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
  EXPECT_EQ(w.job(id).allocation->tres.cpu, 8);
}

TEST_F(Growth, it_makes_room_on_some_nodes_and_stays) {
  for (const bool pardoned : {false, true}) {
    SCOPED_TRACE(pardoned);
    w = World(3);
    Qos low, high;
    low.meta.name = "low";
    low.grace = seconds(10);
    w.must(PutQos{low});
    high.meta.name = "high";
    high.preempts = {"low"};
    w.must(PutQos{high});
    JobSpec spec = elastic(1, 6);
    spec.qos = "low";
    const JobId id = w.submit(spec);
    const std::vector<PlannedStart> starts{{.job = id, .partition = "main", .grants = grants({1, 1, 2, 3})}};
    ASSERT_EQ(w.must(ApplyPlan{starts}).starts_applied, 1u);
    w.obey();
    JobSpec urgent_spec = World::batch(1);
    urgent_spec.qos = "high";
    urgent_spec.groups[0].per_task.cores = 16;
    const JobId urgent = w.submit(urgent_spec);
    const auto plan_for = [&](std::vector<std::uint32_t> nodes) {
      NodeLoad idle;
      Plan plan;
      PlannedPreemption planned{.job = urgent, .read = w.job(urgent).meta.seq, .partition = "main"};
      planned.grants = {*choose_grant(w.node(nodes[0]), idle, urgent_spec.groups[0], 0, 1, 0)};
      planned.shrinks = {{id, {}}};
      for (const std::uint32_t n : nodes) planned.shrinks[0].nodes.push_back(w.id(n));
      plan.preemptions.push_back(std::move(planned));
      w.must(ApplyPlan{plan});
      return w.job(urgent).promise != nullptr;
    };
    EXPECT_FALSE(plan_for({3, 2, 1})) << "it needs one task";
    ASSERT_TRUE(plan_for({3}));
    EXPECT_EQ(w.state_of(id), JobState::kRunning);
    // Its task there takes the warning for its end, and does not start again in between.
    const std::uint32_t index = [&] {
      for (const auto& [i, node] : running(id))
        if (node == 3)
          return i;
      return UINT32_MAX;
    }();
    (void)w.report(3, id, TaskEnded{0, index, 1, {0, 15, false}});
    w.pass(seconds(5));
    if (pardoned) {
      w.must(CancelJob{{urgent, {}}});
      EXPECT_FALSE(w.job(id).eviction);
      w.pass(minutes(2));
      w.obey();
      EXPECT_EQ(running(id).size(), 4u);
      continue;
    }
    EXPECT_EQ(running(id).size(), 3u);
    w.pass(seconds(6));
    // The stop gets lost: the node is told again.
    w.actions.clear();
    const auto again = reconcile(w.state, w.id(3), std::vector<Holding>{{id, 1, false, {}, {}}});
    ASSERT_EQ(again.size(), 1u);
    EXPECT_TRUE(std::holds_alternative<StopAttempt>(again[0].body));
    const Ref<Promise> promise = w.job(urgent).promise;
    const std::vector<PlannedStart> start{{.job = urgent, .partition = "main", .grants = promise->grants}};
    EXPECT_EQ(w.must(ApplyPlan{start}).starts_applied, 0u);
    EXPECT_TRUE(w.report(3, id, MemberStopped{}).ok());
    EXPECT_FALSE(w.job(id).eviction);
    EXPECT_EQ(w.state_of(id), JobState::kRunning);
    EXPECT_EQ(w.must(ApplyPlan{start}).starts_applied, 1u);
    w.obey();
    EXPECT_EQ(running(id).size(), 3u);
    EXPECT_EQ(w.job(id).restarts + w.job(id).preemptions, 0u);
  }
}

TEST_F(Growth, more_tasks_come_by_growth) {
  const JobId id = start(2, 2, {1, 2});
  w.must(SetTaskCount{id, 0, 4});
  EXPECT_EQ(w.job(id).spec->groups[0].tasks, (CountRange{2, 4}));
  EXPECT_TRUE(grow(id, grants({2, 3})));
  w.obey();
  EXPECT_EQ(running(id).size(), 4u);
  EXPECT_FALSE(grow(id, grants({1}))) << "that was all it asked for";
  JobSpec whole = elastic(2, 2);
  whole.groups[0].per_job = {{"gpu", "", 2}};
  whole.groups[0].per_task.cores = 1;
  const JobId stiff = w.submit(whole);
  w.settle();
  if (w.state_of(stiff) == JobState::kRunning) {
    EXPECT_EQ(w.refused(SetTaskCount{stiff, 0, 3}), Errc::kUnsupported);
  }
}

TEST_F(Growth, a_part_that_does_not_start_is_left) {
  w.pass(minutes(10));
  const JobId id = start(1, 4, {1});
  w.silent.insert(2);
  ASSERT_TRUE(grow(id, grants({2})));
  w.obey();
  w.pass(kStartWithin + w.state.settings().unkillable_after + seconds(1));
  EXPECT_TRUE(leaves(w.job(id), w.id(2)));
  EXPECT_TRUE(node_usable(w.node(2))) << "it has its time to stop";
  w.pass(minutes(2));
  EXPECT_FALSE(node_usable(w.node(2)));
  w.silent.erase(2);
  (void)w.report(2, id, AttemptStarted{});
  EXPECT_EQ(w.told_of<StartPart>(id), 1u) << "it starts nothing where it is to leave";
  (void)w.report(2, id, MemberStopped{});
  EXPECT_TRUE(node_usable(w.node(2)));
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
  EXPECT_EQ(w.job(id).eviction, nullptr);
  EXPECT_EQ(running(id), (Places{{0, 1}}));
}

TEST_F(Growth, parts_that_do_not_start_are_left_together_and_each_in_its_time) {
  w.pass(minutes(10));
  const JobId id = start(1, 4, {1});
  w.silent = {2, 3};
  ASSERT_TRUE(grow(id, grants({2})));
  w.pass(minutes(4));
  ASSERT_TRUE(grow(id, grants({3})));
  w.pass(minutes(2));
  EXPECT_FALSE(leaves(w.job(id), w.id(2))) << "its time began anew with the growth";
  w.pass(minutes(5));
  EXPECT_TRUE(leaves(w.job(id), w.id(2)));
  EXPECT_TRUE(leaves(w.job(id), w.id(3)));
}

}  // namespace
}  // namespace lockstep
