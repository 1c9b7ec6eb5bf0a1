// What packing learns, the law that only the record counts, and where requests go by price.
#include "sched/packing.h"

#include "model/job.h"
#include "rules/packing.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

PackRequest share_of(std::uint16_t milli, std::vector<std::string> models = {}) {
  return {1000, 1, milli, std::move(models)};
}
const PackGround kGround{{"a100", "h100"}, 80 * kPackDeviceMilli, 20 * 64000};

std::vector<PackStock> idle_nodes() {
  PackRoom room{.cpu_milli = 64000, .devices = 4};
  std::fill_n(room.free_milli.begin(), 4, kPackDeviceMilli);
  PackRoom other = room;
  other.kind = 1;
  return {{room, 10}, {other, 10}};
}

TEST(Packing, TheNextRecordIsAFunctionOfTheLastOne) {
  const PackArrivals arrivals{{share_of(650), 10}, {share_of(350), 10}, {share_of(1000, {"h100"}), 3}};
  Packing one = next_packing({}, nullptr, JobId{23}, arrivals, kGround, idle_nodes());
  EXPECT_EQ(one.through, JobId{23});
  EXPECT_EQ(one.arrivals, 23u);
  EXPECT_EQ(one.classes.size(), 3u);
  EXPECT_GT(one.steps, 0u);
  EXPECT_TRUE(check_packing(one, nullptr, JobId{23}).ok());
  const Packing last = one;
  for (int i = 0; i < 20; ++i) {
    const Packing next = next_packing({}, &one, JobId{one.through.value + 23}, arrivals, kGround, idle_nodes());
    const Packing same = next_packing({}, &one, JobId{one.through.value + 23}, arrivals, kGround, idle_nodes());
    EXPECT_EQ(next.classes, same.classes);
    EXPECT_TRUE(check_packing(next, &one, next.through).ok());
    one = next;
  }
  EXPECT_LT(one.classes[0].weight, 210 * kPackOne);  // older ones count less
  EXPECT_GT(one.classes[0].weight, 208 * kPackOne);
  EXPECT_NE(one.classes, last.classes);
}

TEST(Packing, ClassesAreBoundedAndTheLightestMakesRoom) {
  PackArrivals many;
  for (int i = 0; i < 600; ++i) many[{i * 1000 % 512'000, 1, static_cast<std::uint16_t>(1 + i), {}}] = i == 0 ? 1 : 2;
  PackSettings settings;
  settings.work_max = 1;
  const Packing full = next_packing(settings, nullptr, JobId{1}, many, kGround, idle_nodes());
  EXPECT_EQ(full.classes.size(), kPackClassesMax);
  EXPECT_EQ(full.steps, 1u);  // a step costs much more than was allowed; one is always made
  EXPECT_TRUE(check_packing(full, nullptr, JobId{1}).ok());
}

TEST(Packing, RecordsOfNonsenseAreTold) {
  const Packing good = next_packing({}, nullptr, JobId{9}, {{share_of(500), 9}}, kGround, idle_nodes());
  const auto error = [&](auto change, const Packing* last = nullptr) {
    Packing bad = good;
    change(bad);
    const auto result = check_packing(bad, last, JobId{9});
    return result.ok() ? "" : result.error().message;
  };
  EXPECT_EQ(error([](Packing&) {}), "");
  EXPECT_NE(error([](Packing& p) { p.classes[0].weight = -1; }), "");
  EXPECT_NE(error([](Packing& p) { p.classes[0].price = -1; }), "");
  EXPECT_NE(error([](Packing& p) { p.classes[0].price = kPackPriceMax + 1; }), "");
  EXPECT_NE(error([](Packing& p) { p.classes[0].milli = 1001; }), "");
  EXPECT_NE(error([](Packing& p) { p.classes[0].devices = 0; }), "");
  EXPECT_NE(error([](Packing& p) { p.classes[0].devices = 17; }), "");
  EXPECT_NE(error([](Packing& p) { p.classes[0].devices = 2; }), "");
  EXPECT_NE(error([](Packing& p) { p.classes[0].cpu_milli = -1; }), "");
  EXPECT_NE(error([](Packing& p) { p.classes[0].models = {"b", "a"}; }), "");
  EXPECT_NE(error([](Packing& p) { p.classes[0].models = {"a", "a"}; }), "");
  EXPECT_NE(error([](Packing& p) { p.classes.push_back(p.classes[0]); }), "");
  EXPECT_NE(error([](Packing& p) { p.classes.resize(kPackClassesMax + 1); }), "");
  EXPECT_NE(error([](Packing& p) { p.through = JobId{10}; }), "");
  EXPECT_NE(error([](Packing& p) { p.through = JobId{8}; }, &good), "");
  EXPECT_NE(error([](Packing& p) { p.arrivals = 1; }, &good), "");
}

JobSpec share_job(std::uint16_t milli, std::uint32_t cores = 1) {
  JobSpec spec = ask(1, 1, kForever, cores);
  spec.groups[0].per_node.devices[0].milli = milli;
  return spec;
}

struct PackingWorld : testing::Test {
  MiniCore core;
  Driver driver;
  PackingWorld() { core.add_partition("main", {"ALL"}); }

  const Grant& place(JobSpec spec) {
    const JobId id = core.add_job(std::move(spec));
    driver.run(core, kNow);
    EXPECT_EQ(core.tables.job(id)->state, JobState::kRunning);
    return core.tables.job(id)->allocation->grants.at(0);
  }
  // What the cluster has learnt, as if these had come so often.
  void learn(const PackArrivals& arrivals) {
    PackGround ground{{"h100"}, 0, 0};
    std::map<PackRoom, double> count;
    for (const auto& [id, node] : core.tables.nodes) {
      PackRoom room{.cpu_milli = node->cores * 1000, .devices = static_cast<std::uint8_t>(node->devices.size())};
      std::fill_n(room.free_milli.begin(), room.devices, kPackDeviceMilli);
      ground.gpu_milli += free_gpu_milli(room);
      ground.cpu_milli += room.cpu_milli;
      ++count[room];
    }
    std::vector<PackStock> stock;
    for (const auto& [room, nodes] : count) stock.push_back({room, nodes});
    Packing mix = next_packing({}, nullptr, {}, arrivals, ground, stock);
    for (int i = 0; i < 40; ++i) mix = next_packing({}, &mix, {}, {}, ground, stock);
    core.put(std::move(mix));
    driver.planner.observe(core.drain());
  }
};

// Best fit would put the 500 beside the 300, where no 700 goes any more.
TEST_F(PackingWorld, AShareGoesWhereTheRestOfTheDeviceIsOfUse) {
  for (std::uint32_t n = 1; n <= 4; ++n) core.add_node(n, 16, 2);
  learn({{share_of(700), 1000}, {share_of(300), 1000}, {share_of(500), 300}});
  const Grant three = place(share_job(300));
  const Grant five = place(share_job(500));
  EXPECT_NE(std::pair(three.node, three.parts[0].device), std::pair(five.node, five.parts[0].device));
  const Grant seven = place(share_job(700));
  EXPECT_EQ(std::pair(three.node, three.parts[0].device), std::pair(seven.node, seven.parts[0].device));
  const Grant half = place(share_job(500));
  EXPECT_EQ(std::pair(five.node, five.parts[0].device), std::pair(half.node, half.parts[0].device));
}

TEST_F(PackingWorld, WithoutARecordTheTightestDeviceIsTaken) {
  for (std::uint32_t n = 1; n <= 2; ++n) core.add_node(n, 16, 2);
  const Grant three = place(share_job(300));
  const Grant more = place(share_job(300));
  EXPECT_EQ(std::pair(three.node, three.parts[0].device), std::pair(more.node, more.parts[0].device));
}

// Gangs of four need whole nodes; what stays for good leaves them whole although a fuller node has less left.
TEST_F(PackingWorld, DearDevicesAreLeftToThoseWhoInsistOnThem) {
  for (std::uint32_t n = 1; n <= 8; ++n) {
    core.add_node(n, 32, 4);
    Node node = *core.tables.node(NodeId{n});
    if (n <= 2)  // few, and first in every order
      for (Device& device : node.devices) device.type = "a100";
    core.put(node);
  }
  const PackGround ground{{"a100", "h100"}, 32 * kPackDeviceMilli, 8 * 32'000};
  PackRoom room{.cpu_milli = 32'000, .devices = 4};
  std::fill_n(room.free_milli.begin(), 4, kPackDeviceMilli);
  PackRoom other = room;
  other.kind = 1;
  const std::vector<PackStock> stock{{room, 2}, {other, 6}};
  Packing mix =
      next_packing({}, nullptr, {}, {{{1000, 1, 1000, {}}, 500}, {{1000, 1, 1000, {"a100"}}, 500}}, ground, stock);
  for (int i = 0; i < 40; ++i) mix = next_packing({}, &mix, {}, {}, ground, stock);
  core.put(std::move(mix));
  EXPECT_GT(place(ask(1, 1, kForever)).node.value, 2u);
  JobSpec insists = ask(1, 1, kForever);
  insists.groups[0].per_node.devices[0].type = "a100";
  EXPECT_LE(place(insists).node.value, 2u);
  EXPECT_LE(place(ask(1, 1, minutes(5))).node.value, 2u);  // what ends is placed as before: beside what is used
}

TEST_F(PackingWorld, GangsCountForTheirMembersAndArraysForWhatRunsSideBySide) {
  for (std::uint32_t n = 1; n <= 4; ++n) core.add_node(n, 16, 2);
  core.add_job(ask(3, 1, kForever));
  driver.run(core, kNow);
  ASSERT_TRUE(core.tables.packing);
  EXPECT_EQ(core.tables.packing->arrivals, 3u);
  Job array = *core.tables.job(core.add_job(ask(1, 2, minutes(1))));
  auto state = std::make_shared<ArrayState>();
  state->asked = state->waiting = IntervalSet(0, 999);
  state->throttle = 5;
  array.array = state;
  core.put(array);
  for (int i = 0; i < 15; ++i) core.add_job(share_job(100));
  driver.run(core, kNow);
  EXPECT_EQ(core.tables.packing->arrivals, 3u + 5 + 15);
  EXPECT_EQ(core.tables.packing->through, JobId{17});
}

TEST_F(PackingWorld, JobsWithoutDevicesAndNodesWithoutThemWriteNothing) {
  for (std::uint32_t n = 1; n <= 4; ++n) core.add_node(n, 16, 2);
  for (int i = 0; i < 100; ++i) core.add_job(ask(1, 0, minutes(1)));
  driver.run(core, kNow);
  EXPECT_FALSE(core.tables.packing);
}

TEST_F(PackingWorld, AStreamOfOneKindWritesFewRecords) {
  for (std::uint32_t n = 1; n <= 4; ++n) core.add_node(n, 16, 2);
  Seq records = 0;
  for (int i = 0; i < 4000; ++i) {
    const Seq before = core.tables.packing ? core.tables.packing->meta.seq : 0;
    const JobId id = core.add_job(ask(1, 2, minutes(1)));
    driver.run(core, kNow);
    core.end(id);
    records += core.tables.packing->meta.seq != before;
  }
  EXPECT_LT(records, 60u);
}

// A planner made from the committed records does the same as one that lived.
TEST(PackingLaw, ARebuiltPlannerProposesTheSameRecordsAndPlaces) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    MiniCore core;
    core.add_partition("main", {"ALL"});
    core.add_partition("side", {"n1", "n2"});
    for (std::uint32_t n = 1; n <= 8; ++n) {
      core.add_node(n, static_cast<std::uint32_t>(rng.between(4, 24)), static_cast<std::uint32_t>(rng.between(0, 4)));
      Node node = *core.tables.node(NodeId{n});
      if (rng.chance(0.4))
        for (Device& device : node.devices) device.type = "a100";
      core.put(node);
    }
    Driver driver;
    std::size_t compared = 0;
    for (int round = 0; round < 60; ++round) {
      for (std::int64_t i = rng.between(0, 4); i > 0; --i) {
        JobSpec spec = rng.chance(0.6) ? share_job(static_cast<std::uint16_t>(100 * rng.between(1, 9)),
                                                   static_cast<std::uint32_t>(rng.between(1, 4)))
                                       : random_ask(rng);
        if (rng.chance(0.3) && !spec.groups[0].per_node.devices.empty())
          spec.groups[0].per_node.devices[0].type = rng.chance(0.5) ? "a100" : "h100";
        core.add_job(std::move(spec));
      }
      std::vector<JobId> running;
      for (const auto& [id, job] : core.tables.jobs)
        if (job->state == JobState::kRunning)
          running.push_back(id);
      for (const JobId id : running)
        if (rng.chance(0.2))
          core.end(id);
      if (rng.chance(0.1)) {
        Node node = *core.tables.node(NodeId{static_cast<std::uint32_t>(rng.between(1, 8))});
        node.drain = !node.drain;
        core.put(node);
      }
      if (rng.chance(0.1) && !core.tables.jobs.empty()) {  // forgotten before they were counted
        std::vector<Job> ended;
        for (const auto& [id, job] : core.tables.jobs)
          if (job->state == JobState::kCompleted)
            ended.push_back(*job);
        for (Job& job : ended) core.put(std::move(job), true);
      }
      const Instant now = kNow + seconds(round);
      driver.planner.observe(core.drain());
      Driver rebuilt;
      rebuilt.planner.observe(core.tables.snapshot());
      const auto starts = driver.pass(now);
      const auto expected = rebuilt.pass(now);
      ASSERT_EQ(starts.size(), expected.size()) << "seed " << seed << " round " << round;
      for (std::size_t i = 0; i < starts.size(); ++i) {
        EXPECT_EQ(starts[i].job, expected[i].job);
        EXPECT_EQ(starts[i].grants, expected[i].grants) << "seed " << seed << " round " << round;
      }
      ASSERT_EQ(driver.packings.size(), rebuilt.packings.size()) << "seed " << seed << " round " << round;
      for (std::size_t i = 0; i < driver.packings.size(); ++i) {
        const Packing &a = *driver.packings[i].packing, &b = *rebuilt.packings[i].packing;
        EXPECT_EQ(driver.packings[i].read, rebuilt.packings[i].read);
        EXPECT_EQ(a.through, b.through);
        EXPECT_EQ(a.steps, b.steps);
        EXPECT_EQ(a.classes, b.classes) << "seed " << seed << " round " << round;
        ++compared;
      }
      for (const PlannedStart& start : starts) core.start(start, now);
      for (const PlannedPromise& promise : driver.promises) core.promise(promise);
      for (const PlannedPacking& packing : driver.packings) core.pack(packing);
      driver.planner.observe(core.drain());
      driver.planner.settled();
    }
    EXPECT_GT(compared, 3u);
  }
}

}  // namespace
}  // namespace lockstep
