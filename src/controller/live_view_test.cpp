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

}  // namespace
}  // namespace lockstep
