#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

TEST(Plan, DevicesAreFreeOrTheStartIsDropped) {
  World w(1);
  const JobId first = w.submit(World::batch(1, 8)), second = w.submit(World::batch(1, 8));
  const auto starts = w.plan();
  ASSERT_EQ(starts.size(), 1u);
  PlannedStart same = starts[0];
  same.job = second;
  const Answer answer = w.must(ApplyPlan{{starts[0], same}});
  EXPECT_EQ(answer.starts_applied, 1u);
  ASSERT_EQ(answer.refused.size(), 1u);
  EXPECT_EQ(answer.refused[0].job, second);
  EXPECT_EQ(answer.refused[0].reason, "Taken");
  EXPECT_EQ(answer.refused[0].detail, "n1");
  EXPECT_EQ(w.state_of(first), JobState::kStarting);
  EXPECT_EQ(w.state_of(second), JobState::kPending);
}

TEST(Plan, StalePlansAreDropped) {
  World w(3);
  const auto one = [&] {
    w.submit(World::batch(2, 2));
    const auto starts = w.plan();
    EXPECT_EQ(starts.size(), 1u);
    return starts.at(0);
  };
  const auto applied = [&](const PlannedStart& start) { return w.must(ApplyPlan{{start}}).starts_applied; };

  PlannedStart start = one();
  w.must(CancelJob{{start.job, {}}});
  EXPECT_EQ(applied(start), 0u);

  start = one();
  w.must(HoldJob{{start.job, {}}, false});
  EXPECT_EQ(applied(start), 0u);

  start = one();
  w.must(UpdateNode{.name = "n1", .drain = true});
  EXPECT_EQ(applied(start), 0u);
  w.must(UpdateNode{.name = "n1", .drain = false});
  w.lose(2);
  EXPECT_EQ(applied(start), 0u);
  w.reboot(2);
  UpdateJob wider{.target = {start.job, {}}, .nodes = CountRange{3, 3}};
  w.must(wider);
  EXPECT_EQ(applied(start), 0u);
  wider.nodes = CountRange{2, 2};
  w.must(wider);

  Partition main = *w.state.tables().default_partition();
  main.up = false;
  w.must(PutPartition{main});
  EXPECT_EQ(applied(start), 0u);
  main.up = true;
  main.time_max = minutes(1);
  w.must(PutPartition{main});
  UpdateJob longer{.target = {start.job, {}}, .time_limit = hours(1)};
  w.must(longer);
  EXPECT_EQ(applied(start), 0u);
  main.time_max = kForever;
  w.must(PutPartition{main});

  EXPECT_EQ(applied(start), 1u);
  EXPECT_EQ(applied(start), 0u);
}

TEST(Plan, AGangStartsWholeOrNotAtAll) {
  World w(2);
  w.submit(World::batch(2, 8));
  auto starts = w.plan();
  PlannedStart part = starts.at(0);
  part.grants.pop_back();
  EXPECT_EQ(w.must(ApplyPlan{{part}}).starts_applied, 0u);
  EXPECT_EQ(w.state.load(w.id(1)), NodeLoad{});
  part = starts[0];
  part.grants[1].devices = {};
  EXPECT_EQ(w.must(ApplyPlan{{part}}).starts_applied, 0u);
  EXPECT_EQ(w.must(ApplyPlan{starts}).starts_applied, 1u);
}

TEST(Plan, CancellingAStartingJobStopsIt) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.start_what_fits();
  w.must(CancelJob{{job, {}}});
  EXPECT_EQ(w.state_of(job), JobState::kCompleting);
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kCancelled);
}

TEST(Plan, RequeuedJobsWaitForTheirDelay) {
  World w(1);
  const JobId job = w.submit(World::batch());
  const auto starts = w.plan();
  w.settle();
  w.reboot(1);
  EXPECT_EQ(w.must(ApplyPlan{starts}).starts_applied, 0u);
  w.pass(seconds(2));
  EXPECT_EQ(w.must(ApplyPlan{starts}).starts_applied, 1u);
  EXPECT_EQ(w.job(job).attempt, 2u);
}

TEST(Plan, AFlexibleJobRunsUnderTheLimitThePlanGives) {
  World w(1);
  JobSpec spec = World::batch(1, 2);
  spec.time_limit = hours(4);
  spec.time_min = hours(1);
  const JobId id = w.submit(spec);
  auto starts = w.plan();
  ASSERT_EQ(starts.size(), 1u);
  starts[0].limit = minutes(30);
  EXPECT_EQ(w.must(ApplyPlan{starts}).starts_applied, 0u) << "less than the least";
  starts[0].limit = hours(5);
  EXPECT_EQ(w.must(ApplyPlan{starts}).starts_applied, 0u) << "more than was asked for";
  starts[0].limit = hours(2);
  EXPECT_EQ(w.must(ApplyPlan{starts}).starts_applied, 1u);
  EXPECT_EQ(w.job(id).allocation->limit, hours(2));
  EXPECT_EQ(w.job(id).spec->time_limit, hours(2));
}

Plan packing_plan(Seq read, Packing record) {
  Plan plan;
  plan.packings.push_back({read, std::make_shared<const Packing>(std::move(record))});
  return plan;
}

TEST(Plan, PackingIsARecordThatFollowsThePresentOne) {
  World w(1);
  const JobId job = w.submit(World::batch(1, 8));
  Packing first{.through = job, .arrivals = 1, .steps = 5};
  first.classes = {{.cpu_milli = 1000, .devices = 1, .milli = 500, .weight = 1 << 20, .price = 1 << 20}};
  const auto seq = [&] { return w.state.tables().packing ? w.state.tables().packing->meta.seq : 0; };

  w.must(ApplyPlan{packing_plan(7, first)});  // there is none yet
  EXPECT_EQ(seq(), 0u);
  w.must(ApplyPlan{packing_plan(0, first)});
  const Seq one = seq();
  ASSERT_NE(one, 0u);
  EXPECT_EQ(w.state.tables().packing->meta.name, "packing");
  w.must(ApplyPlan{packing_plan(0, first)});  // stale: it does not know the present one
  EXPECT_EQ(seq(), one);

  const auto refused = [&](auto change) {
    Packing bad = first;
    change(bad);
    w.must(ApplyPlan{packing_plan(one, bad)});
    EXPECT_EQ(seq(), one);
  };
  refused([](Packing& p) { p.classes[0].weight = -1; });
  refused([](Packing& p) { p.classes.resize(100'000, p.classes[0]); });
  refused([](Packing& p) { p.through = JobId{2}; });  // a job that never was
  refused([](Packing& p) { p.steps = 4; });
  w.must(ApplyPlan{Plan{.packings = {{one, nullptr}}}});
  EXPECT_EQ(seq(), one);

  Packing next = first;
  next.steps = 6;
  w.must(ApplyPlan{packing_plan(one, next)});
  EXPECT_GT(seq(), one);
  EXPECT_EQ(w.state.tables().packing->steps, 6u);
}

}  // namespace
}  // namespace lockstep
