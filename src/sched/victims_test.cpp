#include "sched/victims.h"

#include "model/job.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

struct VictimField {
  MiniCore core;
  PlannerView view;
  Shadows shadows;
  std::vector<Victim> candidates;

  void look() {
    for (const Change& change : core.drain()) view.observe(change);
  }
  // A running job on these nodes, with so much on each.
  JobId run(const std::vector<std::uint32_t>& nodes, std::uint32_t cores, std::uint32_t devices) {
    const JobId id = core.add_job(ask(static_cast<std::uint32_t>(nodes.size()), devices, hours(1), cores));
    PlannedStart start{.job = id, .partition = "main", .grants = {}};
    for (const std::uint32_t n : nodes) {
      const Node& node = *core.tables.node(NodeId{n});
      auto grant = choose_grant(node, core.loads[node.id], core.tables.job(id)->spec->groups[0], 0, 1, 0);
      if (!grant)
        return {};
      start.grants.push_back(*grant);
    }
    core.start(start, kNow);
    return id;
  }
  void may_go(JobId id, std::int64_t work, bool spare = false) {
    look();
    Victim victim;
    victim.job = core.tables.job(id);
    victim.loss = spare ? PreemptLoss{.spare_work = work, .spare_jobs = 1} : PreemptLoss{.work = work, .jobs = 1};
    candidates.push_back(victim);
  }
  std::optional<VictimChoice> choose(const JobSpec& spec) {
    look();
    Shape shape(KeyOfSlot{});
    shape.spec = std::make_shared<JobSpec>(spec);
    return choose_victims(view, *shape.spec, view.ways(shape).at(0), candidates, {}, shadows, {});
  }
  bool fits_without(const JobSpec& spec, const std::vector<JobId>& victims) const {
    std::map<NodeId, NodeLoad> loads = core.to_come({}, victims);
    std::vector<Candidate> nodes;
    for (const auto& [id, node] : core.tables.nodes)
      if (node_usable(*node))
        nodes.push_back({node.get(), &loads[id]});
    return place_group(nodes, spec.groups[0], 0).has_value();
  }
};

std::vector<std::uint64_t> ids(const VictimChoice& choice) {
  std::vector<std::uint64_t> out;
  for (const JobId id : choice.victims) out.push_back(id.value);
  return out;
}

TEST(Victims, one_wide_job_goes_rather_than_many_narrow_ones) {
  VictimField field;
  field.core.add_partition("main", {"ALL"});
  for (std::uint32_t n = 1; n <= 8; ++n) field.core.add_node(n, 8, 8);
  const JobId wide = field.run({1, 2, 3, 4}, 1, 8);
  std::vector<JobId> narrow;
  for (std::uint32_t n = 5; n <= 8; ++n) narrow.push_back(field.run({n}, 1, 8));
  field.may_go(wide, 300);
  for (const JobId id : narrow) field.may_go(id, 100);
  EXPECT_EQ(ids(*field.choose(ask(4, 8, hours(1)))), std::vector{wide.value});
  EXPECT_EQ(ids(*field.choose(ask(2, 8, hours(1)))), (std::vector{narrow[0].value, narrow[1].value}));
}

TEST(Victims, scavengers_leave_first_however_much_they_lose) {
  VictimField field;
  field.core.add_partition("main", {"ALL"});
  field.core.add_node(1, 8, 8);
  field.core.add_node(2, 8, 8);
  const JobId a = field.run({1}, 1, 8), b = field.run({2}, 1, 8);
  field.may_go(a, 1);
  field.may_go(b, 1'000'000, true);
  EXPECT_EQ(ids(*field.choose(ask(1, 8, hours(1)))), std::vector{b.value});
}

TEST(Victims, what_is_not_in_the_way_stays) {
  VictimField field;
  field.core.add_partition("main", {"ALL"});
  field.core.add_node(1, 8, 8);
  const JobId a = field.run({1}, 1, 2), b = field.run({1}, 1, 4), c = field.run({1}, 1, 2);
  field.may_go(a, 10);
  field.may_go(b, 15);
  field.may_go(c, 10);
  EXPECT_EQ(ids(*field.choose(ask(1, 4, hours(1)))), std::vector{b.value});
  EXPECT_EQ(ids(*field.choose(ask(1, 5, hours(1)))), (std::vector{a.value, b.value}));
  EXPECT_FALSE(field.choose(ask(1, 9, hours(1))));
  EXPECT_FALSE(field.choose(ask(2, 1, hours(1))));
}

// Against every set of candidates there is.
TEST(Victims, near_the_least_loss_on_random_clusters) {
  std::uint64_t cases = 0, exact = 0;
  double worst = 1;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Rng rng(seed);
    VictimField field;
    field.core.add_partition("main", {"ALL"});
    const auto nodes = static_cast<std::uint32_t>(rng.between(2, 6));
    for (std::uint32_t n = 1; n <= nodes; ++n) field.core.add_node(n, 8, 8);
    const std::int64_t jobs = rng.between(3, 13);
    for (std::int64_t i = 0; i < jobs; ++i) {
      std::vector<std::uint32_t> on;
      for (std::uint32_t n = 1; n <= nodes; ++n)
        if (rng.chance(0.4))
          on.push_back(n);
      if (on.empty() || rng.chance(0.5))
        on = {static_cast<std::uint32_t>(rng.between(1, nodes))};
      const JobId id =
          field.run(on, static_cast<std::uint32_t>(rng.between(1, 3)), static_cast<std::uint32_t>(rng.between(1, 4)));
      if (id && rng.chance(0.9))
        field.may_go(id, rng.between(1, 100) * static_cast<std::int64_t>(on.size()), rng.chance(0.1));
    }
    JobSpec spec = ask(static_cast<std::uint32_t>(rng.between(1, nodes)), static_cast<std::uint32_t>(rng.between(1, 8)),
                       hours(1), static_cast<std::uint32_t>(rng.between(1, 8)));
    if (rng.chance(0.15))
      spec.groups[0].sharing = Sharing::kExclusive;
    if (rng.chance(0.2))
      spec.groups[0].tasks.max += 1;  // elastic: not of one size
    std::optional<PreemptLoss> least;
    for (std::uint32_t set = 0; set < 1u << field.candidates.size(); ++set) {
      PreemptLoss loss;
      std::vector<JobId> victims;
      for (std::size_t i = 0; i < field.candidates.size(); ++i)
        if (set >> i & 1) {
          loss += field.candidates[i].loss;
          victims.push_back(field.candidates[i].job->id);
        }
      if ((!least || loss < *least) && field.fits_without(spec, victims))
        least = loss;
    }
    const auto choice = field.choose(spec);
    ASSERT_EQ(choice.has_value(), least.has_value());
    if (!choice)
      continue;
    EXPECT_TRUE(field.fits_without(spec, choice->victims));
    EXPECT_FALSE(choice->loss < *least);
    const bool counted = spec.groups[0].tasks.min == spec.groups[0].tasks.max;
    if (counted && field.candidates.size() <= kTryAll) {
      EXPECT_EQ(choice->loss, *least);
    }
    if (!counted)
      continue;
    ++cases;
    exact += choice->loss == *least;
    if (least->work > 0)
      worst = std::max(worst, static_cast<double>(choice->loss.work) / static_cast<double>(least->work));
  }
  EXPECT_LE(worst, 1.5);
  EXPECT_GT(exact * 100, cases * 97);
}

}  // namespace
}  // namespace lockstep
