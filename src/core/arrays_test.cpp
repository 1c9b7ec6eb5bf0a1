#include "core/arrays.h"

#include <random>

#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

JobSpec small() {
  JobSpec spec = World::batch();
  spec.groups[0].per_task.cores = 1;
  return spec;
}

TEST(Arrays, OneRecordUntilElementsStart) {
  World w(1);
  const JobId array = w.submit_array(small(), "0-999999");
  EXPECT_EQ(w.state.tables().jobs.size(), 1u);
  EXPECT_EQ(w.start_what_fits(), 16u);  // cores of the node
  EXPECT_EQ(w.state.tables().jobs.size(), 17u);
  w.obey();
  EXPECT_EQ(w.state_of(array), JobState::kPending);
  const Job& third = w.element(array, 3);
  EXPECT_EQ(third.state, JobState::kRunning);
  EXPECT_EQ(third.array_job, array);
  EXPECT_EQ(w.job(array).array->running, 16u);
  EXPECT_EQ(w.job(array).array->waiting.text(), "16-999999");
}

TEST(Arrays, ThrottleBoundsWhatRuns) {
  World w(2);
  const JobId array = w.submit_array(small(), "1-6", 2);
  EXPECT_EQ(w.start_what_fits(), 2u);
  EXPECT_EQ(w.job(array).hold, Hold::kArrayThrottle);
  w.obey();
  w.end_script(w.element(array, 1).id);
  EXPECT_EQ(w.job(array).hold, Hold::kNone);
  EXPECT_EQ(w.start_what_fits(), 1u);
  UpdateJob u;
  u.target = {array, {}};
  u.throttle = 4;
  w.must(u);
  EXPECT_EQ(w.start_what_fits(), 2u);
}

TEST(Arrays, APlanOverTheThrottleIsDropped) {
  World w(2);
  const JobId array = w.submit_array(small(), "1-4", 2);
  auto starts = w.plan();
  w.must(UpdateJob{.target = {array, {}}, .throttle = 1});
  EXPECT_EQ(w.must(ApplyPlan{starts}).starts_applied, 1u);
}

TEST(Arrays, EndsWithTheLastElement) {
  World w(1);
  const JobId array = w.submit_array(small(), "0-2");
  w.settle();
  w.end_script(w.element(array, 0).id);
  w.end_script(w.element(array, 1).id, {5, 0, false});
  EXPECT_EQ(w.state_of(array), JobState::kPending);
  w.end_script(w.element(array, 2).id, {3, 0, false});
  EXPECT_EQ(w.state_of(array), JobState::kFailed);
  EXPECT_EQ(w.job(array).exit.code, 5);
  w.pass(seconds(300));
  EXPECT_TRUE(w.state.tables().jobs.empty());
}

TEST(Arrays, CancelSomeThenAll) {
  World w(1);
  const JobId array = w.submit_array(small(), "0-39");
  w.settle();  // 0-15 run
  w.must(CancelJob{{array, IntervalSet::parse("3,20-22").value()}});
  w.obey();
  EXPECT_EQ(w.element(array, 3).state, JobState::kCancelled);
  EXPECT_EQ(w.element(array, 21).state, JobState::kCancelled);
  EXPECT_FALSE(w.job(array).array->waiting.contains(21));
  EXPECT_EQ(w.refused(CancelJob{{array, IntervalSet(40, 50)}}), Errc::kNotFound);
  w.must(CancelJob{{array, {}}});
  EXPECT_EQ(w.state_of(array), JobState::kPending);  // its elements are being stopped
  w.obey();
  EXPECT_EQ(w.state_of(array), JobState::kCancelled);
  EXPECT_EQ(w.elements_in(array, JobState::kCancelled), 19u);
}

TEST(Arrays, ACancelledArrayTellsSomethingOnlyWhereSomeOfItWaited) {
  World w(1);
  const JobId whole = w.submit_array(small(), "0-7");
  w.settle();
  w.end_script(w.element(whole, 0).id);
  w.must(CancelJob{{whole, {}}});
  w.obey();
  EXPECT_EQ(w.state_of(whole), JobState::kCancelled);
  EXPECT_FALSE(array_tells(w.job(whole))) << "each of its elements ran";

  const JobId part = w.submit_array(small(), "0-99");
  w.settle();
  w.must(CancelJob{{part, IntervalSet(20, 21)}});
  EXPECT_FALSE(w.job(part).array->cut_short) << "these have records of their own";
  w.must(CancelJob{{part, {}}});
  EXPECT_FALSE(array_tells(w.job(part))) << "what still runs of it may yet come back";
  w.obey();
  EXPECT_TRUE(array_tells(w.job(part)));
}

TEST(Arrays, ManyCancelledElementsLeaveNoRecords) {
  World w(1);
  const JobId array = w.submit_array(small(), "0-99999");
  w.must(CancelJob{{array, IntervalSet(10, 99998)}});
  EXPECT_EQ(w.state.tables().jobs.size(), 1u);
  EXPECT_EQ(w.job(array).array->waiting.text(), "0-9,99999");
  EXPECT_TRUE(w.job(array).array->cut_short);
}

TEST(Arrays, HeldElementsGetRecords) {
  World w(1);
  const JobId array = w.submit_array(small(), "0-9");
  w.must(HoldJob{{array, IntervalSet(2, 3)}, false});
  EXPECT_EQ(w.element(array, 2).hold, Hold::kUser);
  EXPECT_EQ(w.start_what_fits(), 8u);
  w.must(ReleaseJob{{array, {}}});
  EXPECT_EQ(w.start_what_fits(), 2u);
}

TEST(Arrays, AnElementIsRequeuedUnderItsOwnId) {
  World w(1);
  const JobId array = w.submit_array(small(), "0-1");
  w.settle();
  const JobId first = w.element(array, 0).id;
  w.end_script(first);
  w.end_script(w.element(array, 1).id);
  EXPECT_EQ(w.state_of(array), JobState::kCompleted);
  w.must(RequeueJob{{array, IntervalSet(0, 0)}, false});
  EXPECT_EQ(w.state_of(array), JobState::kPending);
  w.pass(seconds(2));
  w.settle();
  EXPECT_EQ(w.element(array, 0).id, first);
  w.end_script(first);
  EXPECT_EQ(w.state_of(array), JobState::kCompleted);
}

TEST(Arrays, RequeueingAnArrayLeavesItsCancelledElementsAlone) {
  World w(1);
  const JobId array = w.submit_array(small(), "0-5");
  w.settle();
  w.must(CancelJob{{array, IntervalSet(1, 1)}});
  w.obey();
  w.must(CancelJob{{array, IntervalSet(2, 2)}});  // still on its way out
  w.end_script(w.element(array, 3).id);
  w.end_script(w.element(array, 4).id, {1, 0, false});
  w.must(RequeueJob{{array, {}}, false});
  w.obey();
  EXPECT_EQ(w.element(array, 0).state, JobState::kPending);
  EXPECT_EQ(w.element(array, 1).state, JobState::kCancelled);
  EXPECT_EQ(w.element(array, 2).state, JobState::kCancelled);
  EXPECT_EQ(w.element(array, 3).state, JobState::kPending);  // what has ended by itself runs again, as with Slurm
  EXPECT_EQ(w.element(array, 4).state, JobState::kPending);
  w.must(RequeueJob{{array, IntervalSet(1, 1)}, false});  // by its own name it does
  EXPECT_EQ(w.element(array, 1).state, JobState::kPending);
}

TEST(Arrays, WhatWasCancelledWithItsArrayComesBackWithIt) {
  World w(1);
  const JobId array = w.submit_array(small(), "0-1");
  w.settle();
  w.must(CancelJob{{array, {}}});
  w.obey();
  ASSERT_EQ(w.state_of(array), JobState::kCancelled);
  w.must(RequeueJob{{array, {}}, false});
  EXPECT_EQ(w.elements_in(array, JobState::kPending), 2u);

  const JobId waited = w.submit_array(small(), "0-3");
  w.must(CancelJob{{waited, IntervalSet(2, 2)}});
  EXPECT_EQ(w.refused(RequeueJob{{waited, {}}, false}), Errc::kConflict);  // it waits
  w.must(CancelJob{{waited, {}}});
  EXPECT_EQ(w.refused(RequeueJob{{waited, {}}, false}), Errc::kConflict);  // nothing of it ran
  EXPECT_EQ(w.element(waited, 2).state, JobState::kCancelled);
}

TEST(Arrays, ALongArrayIsRequeuedPartByPartWithoutItsCancelledElements) {
  World w(1);
  const JobId array = w.submit_array(small(), "0-899");
  w.must(CancelJob{{array, IntervalSet(0, 599)}});
  w.settle();
  w.must(RequeueJob{{array, {}}, true});
  w.obey();
  EXPECT_EQ(w.elements_in(array, JobState::kCancelled), 600u);
  EXPECT_GT(w.elements_in(array, JobState::kPending), 0u);
  EXPECT_EQ(w.job(array).hold, Hold::kUser);
}

TEST(Arrays, LostNodeRequeuesElements) {
  World w(1);
  const JobId array = w.submit_array(small(), "0-3");
  w.settle();
  w.reboot(1);
  EXPECT_EQ(w.job(array).array->running, 0u);
  EXPECT_EQ(w.job(array).array->unfinished, 4u);
  EXPECT_EQ(w.elements_in(array, JobState::kPending), 4u);
}

}  // namespace
}  // namespace lockstep
