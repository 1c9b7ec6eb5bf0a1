// A job and a step on many nodes: what the report of one node costs must not hang on how many there are.
#include "core/attempts.h"
#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kNodes = 100;  // more than are looked at whenever a part of a step ends

class WideJob : public ::testing::Test {
 protected:
  WideJob() : w_(kNodes) {
    JobSpec spec = World::batch(kNodes);
    spec.groups[0].launch = Launch::kNothing;
    job_ = w_.submit(spec);
    w_.settle();
    EXPECT_EQ(record().state, JobState::kRunning);
  }
  StepNo launch(const std::function<void(StepSpec&)>& edit = {}) {
    auto spec = std::make_shared<StepSpec>();
    spec->argv = {"true"};
    spec->tasks = kNodes;
    if (edit)
      edit(*spec);
    return w_.must(CreateStep{job_, spec}).step;
  }
  const Job& record() const { return *w_.state.tables().job(job_); }
  const Step& step(StepNo number) const { return *w_.state.tables().step(job_, number); }
  void report(std::size_t place, ReportBody body) {
    const NodeId node = record().allocation->grants[place].node;
    w_.must(AgentReport{node, w_.state.tables().node(node)->boot_id, job_, record().attempt, std::move(body)});
  }
  void ended(std::size_t place, StepNo number, std::int32_t code = 0) {
    StepEnded body{.step = number};
    for (const std::uint32_t rank : step(number).places[place].ranks) body.results.push_back({rank, {code, 0, false}});
    report(place, body);
  }

  World w_;
  JobId job_;
};

TEST_F(WideJob, AReportCopiesNoPlacesOfTheStep) {
  const StepNo number = launch();
  ASSERT_EQ(step(number).places.size(), kNodes);
  const StepPlace* places = &*step(number).places.begin();
  for (std::size_t i = kNodes; i-- > 0;) {
    EXPECT_EQ(step(number).state, StepState::kStarting);
    report(i, StepStarted{number});
    ASSERT_EQ(&*step(number).places.begin(), places);
  }
  EXPECT_EQ(step(number).state, StepState::kRunning);
  for (std::size_t i = 0; i < kNodes; ++i) {
    EXPECT_EQ(step(number).state, StepState::kRunning);
    ended(i, number);
    ASSERT_EQ(&*step(number).places.begin(), places);
  }
  EXPECT_EQ(step(number).state, StepState::kEnded);
  EXPECT_TRUE(step(number).exit.ok());
}

TEST_F(WideJob, AReportOfANodeMovesItsOwnPartOnly) {
  const StepNo number = launch([](StepSpec& s) {
    s.tasks = 2;
    s.nodes = {2, 2};
    s.relative = 41;
  });
  ASSERT_EQ(step(number).places.size(), 2u);
  report(0, StepStarted{number});  // it has no part there
  EXPECT_EQ(step(number).members, (std::vector{MemberState::kAssigned, MemberState::kAssigned}));
  report(42, StepStarted{number});
  EXPECT_EQ(step(number).members, (std::vector{MemberState::kAssigned, MemberState::kRunning}));
  report(41, MemberStopped{});  // whatever else that means, its part is over, without a word
  EXPECT_EQ(step(number).members[0], MemberState::kStopped);
}

TEST_F(WideJob, NodesOfACancelledJobStopOneByOneWhileItsStepRuns) {
  const StepNo number = launch();
  for (std::size_t i = 0; i < kNodes; ++i) report(i, StepStarted{number});
  w_.must(CancelJob{{job_, {}}});
  const StepPlace* places = &*step(number).places.begin();
  for (std::size_t i = 0; i + 1 < kNodes; ++i) {
    report(i, MemberStopped{});
    ASSERT_EQ(step(number).members[i], MemberState::kStopped);
    ASSERT_EQ(step(number).members[i + 1], MemberState::kRunning);
    ASSERT_EQ(&*step(number).places.begin(), places);
  }
  report(kNodes - 1, MemberStopped{});
  EXPECT_EQ(step(number).state, StepState::kEnded);
  EXPECT_EQ(step(number).exit.signal, 9);
  EXPECT_EQ(record().state, JobState::kCancelled);
}

TEST_F(WideJob, AStepThatWaitsIsNotLaidOutForEveryPartThatEnds) {
  const StepNo first = launch(), second = launch();
  EXPECT_EQ(step(second).state, StepState::kPending);
  for (std::size_t i = 0; i < kNodes; ++i) report(i, StepStarted{first});
  const std::uint64_t before = w_.state.inner().layouts_tried;
  for (std::size_t i = 0; i < kNodes; ++i) ended(i, first);
  EXPECT_EQ(w_.state.inner().layouts_tried, before);
  EXPECT_LE(w_.state.next_timer(), w_.now);
  w_.must(Tick{});
  EXPECT_EQ(w_.state.inner().layouts_tried, before + 1);
  EXPECT_EQ(step(second).state, StepState::kStarting);
  EXPECT_GT(w_.state.next_timer(), w_.now);
}

TEST_F(WideJob, ANarrowStepStartsWhereTheWideOneHasEnded) {
  const StepNo wide = launch();
  const StepNo narrow = launch([](StepSpec& s) { s.tasks = 1; });
  for (std::size_t i = 0; i < kNodes; ++i) report(i, StepStarted{wide});
  ended(7, wide);
  w_.must(Tick{});
  ASSERT_EQ(step(narrow).state, StepState::kStarting);
  EXPECT_EQ(step(narrow).places[0].grant, 7u);
}

TEST_F(WideJob, TasksThatFailTogetherDoNotEachEndAllOthers) {
  const StepNo number = launch([](StepSpec& s) { s.kill_on_bad_exit = true; });
  for (std::size_t i = 0; i < kNodes; ++i) report(i, StepStarted{number});
  w_.actions.clear();
  ended(0, number, 1);
  EXPECT_EQ(w_.actions.size(), kNodes - 1);
  for (std::size_t i = 1; i < kNodes; ++i) ended(i, number, 1);
  const auto stops = std::count_if(w_.actions.begin(), w_.actions.end(),
                                   [](const Action& a) { return std::holds_alternative<StopPart>(a.body); });
  EXPECT_LE(stops, 8 * static_cast<std::ptrdiff_t>(kNodes)) << "each node's failure is told to all";
  EXPECT_EQ(step(number).state, StepState::kEnded);
}

// Said once, it could be lost with the controller or with a broken connection, and the step went on to its limit.
TEST_F(WideJob, AFailedTaskEndsTheOthersAlsoWhereThatWasNotHeard) {
  for (const bool kills : {true, false}) {
    const StepNo number = launch([&](StepSpec& s) { s.kill_on_bad_exit = kills; });
    for (std::size_t i = 0; i < kNodes; ++i) report(i, StepStarted{number});
    ended(0, number, 1);
    const Job& job = *w_.state.tables().job(job_);
    Holding holding;
    holding.job = job_;
    holding.attempt = job.attempt;
    holding.steps = {number};
    const auto told = reconcile(w_.state, job.allocation->grants[5].node, std::span(&holding, 1));
    EXPECT_EQ(std::count_if(told.begin(), told.end(),
                            [](const Action& a) { return std::holds_alternative<StopPart>(a.body); }),
              kills ? 1 : 0);
    for (std::size_t i = 1; i < kNodes; ++i) ended(i, number, 1);
  }
}

// Controllers before this one wrote the state of a part into its place.
TEST_F(WideJob, AStepOfAnOlderLogRuns) {
  const StepNo number = launch();
  std::vector<Change> records = w_.state.tables().snapshot();
  for (Change& change : records)
    if (auto* found = std::get_if<Ref<Step>>(&change.record)) {
      Step old = **found;
      old.members.clear();
      change.record = std::make_shared<const Step>(std::move(old));
    }
  ClusterState fresh(w_.state.settings());
  fresh.restore(records);
  check_invariants(fresh);
  EXPECT_EQ(fresh.tables().step(job_, number)->members, std::vector(kNodes, MemberState::kRunning));
}

}  // namespace
}  // namespace lockstep
