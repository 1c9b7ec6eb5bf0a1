#include "controller/past_ends.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Type = Dependency::Type;

// Rows of jobs that are over, by job and element.
class PastStore : public HistoryStore {
 public:
  Result<std::uint64_t> cursor() override { return std::uint64_t{0}; }
  Result<void> take(std::uint64_t, std::span<const Change>, const Tables&) override { return {}; }
  Result<std::vector<EndedRun>> latest_runs(std::size_t) override { return std::vector<EndedRun>(); }
  Result<std::vector<JobRow>> query(const HistoryQuery& query) override {
    std::vector<JobRow> out;
    for (const JobRow& row : rows)
      for (const JobTarget& target : query.jobs) {
        const bool named = row.is_element ? row.array_job == target.job : row.job == target.job;
        const bool of_it = !target.elements || (row.is_element && target.elements->contains(row.array_index));
        const bool wanted = query.states.empty() ||
                            std::find(query.states.begin(), query.states.end(), row.state) != query.states.end();
        if (named && of_it && wanted && out.size() < query.limit)
          out.push_back(row);
      }
    return out;
  }
  void ended(std::uint32_t job, const char* state) {
    JobRow row;
    row.job = JobId(job);
    row.state = state;
    rows.push_back(row);
  }
  void element(std::uint32_t array, std::uint32_t index, const char* state) {
    JobRow row;
    row.job = JobId(array + 1 + index);
    row.array_job = JobId(array);
    row.is_element = true;
    row.array_index = index;
    row.state = state;
    rows.push_back(row);
  }
  std::vector<JobRow> rows;
};

std::vector<Dependency> settled(PastStore& store, std::vector<Dependency> all, bool any = false) {
  const auto ends = past_ends(store, not_listed(Tables(), all));
  EXPECT_TRUE(ends.ok());
  settle_past(all, any, *ends);
  return all;
}

TEST(PastEnds, EveryTypeByHowTheJobEndedLongAgo) {
  PastStore store;
  store.ended(1, "completed");
  store.ended(2, "timeout");
  for (const Type type : {Type::kAfter, Type::kAfterAny, Type::kAfterOk, Type::kAfterCorr})
    EXPECT_TRUE(settled(store, {{type, JobId(1), {}}}).empty());
  for (const Type type : {Type::kAfter, Type::kAfterAny, Type::kAfterNotOk})
    EXPECT_TRUE(settled(store, {{type, JobId(2), {}}}).empty());
  for (const auto& never : {Dependency{Type::kAfterNotOk, JobId(1), {}}, Dependency{Type::kAfterOk, JobId(2), {}},
                            Dependency{Type::kAfterCorr, JobId(2), {}}}) {
    const auto left = settled(store, {never});
    ASSERT_EQ(left.size(), 1u);
    EXPECT_TRUE(left[0].failed);
  }
  // What nobody knows is left to the core, which refuses it; what has no job is not its business.
  const auto left = settled(store, {{Type::kAfterOk, JobId(9), {}}, {Type::kSingleton, {}, {}}});
  ASSERT_EQ(left.size(), 2u);
  EXPECT_FALSE(left[0].failed);
}

TEST(PastEnds, OneOfSeveralIsEnoughWhereAnyIs) {
  PastStore store;
  store.ended(1, "completed");
  store.ended(2, "failed");
  const std::vector<Dependency> both{{Type::kAfterOk, JobId(2), {}}, {Type::kAfterOk, JobId(1), {}}};
  EXPECT_TRUE(settled(store, both, true).empty());
  EXPECT_EQ(settled(store, both).size(), 1u);
}

TEST(PastEnds, ArraysAsAWholeAndTheirElements) {
  PastStore store;
  store.element(10, 0, "completed");
  store.element(10, 1, "cancelled");
  EXPECT_TRUE(settled(store, {{Type::kAfterOk, JobId(10), {}}}).at(0).failed);
  EXPECT_TRUE(settled(store, {{Type::kAfterOk, JobId(10), {}, 0}}).empty());
  EXPECT_TRUE(settled(store, {{Type::kAfterOk, JobId(10), {}, 1}}).at(0).failed);
  EXPECT_FALSE(settled(store, {{Type::kAfterOk, JobId(10), {}, 2}}).at(0).failed);
}

}  // namespace
}  // namespace lockstep
