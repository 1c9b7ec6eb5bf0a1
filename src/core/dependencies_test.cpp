#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

using Type = Dependency::Type;

JobSpec after(Type type, JobId on, Duration delay = {}) {
  JobSpec spec = World::batch();
  spec.groups[0].per_task.cores = 1;
  spec.dependencies = {{type, on, delay}};
  return spec;
}

TEST(Dependencies, ByHowTheOtherEnded) {
  World w(1);
  const JobId good = w.submit(World::batch()), bad = w.submit(World::batch());
  const JobId ok_good = w.submit(after(Type::kAfterOk, good)), ok_bad = w.submit(after(Type::kAfterOk, bad));
  const JobId not_good = w.submit(after(Type::kAfterNotOk, good)), not_bad = w.submit(after(Type::kAfterNotOk, bad));
  const JobId any = w.submit(after(Type::kAfterAny, bad));
  for (JobId id : {ok_good, ok_bad, not_good, not_bad, any}) EXPECT_EQ(w.job(id).hold, Hold::kDependency);
  w.settle();
  w.end_script(good);
  w.end_script(bad, {1, 0, false});
  EXPECT_EQ(w.job(ok_good).hold, Hold::kNone);
  EXPECT_EQ(w.job(ok_good).eligible, w.now);
  EXPECT_EQ(w.job(not_bad).hold, Hold::kNone);
  EXPECT_EQ(w.job(any).hold, Hold::kNone);
  for (JobId id : {ok_bad, not_good}) {
    EXPECT_EQ(w.state_of(id), JobState::kCancelled);
    EXPECT_EQ(w.job(id).end_reason, "DependencyNeverSatisfied");
  }
}

TEST(Dependencies, NeverSatisfiedMayWaitInstead) {
  World w(1);
  const JobId bad = w.submit(World::batch());
  JobSpec spec = after(Type::kAfterOk, bad);
  spec.kill_on_invalid_dependency = false;
  const JobId job = w.submit(spec);
  w.must(CancelJob{{bad, {}}});
  EXPECT_EQ(w.job(job).hold, Hold::kDependencyNever);
  w.must(UpdateJob{.target = {job, {}}, .dependencies = std::vector<Dependency>{}});
  EXPECT_EQ(w.job(job).hold, Hold::kNone);
}

TEST(Dependencies, AChainFallsTogether) {
  World w(1);
  std::vector<JobId> chain{w.submit(World::batch())};
  for (int i = 0; i < 20; ++i) chain.push_back(w.submit(after(Type::kAfterOk, chain.back())));
  w.must(CancelJob{{chain[0], {}}});
  for (JobId id : chain) EXPECT_EQ(w.state_of(id), JobState::kCancelled);
}

TEST(Dependencies, AfterTheStartAndADelay) {
  World w(1);
  const JobId first = w.submit(World::batch());
  const JobId soon = w.submit(after(Type::kAfter, first)), later = w.submit(after(Type::kAfter, first, minutes(5)));
  w.settle();
  EXPECT_EQ(w.state_of(soon), JobState::kRunning);
  EXPECT_EQ(w.job(later).hold, Hold::kDependency);
  EXPECT_EQ(w.state.next_timer(), w.now + minutes(5));
  w.pass(minutes(5));
  EXPECT_EQ(w.job(later).hold, Hold::kNone);
}

TEST(Dependencies, OneOfSeveralIsEnough) {
  World w(1);
  const JobId a = w.submit(World::batch()), b = w.submit(World::batch());
  JobSpec spec = after(Type::kAfterOk, a);
  spec.dependencies.push_back({Type::kAfterOk, b, {}});
  const JobId both = w.submit(spec);
  spec.dependency_any = true;
  const JobId either = w.submit(spec);
  w.settle();
  w.end_script(a);
  EXPECT_EQ(w.job(both).hold, Hold::kDependency);
  EXPECT_EQ(w.job(either).hold, Hold::kNone);
}

TEST(Dependencies, SingletonsGoOneByOne) {
  World w(1);
  std::vector<JobId> jobs;
  for (int i = 0; i < 3; ++i) jobs.push_back(w.submit(after(Type::kSingleton, {})));
  JobSpec other = after(Type::kSingleton, {});
  other.user = World::kBob;
  EXPECT_EQ(w.job(w.submit(other)).hold, Hold::kNone);
  EXPECT_EQ(w.job(jobs[0]).hold, Hold::kNone);
  EXPECT_EQ(w.job(jobs[1]).hold, Hold::kDependency);
  w.settle();
  w.end_script(jobs[0]);
  EXPECT_EQ(w.job(jobs[1]).hold, Hold::kNone);
  EXPECT_EQ(w.job(jobs[2]).hold, Hold::kDependency);
  w.must(CancelJob{{jobs[1], {}}});
  EXPECT_EQ(w.job(jobs[2]).hold, Hold::kNone);
}

TEST(Dependencies, AnArrayCountsAsAWhole) {
  World w(1);
  const JobId array = w.submit_array(World::batch(), "0-1");
  const JobId job = w.submit(after(Type::kAfterOk, array));
  w.settle();
  w.end_script(w.element(array, 0).id);
  EXPECT_EQ(w.job(job).hold, Hold::kDependency);
  w.end_script(w.element(array, 1).id);
  EXPECT_EQ(w.job(job).hold, Hold::kNone);
}

JobSpec after_element(Type type, JobId array, std::uint32_t index, Duration delay = {}) {
  JobSpec spec = after(type, array, delay);
  spec.dependencies[0].element = index;
  return spec;
}

TEST(Dependencies, OnOneElementOfAnArray) {
  World w(1);
  JobSpec one = World::batch();
  one.groups[0].per_task.cores = 1;
  const JobId array = w.submit_array(one, "0-3", 2);
  const JobId ok = w.submit(after_element(Type::kAfterOk, array, 1)),
              later = w.submit(after_element(Type::kAfterOk, array, 3));
  const JobId bad = w.submit(after_element(Type::kAfterOk, array, 0)),
              not_ok = w.submit(after_element(Type::kAfterNotOk, array, 0));
  const JobId started = w.submit(after_element(Type::kAfter, array, 1, minutes(5)));
  const JobId corr = w.submit_array(after_element(Type::kAfterCorr, array, 1), "0-1");
  w.settle();
  EXPECT_EQ(w.state.next_timer(), w.now + minutes(5));
  w.end_script(w.element(array, 1).id);
  EXPECT_EQ(w.job(ok).hold, Hold::kNone);
  EXPECT_EQ(w.job(corr).hold, Hold::kNone);
  EXPECT_EQ(w.job(corr).array->waiting.text(), "0-1");
  w.end_script(w.element(array, 0).id, {1, 0, false});
  EXPECT_EQ(w.state_of(bad), JobState::kCancelled);
  EXPECT_EQ(w.job(not_ok).hold, Hold::kNone);
  EXPECT_EQ(w.job(later).hold, Hold::kDependency);
  w.pass(minutes(5));
  EXPECT_EQ(w.job(started).hold, Hold::kNone);
  w.pass(hours(1));  // as long as somebody awaits the array its elements are known
  w.settle();
  w.end_script(w.element(array, 3).id);
  EXPECT_EQ(w.job(later).hold, Hold::kNone);
  const auto ask = [](JobSpec spec) { return SubmitJob{.spec = std::make_shared<const JobSpec>(std::move(spec))}; };
  EXPECT_EQ(w.refused(ask(after_element(Type::kAfterOk, array, 9))), Errc::kInvalid);
  EXPECT_EQ(w.refused(ask(after_element(Type::kAfterOk, ok, 0))), Errc::kInvalid);  // no array
}

TEST(Dependencies, OnWhatIsKnownToHaveFailedLongAgo) {
  World w(1);
  JobSpec spec = after(Type::kAfterOk, JobId(4711));
  spec.kill_on_invalid_dependency = false;
  spec.dependencies[0].failed = true;
  EXPECT_EQ(w.job(w.submit(spec)).hold, Hold::kDependencyNever);
  spec.kill_on_invalid_dependency = true;
  EXPECT_EQ(w.state_of(w.submit(spec)), JobState::kCancelled);
  CoreSettings settings;
  settings.kill_invalid_dependency = true;
  World killing(1, settings);
  spec.kill_on_invalid_dependency = false;
  EXPECT_EQ(killing.state_of(killing.submit(spec)), JobState::kCancelled);
}

TEST(Dependencies, CorrespondingElements) {
  World w(2);
  JobSpec one = World::batch();
  one.groups[0].per_task.cores = 1;
  const JobId first = w.submit_array(one, "0-3");
  const JobId second = w.submit_array(after(Type::kAfterCorr, first), "0-4");
  EXPECT_EQ(w.job(second).hold, Hold::kDependency);
  w.settle();
  w.end_script(w.element(first, 2).id);
  w.end_script(w.element(first, 3).id, {1, 0, false});
  EXPECT_EQ(w.element(second, 2).hold, Hold::kNone);
  EXPECT_EQ(w.element(second, 3).state, JobState::kCancelled);
  EXPECT_EQ(w.job(second).array->waiting.text(), "0-1,4");
  w.settle();
  EXPECT_EQ(w.element(second, 2).state, JobState::kRunning);
  w.end_script(w.element(first, 0).id);
  w.end_script(w.element(first, 1).id);
  // The first array has failed as a whole: nothing corresponds to element 4.
  EXPECT_TRUE(w.job(second).array->waiting.empty());
  EXPECT_EQ(w.element(second, 0).state, JobState::kPending);
}

TEST(Dependencies, TheOtherStaysListedWhileSomebodyWaits) {
  World w(1);
  const JobId a = w.submit(World::batch()), b = w.submit(World::batch());
  JobSpec spec = after(Type::kAfterOk, a);
  spec.dependencies.push_back({Type::kAfterOk, b, {}});
  const JobId job = w.submit(spec);
  w.settle();
  w.end_script(a);
  w.pass(hours(1));
  ASSERT_NE(w.state.tables().job(a), nullptr);
  w.end_script(b);
  EXPECT_EQ(w.job(job).hold, Hold::kNone);
  w.pass(hours(1));
  EXPECT_EQ(w.state.tables().job(a), nullptr);
}

TEST(Dependencies, NoCircles) {
  World w(1);
  const JobId a = w.submit(World::batch());
  const JobId b = w.submit(after(Type::kAfterOk, a));
  EXPECT_EQ(w.refused(UpdateJob{.target = {a, {}}, .dependencies = std::vector<Dependency>{{Type::kAfterOk, b, {}}}}),
            Errc::kInvalid);
  EXPECT_EQ(w.refused(UpdateJob{.target = {a, {}}, .dependencies = std::vector<Dependency>{{Type::kAfterOk, a, {}}}}),
            Errc::kInvalid);
}

TEST(Dependencies, HeldAndReleasedInBetween) {
  World w(1);
  const JobId a = w.submit(World::batch());
  const JobId job = w.submit(after(Type::kAfterOk, a));
  w.must(HoldJob{{job, {}}, false});
  w.settle();
  w.end_script(a);
  EXPECT_EQ(w.job(job).hold, Hold::kUser);
  w.pass(hours(1));
  w.must(ReleaseJob{{job, {}}});
  EXPECT_EQ(w.job(job).hold, Hold::kNone);
}

TEST(Dependencies, RestartLosesNoDelay) {
  World w(1);
  const JobId a = w.submit(World::batch());
  const JobId job = w.submit(after(Type::kAfter, a, minutes(5)));
  w.settle();
  ClusterState again;
  again.restore(w.state.tables().snapshot());
  w.state = std::move(again);
  w.wait(minutes(10));  // nobody was there when it ran out
  w.must(StartEpoch{"test"});
  EXPECT_EQ(w.job(job).hold, Hold::kNone);
}

}  // namespace
}  // namespace lockstep
