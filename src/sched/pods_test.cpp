// Jobs of one task beside each other: parts of cores, labels and marks of nodes, neighbours, spreading, precedence.
#include <set>

#include "model/job.h"
#include "rules/labels.h"
#include "rules/neighbours.h"
#include "sched/planner.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

using Wish = NeighbourTerm::Wish;

JobSpec pod(std::uint32_t milli, Labels labels = {{"app", "a"}}) {
  JobSpec spec;
  spec.front_end = "kubernetes";
  spec.time_limit = kForever;
  spec.scope = "lab";
  spec.labels = std::move(labels);
  spec.precedence = 0;
  spec.requeue = false;
  GroupSpec group;
  group.launch = Launch::kTasks;
  group.tasks = {1, 1};
  group.nodes = {1, 1};
  group.overcommit = true;
  group.spread = true;
  group.minds_marks = true;
  group.per_task.shared_milli = milli;
  spec.groups = std::vector<GroupSpec>{group};
  return spec;
}

template <class F>
JobSpec with(JobSpec spec, F change) {
  std::vector<GroupSpec> groups = spec.groups.get();
  change(groups.front());
  spec.groups = std::move(groups);
  return spec;
}

NeighbourTerm term(Wish wish, const std::string& app, const std::string& level = "", std::uint32_t weight = 0) {
  NeighbourTerm out{.wish = wish, .weight = weight, .level = level};
  out.scopes = {"lab"};
  out.jobs = {{.key = "app", .is = LabelRule::Is::kOneOf, .values = {app}}};
  return out;
}

JobSpec beside(Wish wish, const std::string& other, const std::string& own = "a", const std::string& level = "",
               std::uint32_t weight = 0) {
  return with(pod(100, {{"app", own}}),
              [&](GroupSpec& group) { group.neighbours = {term(wish, other, level, weight)}; });
}

class Pods : public testing::Test {
 protected:
  void nodes(std::uint32_t count, std::uint32_t cores = 8, std::uint32_t devices = 0) {
    core.add_partition("main", {"ALL"});
    for (std::uint32_t n = 1; n <= count; ++n) core.add_node(n, cores, devices);
  }
  void change(std::uint32_t id, const std::function<void(Node&)>& how) {
    Node node = *core.tables.node(NodeId{id});
    how(node);
    core.put(node);
  }
  void zone(std::uint32_t id, const std::string& name) {
    change(id, [&](Node& node) { node.labels = {{"zone", name}}; });
  }
  std::size_t run() { return driver.run(core, kNow); }
  std::uint32_t node_of(JobId id) const {
    const Job& job = *core.tables.job(id);
    return job.allocation ? job.allocation->grants.front().node.value : 0;
  }
  std::multiset<std::uint32_t> nodes_of(const std::vector<JobId>& jobs) const {
    std::multiset<std::uint32_t> out;
    for (const JobId id : jobs) out.insert(node_of(id));
    return out;
  }
  std::vector<JobId> add(std::size_t count, const JobSpec& spec) {
    std::vector<JobId> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(core.add_job(spec));
    return out;
  }

  MiniCore core;
  Driver driver;
};

TEST_F(Pods, a_node_has_so_many_seats_for_those_with_addresses) {
  nodes(2, 64);
  for (const std::uint32_t id : {1u, 2u}) change(id, [&](Node& node) { node.task_range = format("10.0.{}.0/24", id); });
  const JobSpec addressed = with(pod(10), [](GroupSpec& group) { group.sandbox.network = TaskNetwork::kOwn; });
  const std::vector<JobId> all = add(2 * kAddressedMax + 5, addressed);
  EXPECT_EQ(run(), 2 * kAddressedMax);
  EXPECT_EQ(nodes_of(all).count(1), kAddressedMax);
  EXPECT_EQ(nodes_of(all).count(2), kAddressedMax);
  add(3, pod(10));
  EXPECT_EQ(run(), 3u) << "who needs no address finds room";
  std::size_t ended = 0;
  for (const JobId id : all)
    if (node_of(id) == 2 && ended < 6 && ++ended)
      core.end(id);
  EXPECT_EQ(run(), 5u) << "who waits comes when others have gone";
}

TEST_F(Pods, a_node_of_8_cores_takes_80_that_ask_for_a_tenth) {
  nodes(1);
  add(81, pod(100));
  EXPECT_EQ(run(), 80u);
  EXPECT_EQ(run(), 0u);
  core.end(JobId{1});
  EXPECT_EQ(run(), 1u);
}

TEST_F(Pods, parts_of_cores_and_whole_ones_share_a_node) {
  nodes(1);
  EXPECT_EQ((add(3, pod(1500)), run()), 3u);
  core.add_job(ask(1, 0, minutes(5), 3));  // of 8 cores 3.5 are left
  EXPECT_EQ(run(), 1u);
  core.add_job(pod(500));
  EXPECT_EQ(run(), 1u);
  core.add_job(pod(100));
  EXPECT_EQ(run(), 0u);
  core.end(JobId{1});
  core.add_job(ask(1, 0, minutes(5), 2));  // 1.4 beside the pod that waited
  EXPECT_EQ(run(), 1u);
  core.add_job(ask(1, 0, minutes(5), 1));
  EXPECT_EQ(run(), 1u);
}

TEST_F(Pods, what_asks_for_nothing_fits_a_node_whose_cores_are_taken) {
  nodes(1);
  core.add_job(ask(1, 0, minutes(5), 8));
  EXPECT_EQ(run(), 1u);
  core.add_job(pod(0));
  EXPECT_EQ(run(), 1u);
}

TEST_F(Pods, are_spread_while_jobs_with_devices_are_packed) {
  nodes(4, 16, 8);
  const auto pods = add(4, pod(1000));
  EXPECT_EQ(run(), 4u);
  EXPECT_EQ(nodes_of(pods), (std::multiset<std::uint32_t>{1, 2, 3, 4}));
  const auto gpus = add(2, with(pod(1000), [](GroupSpec& group) {
                          group.spread = false;
                          group.per_task.devices = {{.count = 2}};
                        }));
  EXPECT_EQ(run(), 2u);
  EXPECT_EQ(node_of(gpus[0]), node_of(gpus[1]));
}

TEST_F(Pods, of_one_owner_are_spread_wherever_most_is_left) {
  nodes(3, 4);
  change(1, [](Node& node) { node.cores = 64; });
  const auto pods =
      add(6, with(pod(100), [](GroupSpec& group) { group.neighbours = {term(Wish::kEven, "a", "", 1)}; }));
  EXPECT_EQ(run(), 6u);
  EXPECT_EQ(nodes_of(pods), (std::multiset<std::uint32_t>{1, 1, 2, 2, 3, 3}));
}

TEST_F(Pods, that_keep_apart_have_a_node_each) {
  nodes(3);
  const auto pods = add(4, beside(Wish::kApart, "a"));
  EXPECT_EQ(run(), 3u);
  EXPECT_EQ(nodes_of(pods), (std::multiset<std::uint32_t>{0, 1, 2, 3}));
  core.end(pods[1]);
  EXPECT_EQ(run(), 1u);
}

TEST_F(Pods, others_keep_apart_from_do_not_come_either) {
  nodes(2);
  const JobId alone = core.add_job(beside(Wish::kApart, "noisy", "quiet"));
  EXPECT_EQ(run(), 1u);
  const auto noisy = add(3, pod(100, {{"app", "noisy"}}));
  EXPECT_EQ(run(), 3u);
  for (const JobId id : noisy) EXPECT_NE(node_of(id), node_of(alone));
}

TEST_F(Pods, that_must_be_near_follow_the_first) {
  nodes(4);
  for (std::uint32_t n = 1; n <= 4; ++n) zone(n, n <= 2 ? "east" : "west");
  const JobId other = core.add_job(beside(Wish::kNear, "cache", "web", "zone"));
  EXPECT_EQ(run(), 0u) << "there is no cache";
  const JobId cache = core.add_job(pod(100, {{"app", "cache"}}));
  EXPECT_EQ(run(), 2u);
  EXPECT_EQ(node_of(other) <= 2, node_of(cache) <= 2);
  const auto flock = add(4, beside(Wish::kNear, "flock", "flock", "zone"));
  EXPECT_EQ(run(), 4u) << "the first of all may lie anywhere";
  for (const JobId id : flock) EXPECT_EQ(node_of(id) <= 2, node_of(flock[0]) <= 2);
}

TEST_F(Pods, that_must_be_even_wait_rather_than_crowd) {
  nodes(3);
  for (std::uint32_t n = 1; n <= 3; ++n) zone(n, n <= 2 ? "east" : "west");
  change(3, [](Node& node) { node.cores = 1; });
  JobSpec wide = with(pod(600), [](GroupSpec& group) { group.neighbours = {term(Wish::kEven, "a", "zone")}; });
  const auto pods = add(4, wide);
  EXPECT_EQ(run(), 3u) << "one in the west, which has room for no more, and at most one more than that in the east";
  EXPECT_EQ(nodes_of(pods).count(3), 1u);
}

TEST_F(Pods, go_where_labels_and_marks_let_them) {
  nodes(3);
  change(1, [](Node& node) { node.labels = {{"disk", "ssd"}}; });
  change(2, [](Node& node) { node.marks = {{"team", "vision", NodeMark::Effect::kKeepsOff}}; });
  const JobId fast = core.add_job(with(pod(100), [](GroupSpec& group) {
    group.node_rules = {{.rules = {{.key = "disk", .is = LabelRule::Is::kOneOf, .values = {"ssd"}}}}};
  }));
  const auto plain = add(4, pod(100));
  const auto bearing =
      add(4, with(pod(100), [](GroupSpec& group) {
            group.bears = {{.key = "team", .value = "vision"}};
            group.node_rules = {{.rules = {{.key = "disk", .is = LabelRule::Is::kAbsent, .values = {}}}}};
          }));
  EXPECT_EQ(run(), 9u);
  EXPECT_EQ(node_of(fast), 1u);
  EXPECT_EQ(nodes_of(plain).count(2), 0u);
  EXPECT_EQ(nodes_of(bearing).count(1), 0u);
  EXPECT_GT(nodes_of(bearing).count(2), 0u);
  const JobId nowhere = core.add_job(with(pod(100), [](GroupSpec& group) {
    group.node_rules = {{.rules = {{.key = "disk", .is = LabelRule::Is::kOneOf, .values = {"tape"}}}}};
  }));
  EXPECT_EQ(run(), 0u);
  change(3, [](Node& node) { node.labels = {{"disk", "tape"}}; });
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(node_of(nowhere), 3u);
}

TEST_F(Pods, find_the_one_node_among_many_that_will_do) {
  nodes(300);
  change(17, [](Node& node) { node.labels = {{"disk", "ssd"}}; });
  const auto taken = add(3, with(pod(2000), [](GroupSpec& group) {
                           group.node_rules = {{.rules = {{.key = "disk", .is = LabelRule::Is::kThere, .values = {}}}}};
                         }));
  EXPECT_EQ(run(), 3u);
  EXPECT_EQ(nodes_of(taken).count(17), 3u);
}

TEST_F(Pods, prefer_labels_and_neighbours_by_their_weight) {
  nodes(4);
  change(4, [](Node& node) { node.labels = {{"disk", "ssd"}}; });
  const JobId fast = core.add_job(with(pod(100), [](GroupSpec& group) {
    group.node_wishes = {{50, {{.key = "disk", .is = LabelRule::Is::kOneOf, .values = {"ssd"}}}}};
  }));
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(node_of(fast), 4u);
  const JobId near = core.add_job(beside(Wish::kNear, "a", "b", "", 100));
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(node_of(near), 4u);
  const JobId far = core.add_job(beside(Wish::kApart, "a", "c", "", 100));
  EXPECT_EQ(run(), 1u);
  EXPECT_NE(node_of(far), 4u);
}

TEST_F(Pods, whom_their_neighbours_keep_out_do_not_hold_others_up) {
  nodes(2, 1);
  add(3, beside(Wish::kApart, "a"));
  EXPECT_EQ(run(), 2u);
  core.add_job(pod(800, {{"app", "b"}}));
  core.add_job(pod(800, {{"app", "b"}}));
  EXPECT_EQ(run(), 2u);
}

TEST_F(Pods, of_a_higher_precedence_take_the_place_of_lower_ones) {
  nodes(2, 1);
  JobSpec low = pod(900), middle = pod(900), high = pod(900);
  low.precedence = -5;
  high.precedence = 1000;
  const JobId first = core.add_job(low), second = core.add_job(middle);
  EXPECT_EQ(run(), 2u);
  JobSpec patient = high;
  patient.waits_its_turn = true;
  core.add_job(patient, 5);
  EXPECT_EQ(run(), 0u);
  EXPECT_FALSE(core.tables.job(first)->eviction);
  const JobId urgent = core.add_job(high, 10);
  run();
  EXPECT_TRUE(core.tables.job(first)->eviction || is_final(core.tables.job(first)->state)) << "the lowest goes";
  EXPECT_FALSE(core.tables.job(second)->eviction);
  core.evict_due(kNow + seconds(1));
  for (int i = 0; i < 3; ++i) driver.run(core, kNow + seconds(2));
  EXPECT_NE(node_of(urgent), 0u);
  EXPECT_EQ(core.tables.job(second)->state, JobState::kRunning);
}

// What the index of nodes does not know is waited for, too.
TEST_F(Pods, counted_resources_alone_are_waited_for) {
  nodes(1);
  change(1, [](Node& node) { node.counted = {{"disk", 10}}; });
  const auto wants = [](std::int64_t count) {
    return with(pod(0), [&](GroupSpec& group) { group.per_task.counted = {{"disk", count}}; });
  };
  const JobId has = core.add_job(wants(8));
  EXPECT_EQ(run(), 1u);
  const JobId waits = core.add_job(wants(5));
  EXPECT_EQ(run(), 0u);
  EXPECT_EQ(run(), 0u);
  core.end(has);
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(node_of(waits), 1u);
}

TEST_F(Pods, addresses_alone_are_waited_for) {
  nodes(1);
  change(1, [](Node& node) { node.task_range = "10.0.1.0/24"; });
  const JobSpec one = with(pod(0), [](GroupSpec& group) { group.sandbox.network = TaskNetwork::kOwn; });
  std::vector<JobId> there;
  for (std::uint32_t i = 0; i < kAddressedMax; ++i) there.push_back(core.add_job(one));
  std::size_t started = 0;
  while (const std::size_t more = run()) started += more;
  ASSERT_EQ(started, kAddressedMax);
  const JobId waits = core.add_job(one);
  EXPECT_EQ(run(), 0u);
  EXPECT_EQ(run(), 0u);
  core.end(there.front());
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(node_of(waits), 1u);
}

TEST_F(Pods, changed_labels_of_who_is_there_count) {
  nodes(1);
  const JobId there = core.add_job(pod(100, {{"app", "b"}}));
  EXPECT_EQ(run(), 1u);
  core.add_job(beside(Wish::kNear, "c"));
  EXPECT_EQ(run(), 0u);
  const auto relabel = [&](const char* app) {
    Job job = *core.tables.job(there);
    JobSpec spec = *job.spec;
    spec.labels = Labels{{"app", app}};
    job.spec = std::make_shared<const JobSpec>(std::move(spec));
    core.put(job);
  };
  relabel("c");
  EXPECT_EQ(run(), 1u);
  core.add_job(beside(Wish::kApart, "d", "e"));
  relabel("d");
  EXPECT_EQ(run(), 0u);
  relabel("c");
  EXPECT_EQ(run(), 1u);
}

// --- against what is obvious and slow ---

struct Slow {
  const MiniCore& core;

  static bool means_job(const NeighbourTerm& t, const JobSpec& spec) {
    return (t.every_scope || std::ranges::count(t.scopes, std::string(spec.scope)) > 0) &&
           rules_hold(t.jobs, spec.labels.get());
  }
  std::optional<std::string> place_of(const Node& node, const NeighbourTerm& t) const {
    if (t.level.empty())
      return node.meta.name;
    for (const auto& [key, value] : node.labels)
      if (key == t.level)
        return value;
    return std::nullopt;
  }
  // Jobs but `self` that the term means, in the node's place; place "": in all.
  std::size_t count(const NeighbourTerm& t, const std::optional<std::string>& place, JobId self) const {
    std::size_t out = 0;
    for (const auto& [id, job] : core.tables.jobs)
      if (id != self && job->allocation && means_job(t, *job->spec))
        out += !place || place_of(*core.tables.node(job->allocation->grants[0].node), t) == place;
    return out;
  }
  bool allowed(const Job& job, const Node& node) const {
    const GroupSpec& group = job.spec->groups.get().front();
    bool any_near = false, all_new = true;
    for (const NeighbourTerm& t : group.neighbours)
      if (t.wish == Wish::kNear && t.weight == 0) {
        any_near = true;
        all_new = all_new && count(t, std::nullopt, job.id) == 0 && means_job(t, *job.spec);
      }
    for (const NeighbourTerm& t : group.neighbours) {
      if (t.weight > 0)
        continue;
      const auto place = place_of(node, t);
      const std::size_t here = place ? count(t, place, job.id) : 0;
      if (t.wish == Wish::kNear && (!place || (here == 0 && !(any_near && all_new))))
        return false;
      if (t.wish == Wish::kApart && here > 0)
        return false;
      if (t.wish != Wish::kEven)
        continue;
      if (!place)
        return false;
      std::size_t least = SIZE_MAX;
      for (const auto& [id, other] : core.tables.nodes)
        if (const auto there = place_of(*other, t); there && node_rules_hold(group, *other))
          least = std::min(least, count(t, there, job.id));
      if (here + means_job(t, *job.spec) > least + t.skew_max)
        return false;
    }
    for (const auto& [id, other] : core.tables.jobs)
      if (id != job.id && other->allocation)
        for (const NeighbourTerm& t : other->spec->groups.get().front().neighbours)
          if (t.wish == Wish::kApart && t.weight == 0 && means_job(t, *job.spec)) {
            const auto theirs = place_of(*core.tables.node(other->allocation->grants[0].node), t);
            if (theirs && place_of(node, t) == theirs)
              return false;
          }
    return true;
  }
  bool fits(const Job& job, const Node& node) const {
    const auto known = core.loads.find(node.id);
    const NodeLoad load = known == core.loads.end() ? NodeLoad{} : known->second;
    const GroupSpec& group = job.spec->groups.get().front();
    return eligible(node, *core.tables.partition("main"), group) && tasks_that_fit(node, load, group) > 0;
  }
};

TEST(PodsReference, nobody_waits_who_has_a_place) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    MiniCore core;
    Driver driver;
    core.add_partition("main", {"ALL"});
    const auto nodes = static_cast<std::uint32_t>(rng.between(1, 6));
    for (std::uint32_t n = 1; n <= nodes; ++n) {
      core.add_node(n, static_cast<std::uint32_t>(rng.between(1, 3)), 0);
      Node node = *core.tables.node(NodeId{n});
      if (rng.below(4) > 0)
        node.labels = {{"zone", format("z{}", rng.below(3))}};
      if (rng.below(4) == 0)
        node.marks = {{"team", "x", NodeMark::Effect::kKeepsOff}};
      core.put(node);
    }
    const auto app = [&] { return format("{}", static_cast<char>('a' + rng.below(3))); };
    for (int round = 0; round < 6; ++round) {
      for (auto left = rng.below(4); left > 0; --left) {
        const std::string level = rng.below(2) ? "zone" : "";
        JobSpec spec = pod(static_cast<std::uint32_t>(rng.between(0, 9)) * 100, {{"app", app()}});
        spec = with(std::move(spec), [&](GroupSpec& group) {
          for (auto terms = rng.below(3); terms > 0; --terms)
            group.neighbours.push_back(term(static_cast<Wish>(rng.below(3)), app(), level, rng.below(3) == 0 ? 10 : 0));
          if (rng.below(3) == 0)
            group.bears = {{.key = "team", .any_value = true, .any_effect = true}};
          group.spread = rng.below(4) > 0;
        });
        core.add_job(std::move(spec));
      }
      std::vector<JobId> running;
      for (const auto& [id, job] : core.tables.jobs)
        if (job->allocation)
          running.push_back(id);
      if (!running.empty() && rng.below(2))
        core.end(running[rng.below(running.size())]);
      driver.run(core, kNow);
      const Slow slow{core};
      for (const auto& [id, job] : core.tables.jobs)
        for (const auto& [n, node] : core.tables.nodes)
          if (job->state == JobState::kPending)
            ASSERT_FALSE(slow.fits(*job, *node) && slow.allowed(*job, *node))
                << "job " << id.value << " waits and could start on " << node->meta.name;
    }
  }
}

}  // namespace
}  // namespace lockstep
