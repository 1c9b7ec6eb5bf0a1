// What explain says of a job: every filter, who is ahead, what stands in the way, and suggestions that hold when they
// are followed in the real core with the real planner.
#include "foresight/explain.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "foresight/job_words.h"
#include "foresight/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

struct ExplainScene : PlannedWorld {
  using PlannedWorld::PlannedWorld;
  Explanation explain(JobId id, ExplainSettings settings = {}) {
    auto out = lockstep::explain(world.state.tables(), clock(), id, settings);
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().message);
    return out.ok() ? *out : Explanation{};
  }
  void put_partition(const std::string& name, std::vector<std::string> nodes, std::uint32_t tier = 1) {
    Partition partition;
    partition.meta.name = name;
    partition.nodes = std::move(nodes);
    partition.tier = tier;
    world.must(PutPartition{partition});
  }
};

const NodeFilter* filter(const Explanation& e, std::string_view name) {
  for (const NodeFilter& f : e.funnels.at(0).filters)
    if (f.name == name)
      return &f;
  return nullptr;
}

const Suggestion* suggestion(const Explanation& e, const Remedy& remedy) {
  for (const Suggestion& s : e.suggestions)
    if (s.remedy == remedy)
      return &s;
  return nullptr;
}

using What = remedy::Without::What;

// The first of that kind.
template <class Kind>
const Suggestion* any(const Explanation& e) {
  for (const Suggestion& s : e.suggestions)
    if (std::holds_alternative<Kind>(s.remedy))
      return &s;
  return nullptr;
}

// Whatever it will likely run.
const Suggestion* shorter_limit(const Explanation& e, Duration limit, Duration instead_of) {
  for (const Suggestion& s : e.suggestions)
    if (const auto* found = std::get_if<remedy::ShorterLimit>(&s.remedy);
        found && found->limit == limit && found->instead_of == instead_of)
      return &s;
  return nullptr;
}

std::string all(const Explanation& e) {
  std::string out = e.because;
  for (const Suggestion& s : e.suggestions)
    out +=
        "\nremedy " + std::to_string(s.remedy.index()) + " -> " + s.then.nodes + " " + std::to_string(s.then.start.us);
  for (const NodeFunnel& f : e.funnels)
    for (const NodeFilter& n : f.filters) out += "\n" + n.name + " " + std::to_string(n.left) + " " + n.lost;
  return out;
}

// The planner should not propose what the core refuses. Where it does, it is the reason why a job waits.
TEST(Explain, KnowsOfStartsThatTheCoreRefused) {
  ExplainScene scene(2);
  const JobId id = scene.submit(World::batch(1), hours(1));
  ClusterCopy copy(scene.world.state.tables(), scene.clock());
  EXPECT_EQ(copy.refused(id), nullptr);
  PlannedStart start{.job = id, .read = scene.world.job(id).meta.seq, .partition = "main"};
  start.grants.resize(1);
  start.grants[0].node = scene.world.id(1);
  start.grants[0].tasks = 1;  // and too few cores
  copy.propose(ApplyPlan{{start}});
  const RefusedPart* refused = copy.refused(id);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->reason, "NotAsAsked");
  const std::string words = refused_words(*refused);
  EXPECT_NE(words.find("NotAsAsked: a grant is too small"), std::string::npos) << words;
  copy.plan();
  EXPECT_EQ(copy.refused(id), nullptr) << "it has started";
}

TEST(Explain, CountsNodesAtEveryFilter) {
  ExplainScene scene(8);
  scene.world.must(UpdateNode{.name = "n1", .drain = true, .reason = "fan"});
  scene.world.lose(2);
  scene.world.must(UpdateNode{.name = "n3", .features = std::vector<std::string>{"slow"}});
  for (int i = 4; i <= 8; ++i)
    scene.world.must(UpdateNode{.name = World::name_of(static_cast<std::uint32_t>(i)),
                                .features = std::vector<std::string>{"fast"}});
  scene.put_partition("main", {"n1", "n2", "n3", "n4", "n5", "n6", "n7"});
  JobSpec holder = World::batch(1, 8);
  holder.partitions = {"main"};
  holder.groups[0].only_nodes = {"n4"};
  holder.groups[0].nodes = {1, 1};
  scene.submit(holder, hours(2));
  JobSpec without = World::batch(1, 0);
  without.partitions = {"main"};
  without.groups[0].only_nodes = {"n5"};
  scene.submit(without, hours(1));  // ends sooner, and holds no GPU
  scene.plan();

  JobSpec spec = World::batch(4, 8);
  spec.partitions = {"main"};
  spec.groups[0].constraint = "fast";
  const Explanation e = scene.explain(scene.submit(spec, hours(1)));
  ASSERT_EQ(e.funnels.size(), 1u);
  EXPECT_EQ(e.funnels[0].wanted, 4u);
  ASSERT_TRUE(filter(e, "in partition main"));
  EXPECT_EQ(filter(e, "in partition main")->left, 7u);
  EXPECT_EQ(filter(e, "up")->left, 5u);
  EXPECT_EQ(filter(e, "up")->lost, "1 down, 1 drained");
  EXPECT_EQ(filter(e, "up")->example, "n1: drained, fan");
  EXPECT_EQ(filter(e, "allowed")->left, 4u);
  EXPECT_EQ(filter(e, "allowed")->lost, "1 without the features");
  EXPECT_EQ(filter(e, "large enough")->left, 4u);
  EXPECT_EQ(filter(e, "free now")->left, 3u) << all(e);
  EXPECT_EQ(filter(e, "free now")->lost, "1 with GPUs taken");
  EXPECT_EQ(filter(e, "free now")->example, "n4: its GPUs are taken");
  EXPECT_EQ(e.because, "4 nodes are needed, 3 are free now.") << all(e);
  EXPECT_EQ(e.expected.start.us, (scene.world.now + hours(2)).us);
  ASSERT_EQ(e.in_the_way.size(), 2u);
  EXPECT_EQ(e.in_the_way[0].nodes, "n4");
  EXPECT_EQ(e.in_the_way[1].nodes, "n5");
}

TEST(Explain, FewerNodesNow) {
  ExplainScene scene(8);
  scene.submit(World::batch(2, 8), hours(10));
  scene.plan();
  const JobId job = scene.submit(World::batch(8, 8), hours(4));
  const Explanation e = scene.explain(job);
  const Suggestion* s = suggestion(e, remedy::FewerNodes{6, 8, 6});
  ASSERT_TRUE(s) << all(e);
  EXPECT_TRUE(s->then.started);
  EXPECT_LE(e.plans, 24u);
  // Followed, it holds.
  scene.world.must(UpdateJob{.target = {job, std::nullopt}, .nodes = CountRange{6, 6}, .tasks = CountRange{6, 6}});
  scene.plan();
  EXPECT_TRUE(holds_allocation(scene.world.state_of(job)));
}

TEST(Explain, AShorterLimitFitsBeforeTheHead) {
  ExplainScene scene(4);
  scene.submit(World::batch(3, 8), hours(4));
  scene.plan();
  JobSpec all_four = World::batch(4, 8);
  all_four.priority = 4'000'000'000;
  const JobId head = scene.submit(all_four, hours(10));  // waits for all four, promised in four hours
  const JobId job = scene.submit(World::batch(1, 8), hours(6));
  const Explanation e = scene.explain(job);
  ASSERT_EQ(e.first_ahead.size(), 1u);
  EXPECT_EQ(e.first_ahead[0].job, head);
  EXPECT_EQ(e.first_ahead[0].why, "priority");
  const NodeFilter* kept = filter(e, "not kept for others");
  ASSERT_TRUE(kept) << all(e);
  EXPECT_EQ(kept->left, 0u);
  const Suggestion* s = shorter_limit(e, hours(4), hours(6));
  ASSERT_TRUE(s) << all(e);
  EXPECT_TRUE(s->then.started);
  scene.world.must(UpdateJob{.target = {job, std::nullopt}, .time_limit = hours(4)});
  scene.plan();
  EXPECT_TRUE(holds_allocation(scene.world.state_of(job)));
}

TEST(Explain, AnotherPartition) {
  ExplainScene scene(4);
  scene.put_partition("a", {"n1", "n2"});
  scene.put_partition("b", {"n3", "n4"});
  JobSpec spec = World::batch(2, 8);
  spec.partitions = {"a"};
  scene.submit(spec, hours(5));
  scene.plan();
  const JobId job = scene.submit(spec, hours(5));
  const Explanation e = scene.explain(job);
  const Suggestion* s = suggestion(e, remedy::OtherPartition{"b"});
  ASSERT_TRUE(s) << all(e);
  EXPECT_EQ(s->then.nodes, "n[3-4]");
}

TEST(Explain, FewerGpusAndDroppedConditions) {
  ExplainScene scene(2);
  for (int i = 0; i < 2; ++i) scene.submit(World::batch(1, 5), hours(5));
  scene.plan();
  const Explanation gpus = scene.explain(scene.submit(World::batch(1, 6), hours(5)));
  const Suggestion* s = suggestion(gpus, remedy::FewerDevices{remedy::DevicesPer::kNode, 3, 6});
  ASSERT_TRUE(s) << all(gpus);
  EXPECT_TRUE(s->then.started);

  JobSpec alone = World::batch(1, 1);
  alone.groups[0].sharing = Sharing::kExclusive;
  const Explanation exclusive = scene.explain(scene.submit(alone, hours(5)));
  ASSERT_TRUE(suggestion(exclusive, remedy::Without{What::kWholeNodes})) << all(exclusive);

  scene.world.must(UpdateNode{.name = "n1", .features = std::vector<std::string>{"a"}});
  JobSpec featured = World::batch(1, 4);
  featured.groups[0].constraint = "a";
  const Explanation e = scene.explain(scene.submit(featured, hours(5)));
  EXPECT_EQ(filter(e, "allowed")->left, 1u);
}

TEST(Explain, HeldAndDependent) {
  ExplainScene scene(2);
  JobSpec held = World::batch(1);
  held.hold = true;
  const JobId first = scene.submit(held, hours(1));
  const Explanation e = scene.explain(first);
  EXPECT_EQ(e.expected.reason, "JobHeldUser");
  EXPECT_EQ(e.because, "It is held by its owner.");
  ASSERT_TRUE(suggestion(e, remedy::Release{}));
  EXPECT_TRUE(suggestion(e, remedy::Release{})->then.started);

  JobSpec after = World::batch(1);
  after.dependencies = std::vector<Dependency>{{Dependency::Type::kAfterOk, first, {}}};
  const Explanation d = scene.explain(scene.submit(after, hours(1)));
  EXPECT_EQ(d.expected.reason, "Dependency");
  EXPECT_EQ(d.because, "It waits for job 1 to end well (pending).");
  EXPECT_TRUE(suggestion(d, remedy::Without{What::kDependency}));
}

TEST(Explain, NotBeforeItsTimeAndAfterItsEnd) {
  ExplainScene scene(2);
  JobSpec later = World::batch(1);
  later.begin = WallTime{(scene.world.now + hours(3)).us};
  const Explanation e = scene.explain(scene.submit(later, hours(1)));
  EXPECT_EQ(e.expected.reason, "BeginTime");
  EXPECT_EQ(e.because, "It may not begin before the time its owner named.");
  EXPECT_EQ(e.topic, ReasonTopic::kBeginTime);
  EXPECT_EQ(e.not_before, later.begin);

  const JobId gone = scene.submit(World::batch(1), hours(1));
  scene.world.must(CancelJob{.target = {gone, std::nullopt}});
  const Explanation ended = scene.explain(gone);
  EXPECT_TRUE(ended.because.starts_with("It was cancelled")) << ended.because;
  EXPECT_EQ(ended.topic, ReasonTopic::kAccounting);
  EXPECT_EQ(ended.not_before, WallTime{});
}

TEST(Explain, AheadByTierAndPriority) {
  ExplainScene scene(2);
  scene.put_partition("urgent", {"ALL"}, 5);
  scene.put_partition("side", {"n1"});
  scene.submit(World::batch(2, 8), hours(5));
  scene.plan();
  JobSpec first = World::batch(2, 8);
  first.priority = 4'000'000'000;
  const JobId job = scene.submit(first, hours(5));
  JobSpec urgent = World::batch(2, 8);
  urgent.partitions = {"urgent", scene.world.state.tables().default_partition()->meta.name};
  const JobId tier = scene.submit(urgent, hours(5));
  JobSpec elsewhere = World::batch(1, 8);
  elsewhere.partitions = {"side"};
  scene.submit(elsewhere, hours(5));
  const Explanation e = scene.explain(job);
  EXPECT_EQ(e.ahead, 1u);
  ASSERT_EQ(e.first_ahead.size(), 1u);
  EXPECT_EQ(e.first_ahead[0].job, tier);
  EXPECT_EQ(e.first_ahead[0].why, "tier");
  first.priority = 4'000'000'001;
  const JobId before = scene.submit(first, hours(5));
  const Explanation again = scene.explain(job);
  ASSERT_EQ(again.first_ahead.size(), 2u);
  EXPECT_EQ(again.first_ahead[1].job, before);
  EXPECT_EQ(again.first_ahead[1].why, "priority");
}

TEST(Explain, ALimitIsNamed) {
  ExplainScene scene(2);
  Qos gold;
  gold.meta.name = "gold";
  gold.limits.max_jobs_per_user = 1;
  scene.world.must(PutQos{gold});
  JobSpec spec = World::batch(1, 1);
  spec.qos = "gold";
  scene.submit(spec, hours(1));
  scene.plan();
  const JobId job = scene.submit(spec, hours(1));
  const Explanation e = scene.explain(job);
  EXPECT_EQ(e.expected.reason, "QOSMaxJobsPerUserLimit");
  EXPECT_TRUE(e.because.starts_with("A limit or quota is reached: QOSMaxJobsPerUserLimit")) << e.because;
  EXPECT_EQ(filter(e, "free now")->left, 2u);
}

// It can never start, and the way out is a limit: what is told holds when it is followed.
TEST(Explain, WhatAWeeklyWindowNeverLetsStart) {
  ExplainScene scene(2);
  Reservation maint;
  maint.meta.name = "maint";
  maint.start = WallTime{scene.world.now.us + hours(30).us};
  maint.duration = hours(4);
  maint.recurrence = Recurrence::kWeekly;
  maint.maint = true;
  maint.nodes = {"ALL"};
  maint.users = {"root"};
  scene.world.must(PutReservation{maint});
  const JobId job = scene.submit(World::batch(1, 1), kForever);
  const Explanation e = scene.explain(job);
  EXPECT_EQ(e.expected.reason, "ReqNodeNotAvail, Reserved for maintenance");
  EXPECT_EQ(e.expected.start, WallTime{});
  EXPECT_EQ(e.because,
            "Reservation maint comes again every week and leaves its nodes for 6-20:00:00 at a time, but the job may "
            "run without limit: it can never start; give it a time limit of 6-20:00:00 or less.");
  EXPECT_EQ(e.topic, ReasonTopic::kTimeLimit);
  const Suggestion* limit = any<remedy::ShorterLimit>(e);
  ASSERT_NE(limit, nullptr) << all(e);
  EXPECT_TRUE(limit->then.started) << "before the first window there is time for thirty hours: " << all(e);
}

TEST(Explain, BeforeTheMaintenanceWindow) {
  ExplainScene scene(2);
  Reservation maint;
  maint.meta.name = "maint";
  maint.start = WallTime{(scene.world.now + hours(2)).us};
  maint.duration = hours(8);
  maint.nodes = {"ALL"};
  maint.users = {"bob"};
  maint.maint = maint.ignore_jobs = true;
  scene.world.must(PutReservation{maint});
  const JobId job = scene.submit(World::batch(2, 8), hours(4));
  const Explanation e = scene.explain(job);
  EXPECT_EQ(filter(e, "not reserved")->left, 0u) << all(e);
  EXPECT_EQ(filter(e, "not reserved")->example, "n1: reservation maint");
  EXPECT_GE(e.expected.start.us, (scene.world.now + hours(10)).us);
  const Suggestion* s = shorter_limit(e, hours(2), hours(4));
  ASSERT_TRUE(s) << all(e);
  EXPECT_TRUE(s->then.started);
  scene.world.must(UpdateJob{.target = {job, std::nullopt}, .time_limit = hours(2)});
  scene.plan();
  EXPECT_TRUE(holds_allocation(scene.world.state_of(job)));
}

// Two spines of two leaves of four nodes each.
void put_tree(ExplainScene& scene) {
  Topology tree;
  tree.levels = {"spine", "leaf"};
  for (int leaf = 0; leaf < 4; ++leaf) {
    TopologyLeaf one{.path = {format("s{}", leaf / 2 + 1), format("l{}", leaf + 1)}, .nodes = {}};
    for (int n = 1; n <= 4; ++n) one.nodes.push_back(World::name_of(static_cast<std::uint32_t>(4 * leaf + n)));
    tree.leaves.push_back(one);
  }
  scene.world.must(PutTopology{tree});
}
void hold_nodes(ExplainScene& scene, const std::vector<std::uint32_t>& nodes, Duration limit) {
  for (const std::uint32_t n : nodes) {
    JobSpec spec = World::batch(1, 8);
    spec.groups[0].only_nodes = {World::name_of(n)};
    spec.groups[0].nodes = {1, 1};
    scene.submit(spec, limit);
  }
  scene.plan();
}
JobSpec placed(std::uint32_t nodes, const std::string& level) {
  JobSpec spec = World::batch(nodes, 8);
  spec.groups[0].nodes = {nodes, nodes};
  spec.groups[0].topology_level = level;
  return spec;
}

TEST(Explain, TopologyIsAFilterAndAWiderLevelIsProposed) {
  ExplainScene scene(16);
  put_tree(scene);
  hold_nodes(scene, {1, 5, 6, 9, 13, 14}, hours(5));  // l1 3 free, l2 2, l3 3, l4 2
  const JobId job = scene.submit(placed(4, "!leaf"), hours(1));
  const Explanation e = scene.explain(job);
  const NodeFilter* f = filter(e, "topology: under one leaf");
  ASSERT_TRUE(f) << all(e);
  EXPECT_EQ(f->left, 3u);
  EXPECT_EQ(f->lost, "7 elsewhere");
  EXPECT_EQ(f->example, "n7: leaf l2");
  EXPECT_EQ(e.because, "4 nodes are needed under one leaf; of the 10 that are free now, 3 lie so.") << all(e);
  const Suggestion* s = suggestion(e, remedy::WiderLevel{"spine", "leaf"});
  ASSERT_TRUE(s) << all(e);
  EXPECT_TRUE(s->then.started);
  EXPECT_TRUE(any<remedy::FewerNodes>(e)) << all(e);
  EXPECT_FALSE(suggestion(e, remedy::Without{What::kTopology})) << all(e);
  // Followed, it holds.
  const JobId anew = scene.submit(placed(4, "!spine"), hours(1));
  scene.plan();
  EXPECT_TRUE(holds_allocation(scene.world.state_of(anew)));
  EXPECT_FALSE(holds_allocation(scene.world.state_of(job)));
}

TEST(Explain, SwitchesAndSegmentsAreCounted) {
  ExplainScene scene(16);
  put_tree(scene);
  hold_nodes(scene, {1, 5, 6, 9, 13, 14}, hours(5));
  const Explanation one = scene.explain(scene.submit(placed(4, "!leaf"), hours(1)));
  EXPECT_EQ(filter(one, "topology: under one leaf")->left, 3u);
  JobSpec spec = placed(8, "");
  spec.groups[0].switches_max = 2;
  spec.groups[0].switches_wait = kForever;
  const Explanation two = scene.explain(scene.submit(spec, hours(1)));
  ASSERT_TRUE(filter(two, "topology: on 2 switches")) << all(two);
  EXPECT_EQ(filter(two, "topology: on 2 switches")->left, 6u);
  const Suggestion* s = suggestion(two, remedy::MoreSwitches{3, 2});
  ASSERT_TRUE(s) << all(two);
  EXPECT_TRUE(s->then.started);

  spec = placed(10, "");
  spec.groups[0].switches_max = 3;
  spec.groups[0].switches_wait = kForever;
  const Explanation all_free = scene.explain(scene.submit(spec, hours(1)));
  ASSERT_TRUE(suggestion(all_free, remedy::MoreSwitches{4, 3})) << all(all_free);

  spec = placed(8, "");
  spec.groups[0].segment = 4;
  const Explanation segments = scene.explain(scene.submit(spec, hours(1)));
  const NodeFilter* f = filter(segments, "topology: in segments of 4");
  ASSERT_TRUE(f) << all(segments);
  EXPECT_EQ(f->left, 0u);
  EXPECT_EQ(f->lost, "10 beyond whole segments");
  ASSERT_TRUE(suggestion(segments, remedy::Without{What::kSegment})) << all(segments);
  EXPECT_TRUE(suggestion(segments, remedy::Without{What::kSegment})->then.started);
}

TEST(Explain, ThePlansAreBounded) {
  ExplainScene scene(8);
  scene.submit(World::batch(2, 8), hours(10));
  scene.plan();
  const Explanation e = scene.explain(scene.submit(World::batch(8, 8), hours(4)), {.plans_max = 2});
  EXPECT_EQ(e.plans, 2u);
  EXPECT_FALSE(e.all_tried);
}

TEST(Explain, AQueueBehindDoesNotChangeTheAnswer) {
  ExplainScene scene(8);
  scene.submit(World::batch(2, 8), hours(10));
  scene.plan();
  const JobId job = scene.submit(World::batch(8, 8), hours(4));
  for (int i = 0; i < 30; ++i) scene.submit(World::batch(8, 8), hours(1 + i % 7));
  const Explanation whole = scene.explain(job, {.whole_queue_max = 1000});
  const Explanation lean = scene.explain(job, {.whole_queue_max = 5});
  ASSERT_EQ(whole.suggestions.size(), lean.suggestions.size());
  for (std::size_t i = 0; i < whole.suggestions.size(); ++i) {
    EXPECT_EQ(whole.suggestions[i].remedy, lean.suggestions[i].remedy);
    EXPECT_EQ(whole.suggestions[i].then, lean.suggestions[i].then);
  }
}

// Two other nodes of the class are free: their number says nothing of the one that is named.
TEST(Explain, ANamedNodeIsAwaitedAndNotItsClass) {
  for (const Duration limit : {kForever, hours(5)}) {
    ExplainScene scene(3);
    JobSpec on_third = World::batch(1, 8);
    on_third.groups = [&] {
      std::vector<GroupSpec> groups = on_third.groups.get();
      groups[0].only_nodes = {"n3"};
      return groups;
    }();
    scene.submit(on_third, limit);
    scene.plan();
    scene.submit(World::batch(3, 8), hours(1));
    const JobId second = scene.submit(on_third, hours(1));
    const Foreseen expected = scene.explain(second).expected;
    if (limit >= kForever)
      EXPECT_FALSE(expected.start) << expected.start.us;
    else
      EXPECT_GE(expected.start.us, (scene.world.now + limit).us);
  }
}

TEST(Explain, ArraysAndRunningJobs) {
  ExplainScene scene(2);
  JobSpec spec = World::batch(1, 8);
  spec.time_limit = hours(3);
  const JobId array = scene.world.submit_array(spec, "1-4");
  EXPECT_TRUE(scene.explain(array).expected.started);
  scene.plan();
  const Explanation e = scene.explain(array);
  EXPECT_FALSE(e.expected.started);
  EXPECT_EQ(e.expected.start.us, (scene.world.now + hours(3)).us);
  const JobId element = scene.world.element(array, 1).id;
  EXPECT_EQ(scene.explain(element).because, "It has its nodes.");
  EXPECT_FALSE(explain(scene.world.state.tables(), scene.clock(), JobId{99}).ok());
}

}  // namespace
}  // namespace lockstep
