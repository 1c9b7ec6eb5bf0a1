// Which jobs move: against every single move, on random small clusters; several at once; nobody where it does not pay.
#include "sched/defrag.h"

#include "model/job.h"
#include "model/plan.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

struct Field {
  MiniCore core;
  PlannerView view;
  Shadows shadows;
  std::map<JobId, std::int64_t> losses;

  JobId run(std::uint32_t on, std::uint32_t devices, std::int64_t loss) {
    const JobId id = core.add_job(ask(1, devices, hours(1)));
    const Node& node = *core.tables.node(NodeId{on});
    auto grant = choose_grant(node, core.loads[node.id], core.tables.job(id)->spec->groups[0], 0, 1, 0);
    if (!grant)
      return {};
    core.start({.job = id, .partition = "main", .grants = {*grant}}, kNow);
    if (loss > 0)
      losses[id] = loss;
    return id;
  }
  std::optional<Moves> find(const JobSpec& spec, std::int64_t most = INT64_MAX) {
    for (const Change& change : core.drain()) view.observe(change);
    view.advance(kNow);
    std::vector<Victim> movable;
    for (const auto& [id, loss] : losses) movable.push_back({core.tables.job(id), {.work = loss, .jobs = 1}});
    Shape shape(KeyOfSlot{});
    shape.spec = std::make_shared<JobSpec>(spec);
    return find_moves(view, *shape.spec, view.ways(shape).at(0), movable, {}, shadows, {}, most);
  }
  // Everybody fits: those who stay, the moved ones where they are now and where they will be, and the head when the
  // moved ones have gone.
  void expect_room(const Moves& moves) const {
    std::map<NodeId, NodeLoad> now = core.loads, then = core.loads;
    for (const Moves::One& one : moves.moved)
      for (const Grant& grant : core.tables.job(one.job)->allocation->grants) give_back(then[grant.node], grant);
    for (const Moves::One& one : moves.moved)
      for (const Grant& grant : one.grants) {
        EXPECT_TRUE(take(now[grant.node], *core.tables.node(grant.node), grant).ok());
        EXPECT_TRUE(take(then[grant.node], *core.tables.node(grant.node), grant).ok());
      }
    for (const Grant& grant : moves.grants)
      EXPECT_TRUE(take(then[grant.node], *core.tables.node(grant.node), grant).ok());
  }
};

TEST(Defrag, single_moves_lose_the_least) {
  int found_one = 0, several = 0;
  for (std::uint64_t seed = 1; seed <= 2000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Field field;
    field.core.add_partition("main", {"ALL"});
    const auto nodes = static_cast<std::uint32_t>(rng.between(2, 5));
    for (std::uint32_t n = 1; n <= nodes; ++n) field.core.add_node(n, 16, 8);
    for (std::uint32_t n = 1; n <= nodes; ++n)
      for (std::int64_t i = rng.between(1, 2); i > 0; --i)
        field.run(n, static_cast<std::uint32_t>(rng.between(1, 4)), rng.chance(0.7) ? rng.between(1, 50) : 0);
    std::optional<std::int64_t> least;
    for (const auto& [id, loss] : field.losses) {
      const Grant& grant = field.core.tables.job(id)->allocation->grants[0];
      if (field.core.loads[grant.node].devices != grant.devices)
        continue;
      for (std::uint32_t n = 1; n <= nodes; ++n)
        if (NodeId{n} != grant.node && field.core.loads[NodeId{n}].devices.count() + grant.devices.count() <= 8)
          least = least ? std::min(*least, loss) : loss;
    }
    const auto moves = field.find(ask(1, 8, hours(1)));
    if (least) {
      ASSERT_TRUE(moves);
      EXPECT_LE(moves->loss.work, *least);
    }
    if (!moves)
      continue;
    field.expect_room(*moves);
    EXPECT_LE(moves->moved.size(), kMovesMost);
    EXPECT_FALSE(field.find(ask(1, 8, hours(1)), moves->loss.work));
    found_one += moves->moved.size() == 1;
    several += moves->moved.size() > 1;
  }
  EXPECT_GT(found_one, 300);
  EXPECT_GT(several, 50);
}

TEST(Defrag, the_place_that_one_job_finds_is_not_given_twice) {
  Field field;
  field.core.add_partition("main", {"ALL"});
  for (std::uint32_t n = 1; n <= 3; ++n) field.core.add_node(n, 16, 8);
  field.run(1, 4, 10);
  field.run(2, 4, 20);
  field.run(3, 4, 0);
  EXPECT_FALSE(field.find(ask(2, 8, hours(1))));
  const auto one = field.find(ask(1, 8, hours(1)));
  ASSERT_TRUE(one);
  EXPECT_EQ(one->loss.work, 10);
  field.core.add_node(4, 16, 8);
  EXPECT_TRUE(field.find(ask(2, 8, hours(1))));
}

}  // namespace
}  // namespace lockstep
