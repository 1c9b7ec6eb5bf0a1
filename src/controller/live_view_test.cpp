// What the planner says may come before the change it is about.
#include "controller/live_view.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Change waiting(Seq seq, JobId id) {
  auto job = std::make_shared<Job>();
  job->id = id;
  job->meta.seq = seq;
  job->spec = std::make_shared<JobSpec>();
  return {seq, Ref<Job>(job), false};
}

TEST(LiveView, NotesWaitForTheChangeTheyAreAbout) {
  LiveView view({});
  view.note({PlanNote{.job = JobId{1}, .wait = Wait::kResources}}, 5);
  view.note({PlanNote{.job = JobId{1}, .wait = Wait::kPriority}}, 6);
  EXPECT_EQ(view.notes().of(JobId{1}), nullptr);
  view.apply({waiting(5, JobId{1})});
  ASSERT_NE(view.notes().of(JobId{1}), nullptr);
  EXPECT_EQ(view.notes().of(JobId{1})->wait, Wait::kResources);
  view.apply({waiting(6, JobId{2})});
  EXPECT_EQ(view.notes().of(JobId{1})->wait, Wait::kPriority);
  view.note({PlanNote{.job = JobId{2}, .wait = Wait::kPriority}}, 6);
  EXPECT_NE(view.notes().of(JobId{2}), nullptr);
}

TEST(LiveView, CountsOfStatesAreKeptWithEveryChange) {
  LiveView view({});
  Seq seq = 0;
  const auto put = [&](std::uint64_t id, JobState state, std::uint32_t waiting_elements = 0, bool removed = false) {
    auto job = std::make_shared<Job>();
    job->id = JobId{id};
    job->state = state;
    job->spec = std::make_shared<JobSpec>();
    if (waiting_elements > 0) {
      ArrayState array;
      array.asked = array.waiting = IntervalSet(1, waiting_elements);
      job->array = std::make_shared<const ArrayState>(array);
    }
    view.apply({{++seq, Ref<Job>(job), removed}});
    EXPECT_EQ(view.counts().by_state, count_jobs(view.tables()).by_state);
  };
  put(1, JobState::kPending);
  put(2, JobState::kPending, 1000);
  put(2, JobState::kPending, 999);
  put(1, JobState::kRunning);
  put(3, JobState::kRunning);
  put(3, JobState::kFailed);
  put(2, JobState::kCancelled, 0);
  put(1, JobState::kRunning, 0, true);
  put(9, JobState::kRunning, 0, true);  // never heard of
  EXPECT_EQ(view.counts().total(), 2u);
}

}  // namespace
}  // namespace lockstep
