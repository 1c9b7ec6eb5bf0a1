#include "controller/plan_refusals.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(PlanRefusals, AreCountedByReasonAndShown) {
  using enum PlanPart;
  const std::vector<RefusedPart> refused = {{kStart, JobId{1}, "NodeNotUp", "n3", Wait::kResources},
                                            {kStart, JobId{2}, kJobChanged, "", Wait::kNone},
                                            {kStart, JobId{3}, "Barred", "QOSMaxJobsPerUserLimit: 4", Wait::kLimit},
                                            {kGrowth, JobId{4}, "Taken", "n2", Wait::kResources}};
  PlanRefusals refusals;
  refusals.took(refused, Instant{1'000'000});
  refusals.took({refused[0]}, Instant{2'000'000});
  EXPECT_EQ(metrics_text(refusals),
            "# TYPE lockstep_plans_refused_total counter\n"
            "lockstep_plans_refused_total{plan=\"growth\",reason=\"Taken\"} 1\n"
            "lockstep_plans_refused_total{plan=\"start\",reason=\"Barred\"} 1\n"
            "lockstep_plans_refused_total{plan=\"start\",reason=\"JobChanged\"} 1\n"
            "lockstep_plans_refused_total{plan=\"start\",reason=\"NodeNotUp\"} 2\n");
  const auto notes = notes_of(refused);
  ASSERT_EQ(notes.size(), 2u) << "it does not wait because it may not grow";
  EXPECT_EQ(notes[0].wait, Wait::kResources);
  EXPECT_EQ(notes[1].detail, "QOSMaxJobsPerUserLimit: 4");
}

}  // namespace
}  // namespace lockstep
