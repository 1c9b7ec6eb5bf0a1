#include "views/plan_notes.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

PlanNote note(std::uint64_t job, Wait wait, std::string detail = {}, Instant start = {}) {
  return {JobId(job), wait, std::move(detail), start, {}};
}

TEST(PlanNotes, KeepsWhatWasSaidLast) {
  PlanNotes notes;
  EXPECT_EQ(notes.of(JobId(1)), nullptr);
  EXPECT_FALSE(notes.whole(JobId(1)));
  notes.put(note(1, Wait::kPriority));
  notes.put(note(2, Wait::kNodesUnavailable, "UnavailableNodes:n[1-4]", Instant{7}));
  notes.put(note(1, Wait::kResources, {}, Instant{5}));
  ASSERT_NE(notes.of(JobId(1)), nullptr);
  EXPECT_EQ(notes.of(JobId(1))->wait, Wait::kResources);
  EXPECT_EQ(notes.expected_start(JobId(1)), Instant{5});
  const auto whole = notes.whole(JobId(2));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->job, JobId(2));
  EXPECT_EQ(whole->detail, "UnavailableNodes:n[1-4]");
  EXPECT_EQ(whole->expected_start, Instant{7});
  notes.erase(JobId(1));
  notes.erase(JobId(1));
  EXPECT_EQ(notes.of(JobId(1)), nullptr);
  EXPECT_EQ(notes.size(), 1u);
}

TEST(PlanNotes, JobsThatWaitForTheSameShareTheWords) {
  PlanNotes notes;
  for (std::uint64_t job = 1; job <= 100; ++job)
    notes.put(note(job, Wait::kNodesUnavailable, "UnavailableNodes:n1", Instant{static_cast<std::int64_t>(job)}));
  const PlanNote* words = notes.of(JobId(1));
  for (std::uint64_t job = 1; job <= 100; ++job) {
    EXPECT_EQ(notes.of(JobId(job)), words);
    EXPECT_EQ(notes.expected_start(JobId(job)), Instant{static_cast<std::int64_t>(job)});
  }
  // A new start leaves the words; new words leave the others' alone.
  notes.put(note(3, Wait::kNodesUnavailable, "UnavailableNodes:n1", Instant{99}));
  EXPECT_EQ(notes.of(JobId(3)), words);
  notes.put(note(3, Wait::kPriority));
  EXPECT_EQ(notes.of(JobId(3))->wait, Wait::kPriority);
  EXPECT_EQ(notes.of(JobId(4)), words);
  // All of them gone, said again.
  for (std::uint64_t job = 1; job <= 100; ++job) notes.erase(JobId(job));
  EXPECT_EQ(notes.size(), 0u);
  notes.put(note(7, Wait::kNodesUnavailable, "UnavailableNodes:n1"));
  std::size_t count = 0;
  notes.for_each([&](JobId job, const PlanNote& said, Instant start) {
    ++count;
    EXPECT_EQ(job, JobId(7));
    EXPECT_EQ(said.detail, "UnavailableNodes:n1");
    EXPECT_FALSE(start);
  });
  EXPECT_EQ(count, 1u);
}

}  // namespace
}  // namespace lockstep
