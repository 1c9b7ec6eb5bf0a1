// What the index leaves out no selector would have matched, and what one user asks does not grow with what others have.
#include "views/job_index.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "model/job.h"
#include "views/job_names.h"
#include "views/test_tables.h"

namespace lockstep {
namespace {

class IndexedTables {
 public:
  // A job of the user; a final state has no allocation, one that runs holds the node.
  void put(std::uint64_t id, std::uint32_t user, JobState state, std::uint64_t array = 0, std::uint32_t element = 0) {
    const Ref<Job>* known = made.tables.jobs.get(JobId(id));
    const Ref<Job> before = known ? *known : nullptr;
    Job& job = made.draft(id, user);
    job.state = state;
    job.array_job = JobId(array);
    job.array_index = element;
    if (state == JobState::kRunning)
      job.allocation = TestTables::allocation("main", {1 + static_cast<std::uint32_t>(id % 3)}, 0, 1);
    made.save();
    index.changed(before.get(), made.tables.job(JobId(id)));
  }
  void remove(std::uint64_t id) {
    const Ref<Job> gone = made.tables.jobs.at(JobId(id));
    made.tables.apply({made.tables.seq + 1, gone, true});
    index.changed(gone.get(), nullptr);
  }
  std::vector<JobId> matching(const JobSelector& selector) const {
    std::vector<JobId> out;
    for (const auto& [id, job] : made.tables.jobs)
      if (matches(selector, made.tables, *job))
        out.push_back(id);
    return out;
  }
  std::vector<JobId> found(const JobSelector& selector) const {
    const auto among = index.candidates(selector);
    if (!among)
      return matching(selector);
    EXPECT_TRUE(std::is_sorted(among->begin(), among->end()));
    std::vector<JobId> out;
    for (const JobId id : *among)
      if (const Job* job = made.tables.job(id); job && matches(selector, made.tables, *job))
        out.push_back(id);
    return out;
  }

  TestTables made;
  JobIndex index;
};

TEST(JobIndex, AUsersListDoesNotGrowWithWhatOthersHave) {
  IndexedTables all;
  for (std::uint64_t id = 1; id <= 3'000; ++id) all.put(id, 2, id % 4 ? JobState::kCompleted : JobState::kPending);
  for (const std::uint64_t id : {3'001, 3'002, 3'003}) all.put(id, 1, JobState::kPending);
  all.put(3'004, 1, JobState::kFailed);
  all.put(3'005, 2, JobState::kRunning);
  JobSelector mine;
  mine.users = {UserId(1)};
  EXPECT_EQ(all.index.candidates(mine)->size(), 4u);
  mine.states = JobStates::unfinished();
  EXPECT_EQ(all.index.candidates(mine)->size(), 3u);
  JobSelector named;
  named.targets = {{JobId(7), std::nullopt}, {JobId(9'999), std::nullopt}};
  EXPECT_LE(all.index.candidates(named)->size(), 2u);
  JobSelector there;
  there.nodes = {NodeId(3)};
  EXPECT_EQ(all.index.candidates(there)->size(), 1u) << "what runs, not what waits or has ended";
  JobSelector unfinished;
  unfinished.states = JobStates::unfinished();
  EXPECT_EQ(all.index.candidates(unfinished)->size(), 754u);
  EXPECT_FALSE(all.index.candidates({}).has_value());
}

TEST(JobIndex, NoSelectorMissesAJob) {
  Rng rng(7);
  IndexedTables all;
  const std::array states = {JobState::kPending, JobState::kRunning, JobState::kCompleted, JobState::kFailed};
  for (int round = 0; round < 3'000; ++round) {
    const std::uint64_t id = 1 + rng.below(60);
    const auto state = states[rng.below(states.size())];
    if (rng.below(4) == 0 && all.made.tables.job(JobId(id)))
      all.remove(id);
    else
      all.put(id, 1 + static_cast<std::uint32_t>(rng.below(2)), state, id > 40 ? 40 : 0,
              static_cast<std::uint32_t>(id));
    JobSelector selector;
    if (rng.below(2))
      selector.users = {UserId(1 + static_cast<std::uint32_t>(rng.below(3)))};
    if (rng.below(2))
      selector.states = JobStates::unfinished();
    if (rng.below(3) == 0)
      selector.nodes = {NodeId(1 + static_cast<std::uint32_t>(rng.below(3)))};
    if (rng.below(3) == 0)
      selector.targets = {{JobId(1 + rng.below(60)), std::nullopt},
                          {JobId(40), IntervalSet(0, 40 + static_cast<std::uint32_t>(rng.below(20)))}};
    ASSERT_EQ(all.found(selector), all.matching(selector)) << round;
    std::vector<JobId> placed;
    for (const auto& [job, nothing] : all.index.placed()) placed.push_back(job);
    std::vector<JobId> holding;
    for (const auto& [job, record] : all.made.tables.jobs)
      if (record->allocation)
        holding.push_back(job);
    ASSERT_EQ(placed, holding) << round;
  }
}

}  // namespace
}  // namespace lockstep
