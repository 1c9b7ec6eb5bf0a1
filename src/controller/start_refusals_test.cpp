#include "controller/start_refusals.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(StartRefusals, AreCountedByReasonAndShown) {
  const std::vector<RefusedStart> refused = {{JobId{1}, "NodeNotUp", "n3", Wait::kResources},
                                             {JobId{2}, kJobChanged, "", Wait::kNone},
                                             {JobId{3}, "Barred", "QOSMaxJobsPerUserLimit: 4", Wait::kLimit}};
  StartRefusals refusals;
  refusals.took(refused, Instant{1'000'000});
  refusals.took({refused[0]}, Instant{2'000'000});
  EXPECT_EQ(metrics_text(refusals),
            "# TYPE lockstep_starts_refused_total counter\n"
            "lockstep_starts_refused_total{reason=\"Barred\"} 1\n"
            "lockstep_starts_refused_total{reason=\"JobChanged\"} 1\n"
            "lockstep_starts_refused_total{reason=\"NodeNotUp\"} 2\n");
  const auto notes = notes_of(refused);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].wait, Wait::kResources);
  EXPECT_EQ(notes[1].detail, "QOSMaxJobsPerUserLimit: 4");
}

}  // namespace
}  // namespace lockstep
