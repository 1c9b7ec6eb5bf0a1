// Moving running jobs for a waiting one: whole or not at all.
#include "core/testing.h"
#include "model/job.h"
#include "model/plan.h"
#include "rules/preempt.h"

namespace lockstep {
namespace {

CoreSettings defragmenting() {
  CoreSettings settings;
  settings.defragment = true;
  return settings;
}

// Two nodes, half of each is used: by `a` on the first, by `b` on the second. `head` needs a whole one.
struct Scene {
  explicit Scene(CoreSettings settings = defragmenting(), std::int32_t signal = 10) : world(2, settings) {
    JobSpec spec = World::batch(1, 4);
    spec.checkpoint_signal = signal;
    std::vector<JobId> jobs;
    for (int i = 0; i < 4; ++i) jobs.push_back(world.submit(spec));
    world.settle();
    a = jobs[0];
    free_there = world.job(jobs[3]).allocation->grants;
    for (const JobId id : jobs)
      if (world.first_node(id) != world.first_node(a))
        b = b ? b : id;
    for (const JobId id : jobs)
      if (id != a && id != b)
        world.end_script(id);
    world.pass(minutes(11));
    head = world.submit(World::batch(1, 8));
  }

  ApplyPlan plan() const {
    ApplyPlan out;
    const Node& node = world.node(world.first_node(a));
    auto grant = choose_grant(node, {}, world.job(head).spec->groups[0], 0, 1, 0);
    const std::string partition = world.job(a).allocation->partition;
    out.preemptions.push_back(
        {.job = head, .read = world.job(head).meta.seq, .partition = partition, .grants = {*grant}, .victims = {a}});
    out.promises.push_back({a, {.at = {}, .partition = partition, .grants = free_there, .held = true}});
    return out;
  }
  bool moves(const ApplyPlan& plan) {
    world.must(plan);
    const bool held = world.job(head).promise != nullptr;
    EXPECT_EQ(held, world.job(a).eviction != nullptr);
    EXPECT_EQ(held, world.job(a).promise != nullptr);
    return held;
  }
  bool start(JobId id, const std::vector<Grant>& grants) {
    PlannedStart start{.job = id, .read = world.job(id).meta.seq, .partition = "main", .grants = grants};
    start.partition = world.job(b).allocation->partition;
    return world.must(ApplyPlan{std::vector{start}}).starts_applied == 1;
  }

  World world;
  JobId a, b, head;
  std::vector<Grant> free_there;
};

TEST(Move, the_job_starts_again_on_the_place_that_was_kept_for_it) {
  Scene scene;
  World& world = scene.world;
  ASSERT_TRUE(scene.moves(scene.plan()));
  EXPECT_EQ(world.state_of(scene.a), JobState::kRunning);
  JobSpec small = World::batch(1, 4);
  const JobId thief = world.submit(small);
  EXPECT_FALSE(scene.start(thief, scene.free_there));
  world.obey();
  EXPECT_EQ(world.told_of<SignalAttempt>(scene.a), 2u);
  world.pass(seconds(31));
  world.obey();
  ASSERT_EQ(world.state_of(scene.a), JobState::kPending);
  EXPECT_FALSE(scene.start(thief, scene.free_there));
  EXPECT_TRUE(scene.start(scene.a, world.job(scene.a).promise->grants));  // at once
  EXPECT_TRUE(scene.start(scene.head, world.job(scene.head).promise->grants));
  world.obey();
  EXPECT_EQ(world.state_of(scene.a), JobState::kRunning);
  EXPECT_EQ(world.job(scene.a).restarts, 0u);
  EXPECT_EQ(world.job(scene.a).allocation->grants, scene.free_there);
  EXPECT_EQ(world.state_of(scene.head), JobState::kRunning);
}

TEST(Move, a_saved_checkpoint_ends_the_grace) {
  Scene scene;
  ASSERT_TRUE(scene.moves(scene.plan()));
  scene.world.obey();
  scene.world.must(MarkCheckpoint{scene.a});
  scene.world.obey();
  EXPECT_EQ(scene.world.state_of(scene.a), JobState::kPending);
  EXPECT_TRUE(scene.start(scene.a, scene.free_there));
}

TEST(Move, whole_or_not_at_all) {
  EXPECT_FALSE(Scene(CoreSettings{}).moves(Scene(CoreSettings{}).plan()));
  Scene cannot(defragmenting(), 0);
  EXPECT_FALSE(cannot.moves(cannot.plan()));

  Scene scene;
  World& world = scene.world;
  ApplyPlan plan = scene.plan();
  plan.promises.clear();
  EXPECT_FALSE(scene.moves(plan));  // no new place
  plan = scene.plan();
  plan.promises[0].promise.grants = world.job(scene.b).allocation->grants;
  EXPECT_FALSE(scene.moves(plan));  // taken
  plan.promises[0].promise.grants = plan.preemptions[0].grants;
  EXPECT_FALSE(scene.moves(plan));  // the head's
  plan = scene.plan();
  plan.promises[0].promise.grants[0].devices = {};
  EXPECT_FALSE(scene.moves(plan));  // not what it asks for
  plan = scene.plan();
  plan.preemptions[0].victims.push_back(scene.b);
  EXPECT_FALSE(scene.moves(plan));  // one of two has none
  EXPECT_EQ(world.job(scene.b).eviction, nullptr);
  plan.promises.push_back(plan.promises[0]);
  plan.promises[1].job = scene.b;
  EXPECT_FALSE(scene.moves(plan));  // both have the same
  EXPECT_EQ(world.job(scene.b).promise, nullptr);
  world.must(UpdateNode{.name = world.node(world.first_node(scene.b)).meta.name, .drain = true});
  EXPECT_FALSE(scene.moves(scene.plan()));
  world.must(UpdateNode{.name = world.node(world.first_node(scene.b)).meta.name, .drain = false});
  EXPECT_TRUE(scene.moves(scene.plan()));
}

TEST(Move, the_new_place_is_free_now_and_not_soon) {
  Scene scene;
  World& world = scene.world;
  const JobId other = world.submit(World::batch(1, 4));
  ASSERT_TRUE(scene.start(other, scene.free_there));
  world.obey();
  world.must(CancelJob{{other, {}}});
  ASSERT_EQ(world.state_of(other), JobState::kCompleting);
  EXPECT_FALSE(scene.moves(scene.plan()));
  world.obey();
  EXPECT_TRUE(scene.moves(scene.plan()));
}

TEST(Move, nobody_is_moved_about) {
  Scene scene;
  World& world = scene.world;
  ASSERT_TRUE(scene.moves(scene.plan()));
  EXPECT_TRUE(scene.moves(scene.plan()));  // refused: it stands as it was
  world.pass(seconds(31));
  world.obey();
  ASSERT_TRUE(scene.start(scene.a, scene.free_there));
  world.must(CancelJob{{scene.head, {}}});
  world.obey();
  const Partition* where = world.state.tables().default_partition();
  const auto terms = move_terms(world.state.tables(), world.job(scene.a), where);
  ASSERT_TRUE(terms);
  EXPECT_EQ(terms->from, world.now + minutes(10));
}

TEST(Move, it_is_off_when_head_or_place_are_lost) {
  for (int way = 0; way < 3; ++way) {
    SCOPED_TRACE(way);
    Scene scene;
    World& world = scene.world;
    ASSERT_TRUE(scene.moves(scene.plan()));
    if (way == 0)
      world.must(CancelJob{{scene.head, {}}});
    else if (way == 1)
      world.must(UpdateNode{.name = world.node(world.first_node(scene.b)).meta.name, .drain = true});
    else
      world.must(UpdateNode{.name = world.node(world.first_node(scene.a)).meta.name, .drain = true});
    EXPECT_EQ(world.job(scene.a).eviction, nullptr);
    EXPECT_EQ(world.job(scene.a).promise, nullptr);
    EXPECT_EQ(world.job(scene.head).promise, nullptr);
    world.pass(minutes(5));
    EXPECT_EQ(world.state_of(scene.a), JobState::kRunning);
  }
}

TEST(Move, who_ends_by_itself_gives_its_new_place_up) {
  Scene scene;
  World& world = scene.world;
  ASSERT_TRUE(scene.moves(scene.plan()));
  world.end_script(scene.a);
  EXPECT_EQ(world.state_of(scene.a), JobState::kCompleted);
  EXPECT_EQ(world.job(scene.a).promise, nullptr);
  EXPECT_TRUE(scene.start(world.submit(World::batch(1, 4)), scene.free_there));
  EXPECT_TRUE(scene.start(scene.head, world.job(scene.head).promise->grants));
}

}  // namespace
}  // namespace lockstep
