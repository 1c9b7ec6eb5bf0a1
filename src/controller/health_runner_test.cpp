#include "controller/health_runner.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "core/testing.h"

namespace lockstep {
namespace {

// A core, and runners beside it that read it when they are told to.
class HealthRuns : public ::testing::Test {
 protected:
  static HealthCheck check(const char* name = "gpus") {
    HealthCheck one;
    one.meta.name = name;
    one.user = "bob";
    one.script = "true";
    one.nodes = {"ALL"};
    one.every = hours(1);
    one.time_limit = minutes(5);
    return one;
  }
  void restart(HealthRunner& one) {
    one.restart(w.state.tables().snapshot());
    read[&one] = w.history.size();
  }
  void observe(HealthRunner& one) {
    one.observe(std::span(w.history).subspan(read[&one]));
    read[&one] = w.history.size();
  }
  // Carries out what it asks; how many of its commands were taken.
  std::size_t step(HealthRunner& one) {
    observe(one);
    std::size_t taken = 0;
    for (auto& ask : one.step(w.now, {}).asks) {
      const auto outcome = w.run(std::move(ask.body), kController, std::move(ask.read));
      taken += outcome.ok();
      refused += !outcome.ok();
      observe(one);
      one.answered(ask.id, outcome.ok() ? Result<Answer>(outcome->answer) : Result<Answer>(outcome.error()), w.now);
    }
    w.obey();
    observe(one);
    return taken;
  }
  // What it has to do now, until there is nothing.
  void rest(HealthRunner& one) {
    observe(one);
    for (int i = 0; one.next_timer() <= w.now; ++i) {
      ASSERT_LT(i, 1000) << "it goes on for ever";
      step(one);
    }
  }
  std::vector<JobId> runs() const {
    std::vector<JobId> out;
    for (const auto& [id, job] : w.state.tables().jobs)
      if (!job->spec->health_check.empty() && !is_final(job->state))
        out.push_back(id);
    return out;
  }
  void end(JobId id, ExitStatus exit = {}) {
    const std::uint32_t incarnation = w.state.tables().tasks_of(id).front()->incarnation;
    ASSERT_TRUE(w.report(w.first_node(id), id, TaskEnded{0, 0, incarnation, exit}).ok());
    w.obey();
  }

  World w{3};
  HealthRunner runner;
  std::map<HealthRunner*, std::size_t> read;
  std::size_t refused = 0;
};

TEST_F(HealthRuns, EachIdleNodeInItsTurn) {
  restart(runner);
  EXPECT_EQ(runner.next_timer(), Instant{});
  rest(runner);
  EXPECT_EQ(runner.next_timer(), kNever);
  w.must(PutHealthCheck{check()});
  std::set<std::uint32_t> checked;
  for (int i = 0; i < 3; ++i) {
    rest(runner);
    ASSERT_EQ(runs().size(), 1u) << "one at once in so small a cluster";
    checked.insert(w.first_node(runs().front()));
    end(runs().front());
  }
  EXPECT_EQ(checked, (std::set<std::uint32_t>{1, 2, 3}));
  rest(runner);
  EXPECT_TRUE(runs().empty());
  EXPECT_EQ(runner.next_timer(), w.now + hours(1));
  EXPECT_EQ(refused, 0u);
}

TEST_F(HealthRuns, NoNodeThatWorksOrIsDrained) {
  w.must(PutHealthCheck{check()});
  const JobId work = w.submit(World::batch(2));
  w.settle();
  const std::uint32_t idle = 6 - w.first_node(work) - (w.first_node(work) == 1 ? 2 : 3);
  w.must(UpdateNode{.name = World::name_of(idle), .drain = true});
  restart(runner);
  rest(runner);
  EXPECT_TRUE(runs().empty());
  EXPECT_EQ(refused, 0u) << "it does not ask in vain";
  w.end_script(work);
  rest(runner);
  EXPECT_EQ(runs().size(), 1u);
}

TEST_F(HealthRuns, ANodeThatItsOwnCheckClosedIsLookedAtAgain) {
  HealthCheck one = check();
  one.nodes = {"n1"};
  w.must(PutHealthCheck{one});
  restart(runner);
  rest(runner);
  end(runs().front(), {1, 0, false});
  EXPECT_FALSE(node_usable(w.node(1)));
  rest(runner);
  EXPECT_TRUE(runs().empty());
  w.now = runner.next_timer();
  rest(runner);
  ASSERT_EQ(runs().size(), 1u);
  end(runs().front());
  EXPECT_TRUE(node_usable(w.node(1)));
}

TEST_F(HealthRuns, WhatACheckLeftGoesWithIt) {
  w.must(PutHealthCheck{check()});
  restart(runner);
  rest(runner);
  const std::uint32_t bad = w.first_node(runs().front());
  end(runs().front(), {1, 0, false});
  rest(runner);
  ASSERT_EQ(runs().size(), 1u);
  const JobId under_way = runs().front();
  w.must(RemoveHealthCheck{"gpus"});
  rest(runner);
  EXPECT_EQ(w.state_of(under_way), JobState::kCancelled);
  EXPECT_TRUE(node_usable(w.node(bad)));
  for (std::uint32_t i = 1; i <= 3; ++i) EXPECT_TRUE(w.node(i).health.empty());
  EXPECT_EQ(runner.next_timer(), kNever);
}

TEST_F(HealthRuns, TwoOfThemDoNoHarm) {
  w.must(PutHealthCheck{check()});
  w.must(PutHealthCheck{check("disks")});
  HealthRunner second;
  restart(runner);
  restart(second);
  for (int i = 0; i < 6; ++i) {
    // Both ask before either sees what the other one did.
    observe(runner), observe(second);
    auto first_asks = runner.step(w.now, {}).asks;
    auto second_asks = second.step(w.now, {}).asks;
    for (auto& ask : first_asks) (void)w.run(ask.body, kController);
    for (auto& ask : second_asks) EXPECT_FALSE(w.run(ask.body, kController).ok());
    w.obey();
    ASSERT_EQ(runs().size(), 1u);
    end(runs().front());
    restart(runner);  // it begins anew in between
    observe(second);
    for (auto& ask : second_asks) second.answered(ask.id, Error{Errc::kConflict, "not idle", {}}, w.now);
    w.pass(seconds(1));
  }
  EXPECT_EQ(w.state.tables().jobs.size(), 6u);
}

TEST_F(HealthRuns, WhatIsRefusedIsAskedForLessAndLessOften) {
  HealthCheck one = check();
  one.user = "carol";
  one.nodes = {"n2"};
  w.must(PutHealthCheck{one});
  restart(runner);
  for (int i = 0; i < 12; ++i) {
    rest(runner);
    w.now = std::max(w.now, runner.next_timer());
  }
  EXPECT_EQ(refused, 12u);
  rest(runner);
  EXPECT_EQ(runner.next_timer(), w.now + minutes(5));
}

}  // namespace
}  // namespace lockstep
