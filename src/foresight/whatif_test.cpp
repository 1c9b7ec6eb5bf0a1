// What-if worlds: every change, errors with their place, totals, and test submissions.
#include "foresight/whatif.h"

#include <gtest/gtest.h>

#include "foresight/testing.h"
#include "wire/foresight.h"

namespace lockstep {
namespace {

struct WhatIfScene : PlannedWorld {
  using PlannedWorld::PlannedWorld;
  Result<WhatIfAnswer> ask(std::string_view changes) {
    auto read = decode_changes(changes);
    EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().message);
    return what_if(world.state.tables(), clock(), *read);
  }
  WhatIfAnswer must(std::string_view changes) {
    auto out = ask(changes);
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().message);
    return out.ok() ? *out : WhatIfAnswer{};
  }
  const BeforeAfter& of(const WhatIfAnswer& answer, JobId id) {
    for (const BeforeAfter& job : answer.jobs)
      if (job.job == id)
        return job;
    ADD_FAILURE() << "job " << id.value << " is not in the answer";
    static const BeforeAfter none;
    return none;
  }
};

TEST(WhatIf, MoreNodesStartMore) {
  WhatIfScene scene(2);
  scene.submit(World::batch(2, 8), hours(4));
  scene.plan();
  const JobId a = scene.submit(World::batch(2, 8), hours(4)), b = scene.submit(World::batch(2, 8), hours(4));
  const WhatIfAnswer answer = scene.must(R"({"add_nodes":{"like":"n1","count":2}})");
  EXPECT_FALSE(scene.of(answer, a).before.started);
  EXPECT_TRUE(scene.of(answer, a).after.started);
  EXPECT_EQ(scene.of(answer, a).after.nodes, "n[3-4]");
  EXPECT_FALSE(scene.of(answer, b).after.started);
  EXPECT_EQ(scene.of(answer, b).after.start.us, (scene.world.now + hours(4)).us);
  EXPECT_EQ(answer.before.start_now, 0u);
  EXPECT_EQ(answer.after.start_now, 1u);
  EXPECT_NEAR(answer.before.mean_wait_s, 6 * 3600, 300);  // the grid of foreseen starts
  EXPECT_NEAR(answer.after.mean_wait_s, 2 * 3600, 300);
  EXPECT_EQ(answer.jobs.front().job, a);
  // The cluster itself has not changed.
  EXPECT_EQ(scene.world.state.tables().nodes.size(), 2u);
  EXPECT_EQ(scene.world.state_of(a), JobState::kPending);
}

TEST(WhatIf, NodesGoAndComeBack) {
  WhatIfScene scene(3);
  const JobId a = scene.submit(World::batch(3, 8), hours(1));
  const WhatIfAnswer gone = scene.must(R"([{"remove_nodes":"n[2-3]"}])");
  EXPECT_TRUE(scene.of(gone, a).before.started);
  EXPECT_FALSE(scene.of(gone, a).after.started);
  scene.world.must(UpdateNode{.name = "n1", .drain = true, .reason = "fan"});
  const WhatIfAnswer back = scene.must(R"([{"resume":["n1"]}])");
  EXPECT_FALSE(scene.of(back, a).before.started);
  EXPECT_TRUE(scene.of(back, a).after.started);
}

TEST(WhatIf, JobsChangeComeAndGo) {
  WhatIfScene scene(4);
  const JobId first = scene.submit(World::batch(3, 8), hours(4));
  scene.plan();
  const JobId big = scene.submit(World::batch(4, 8), hours(4));
  const WhatIfAnswer smaller = scene.must(R"([{"job":{"id":2,"nodes":1,"tasks":1}}])");
  EXPECT_TRUE(scene.of(smaller, big).after.started);
  const WhatIfAnswer removed = scene.must(R"([{"remove_jobs":1},{"add_jobs":{"like":2,"count":2}}])");
  EXPECT_TRUE(scene.of(removed, big).after.started);
  EXPECT_EQ(removed.jobs.size(), 3u);
  EXPECT_TRUE(removed.jobs.back().added);
  EXPECT_EQ(scene.world.state_of(first), JobState::kRunning);
}

TEST(WhatIf, PartitionsAndPolicy) {
  WhatIfScene scene(2);
  Partition side;
  side.meta.name = "side";
  side.nodes = {"n1"};
  scene.world.must(PutPartition{side});
  JobSpec spec = World::batch(1, 8);
  spec.partitions = {"side"};
  scene.submit(spec, hours(4));
  scene.plan();
  const JobId waits = scene.submit(spec, hours(4));
  const WhatIfAnswer wider =
      scene.must(R"([{"partition":{"name":"side","nodes":"n[1-2]"}},{"policy":{"weight_qos":5}}])");
  EXPECT_TRUE(scene.of(wider, waits).after.started);
}

TEST(WhatIf, WhatAQuestionMayAddIsBounded) {
  WhatIfScene scene(1);
  std::vector<std::string> features;
  for (int i = 0; i < 1000; ++i) features.push_back(std::to_string(i) + std::string(200, 'f'));
  scene.world.must(UpdateNode{.name = "n1", .features = features});
  const auto large = scene.ask(R"([{"drain":"n1"},{"add_nodes":{"like":"n1","count":3000}}])");
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().code, Errc::kExhausted);
  EXPECT_EQ(large.error().field, "[1].add_nodes");
  EXPECT_NE(large.error().message.find("256 MB"), std::string::npos) << large.error().message;
  EXPECT_TRUE(scene.ask(R"([{"add_nodes":{"like":"n1","count":10}}])").ok());
}

TEST(WhatIf, RefusalsNameTheChange) {
  WhatIfScene scene(2);
  const auto refused = [&](std::string_view changes) {
    const auto answer = scene.ask(changes);
    return answer.ok() ? std::string("fine") : answer.error().field;
  };
  EXPECT_EQ(refused(R"([{"drain":"n1"},{"drain":"n9"}])"), "[1].drain");
  EXPECT_EQ(refused(R"([{"add_nodes":{"like":"x"}}])"), "[0].add_nodes");
  EXPECT_EQ(refused(R"([{"job":{"id":77,"nodes":1}}])"), "[0].job");
  EXPECT_EQ(refused(R"({"changes":[{"remove_jobs":[1]}]})"), "changes[0].remove_jobs");
}

TEST(TrySubmit, NowLaterAndNever) {
  WhatIfScene scene(2);
  const Caller alice{World::kAlice, false};
  const auto attempt = [&](JobSpec spec, Duration limit) {
    spec.time_limit = limit;
    return try_submit(scene.world.state.tables(), scene.clock(),
                      SubmitJob{.spec = std::make_shared<const JobSpec>(std::move(spec))}, alice);
  };
  const auto now = attempt(World::batch(2, 8), hours(1));
  ASSERT_TRUE(now.ok());
  EXPECT_TRUE(now->foreseen.started);
  EXPECT_EQ(now->foreseen.nodes, "n[1-2]");
  EXPECT_EQ(now->foreseen.cores, 8u);
  scene.submit(World::batch(1, 8), hours(3));
  scene.plan();
  const auto later = attempt(World::batch(2, 8), hours(1));
  ASSERT_TRUE(later.ok());
  EXPECT_FALSE(later->foreseen.started);
  EXPECT_EQ(later->foreseen.nodes, "n[1-2]");
  EXPECT_EQ(later->foreseen.start.us, (scene.world.now + hours(3)).us);
  EXPECT_EQ(attempt(World::batch(3, 8), hours(1)).error().code, Errc::kImpossible);
  EXPECT_EQ(scene.world.state.tables().jobs.size(), 1u);
}

// A copy has no nodes that answer, so that what starts there now starts for ever: no clock may go round for it.
TEST(ClusterCopy, ComesToAnEndWhereANodeDoesNotAnswer) {
  PlannedWorld scene(2);
  scene.world.pass(minutes(10));
  scene.world.silent = {1, 2};
  const JobId starts = scene.submit(World::batch(), kForever), ends = scene.submit(World::batch(), kForever);
  scene.plan();
  scene.world.must(CancelJob{.target = {.job = ends}});
  ASSERT_EQ(scene.world.state_of(starts), JobState::kStarting);
  ClusterCopy copy(scene.world.state.tables(), scene.clock(), CoreSettings{});
  int steps = 0;
  while (steps < 1000 && copy.step(kNever)) ++steps;
  EXPECT_LT(steps, 1000);
}

}  // namespace
}  // namespace lockstep
