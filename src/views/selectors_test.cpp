#include "views/selectors.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "model/bounds.h"
#include "model/job.h"
#include "model/spec.h"
#include "views/job_names.h"
#include "views/test_tables.h"

namespace lockstep {
namespace {

// 1 alice pending in the default partition · 2 bob running on n1,n2 in debug · 3 alice's array, elements 4 (index 1,
// running on n1) and 5 (index 0, completed), 2-9 waiting · 6 bob pending in main or debug
class Selectors : public testing::Test {
 protected:
  Selectors() {
    made_.draft(1);
    made_.spec().name = "train";
    made_.save();

    Job& running = made_.draft(2, 2);
    running.state = JobState::kRunning;
    running.allocation = TestTables::allocation("debug", {1, 2}, 0, 2);
    made_.spec().partitions = {"main", "debug"};
    made_.save();

    Job& array = made_.draft(3);
    made_.spec().name = "sweep";
    auto state = std::make_shared<ArrayState>();
    state->asked = IntervalSet(0, 9);
    state->waiting = IntervalSet(2, 9);
    array.array = state;
    made_.save();

    Job& first = made_.draft(4);
    made_.spec().name = "sweep";
    first.array_job = JobId(3);
    first.array_index = 1;
    first.state = JobState::kRunning;
    first.allocation = TestTables::allocation("main", {1}, 4, 1);
    made_.save();

    Job& second = made_.draft(5);
    made_.spec().name = "sweep";
    second.array_job = JobId(3);
    second.array_index = 0;
    second.state = JobState::kCompleted;
    made_.save();

    made_.draft(6, 2);
    made_.spec().partitions = {"main", "debug"};
    made_.spec().account = "biology";
    made_.save();
  }

  std::string selected(const JobSelector& selector) const {
    std::string out;
    for_each_job(made_.tables, selector,
                 [&](const Ref<Job>& job) { out += (out.empty() ? "" : " ") + std::to_string(job->id.value); });
    return out;
  }
  std::string targets(const JobSelector& selector) const {
    std::string out;
    for (const auto& target : select_targets(made_.tables, selector)) out += (out.empty() ? "" : " ") + text_of(target);
    return out;
  }
  std::string selected(std::string_view target) const {
    JobSelector selector;
    selector.targets = {*parse_job_target(target)};
    return selected(selector);
  }

  TestTables made_;
};

TEST_F(Selectors, AnArrayWithManyGapsIsAsManyTargetsAsOneMayNameRanges) {
  Job& array = made_.draft(7);
  auto state = std::make_shared<ArrayState>();
  for (std::uint32_t i = 0; i < kPiecesMax + 300; ++i) state->waiting.insert(2 * i);
  state->asked = state->waiting;
  array.array = state;
  made_.save();
  JobSelector selector;
  selector.targets = {*parse_job_target("7")};
  const auto found = select_targets(made_.tables, selector);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].elements->intervals().size(), kPiecesMax);
  EXPECT_EQ(found[0].elements->size() + found[1].elements->size(), state->waiting.size());
}

TEST_F(Selectors, NothingAskedIsEverything) { EXPECT_EQ(selected(JobSelector{}), "1 2 3 4 5 6"); }

TEST_F(Selectors, ByTarget) {
  EXPECT_EQ(selected("1"), "1");
  EXPECT_EQ(selected("3"), "3 4 5");  // an array is its record and its elements
  EXPECT_EQ(selected("3_1"), "4");    // started: its own record
  EXPECT_EQ(selected("3_5"), "3");    // waiting: the array's
  EXPECT_EQ(selected("3_[0-2]"), "3 4 5");
  EXPECT_EQ(selected("3_[0-1]"), "4 5");
  EXPECT_EQ(selected("3_99"), "");
  EXPECT_EQ(selected("4"), "4");  // an element also has an id
  EXPECT_EQ(selected("1_0"), "");
  EXPECT_EQ(selected("77"), "");
  JobSelector several;
  several.targets = {*parse_job_target("6"), *parse_job_target("1"), *parse_job_target("1")};
  EXPECT_EQ(selected(several), "1 6");
  several.targets = {*parse_job_target("6"), *parse_job_target("1"), *parse_job_target("3_1")};
  EXPECT_EQ(selected(several), "1 4 6");
  several.targets->clear();
  EXPECT_EQ(selected(several), "");
}

TEST_F(Selectors, ElementsNamedOneByOneAreOneTarget) {
  std::vector<JobTarget> named;
  for (const char* name : {"3_9", "3_2", "1", "3_3", "3_1", "3_77", "3_2", "3_4", "88_1"})
    named.push_back(*parse_job_target(name));
  std::vector<std::uint32_t> counts;
  std::string text;
  const auto targets = together(made_.tables, named, counts);
  ASSERT_EQ(targets.size(), counts.size());
  for (std::size_t i = 0; i < targets.size(); ++i)
    text += text_of(targets[i]) + " x" + std::to_string(counts[i]) + "; ";
  // What has started, was never there, or is no array's keeps an answer of its own.
  EXPECT_EQ(text, "1 x1; 3_1 x1; 3_77 x1; 88_1 x1; 3_[2-4,9] x5; ");

  Job& array = made_.draft(7);
  auto state = std::make_shared<ArrayState>();
  state->waiting = state->asked = IntervalSet(0, 20'000);
  array.array = state;
  made_.save();
  named.clear();
  for (std::uint32_t i = 9'000; i-- > 0;) named.push_back({JobId(7), IntervalSet(2 * i, 2 * i)});
  const auto many = together(made_.tables, named, counts);
  EXPECT_EQ(many.size(), (9'000 + kPiecesMax - 1) / kPiecesMax);
  std::uint64_t sum = 0;
  for (const auto count : counts) sum += count;
  EXPECT_EQ(sum, 9'000u);
  const TargetList list(named);
  ASSERT_EQ(list.by_job().size(), 1u);
  EXPECT_EQ(list.of(JobId(7))->elements->intervals().size(), 9'000u);
  named.push_back({JobId(7), std::nullopt});
  EXPECT_FALSE(TargetList(named).of(JobId(7))->elements.has_value());
  std::rotate(named.begin(), named.end() - 1, named.end());
  EXPECT_FALSE(TargetList(named).of(JobId(7))->elements.has_value());
}

TEST_F(Selectors, ByUserStateNameAndAccount) {
  JobSelector s;
  s.users = users_named(made_.tables, {"bob"});
  EXPECT_EQ(selected(s), "2 6");
  s.users = users_named(made_.tables, {"1000", "1001"});
  EXPECT_EQ(selected(s), "1 2 3 4 5 6");
  s.users = users_named(made_.tables, {"nobody"});
  EXPECT_EQ(selected(s), "");
  s = {};
  s.states = {};
  s.states.add(JobState::kRunning);
  s.states.add(JobState::kCompleted);
  EXPECT_EQ(selected(s), "2 4 5");
  s.names = {"sweep"};
  EXPECT_EQ(selected(s), "4 5");
  s = {};
  s.accounts = {"physics"};  // alice's default
  EXPECT_EQ(selected(s), "1 3 4 5");
  s.accounts = {"biology"};
  EXPECT_EQ(selected(s), "6");
}

TEST_F(Selectors, ByPartitionAndNode) {
  JobSelector s;
  s.partitions = {"debug"};
  EXPECT_EQ(selected(s), "2 6");
  s.partitions = {"main"};  // job 2 asked for either and runs in debug
  EXPECT_EQ(selected(s), "1 3 4 5 6");
  s = {};
  s.nodes = *nodes_named(made_.tables, "n[2-3]");
  EXPECT_EQ(selected(s), "2");
  s.nodes = *nodes_named(made_.tables, "n1");
  EXPECT_EQ(selected(s), "2 4");
  EXPECT_EQ(nodes_named(made_.tables, "n[1-4]").error().code, Errc::kNotFound);
  EXPECT_EQ(nodes_named(made_.tables, "n[1").error().code, Errc::kInvalid);
}

TEST_F(Selectors, ByQosReservationLicencesAndKey) {
  Job& job = made_.draft(7);
  job.hold = Hold::kUser;
  made_.spec().qos = "high";
  made_.spec().reservation = "course";
  made_.spec().licenses = "matlab:2";
  made_.spec().wckey = "w1";
  made_.save();
  JobSelector s;
  s.qos = {"high"};
  EXPECT_EQ(selected(s), "7");
  s.qos = {"high", ""};
  EXPECT_EQ(selected(s), "1 2 3 4 5 6 7");
  s = {};
  s.reservations = {"course"};
  EXPECT_EQ(selected(s), "7");
  s = {};
  s.licenses = {"matlab:2"};
  EXPECT_EQ(selected(s), "7");
  s = {};
  s.wckeys = {"w1"};
  EXPECT_EQ(selected(s), "7");
  s.wckeys = {"w2"};
  EXPECT_EQ(selected(s), "");
}

TEST_F(Selectors, ElementsOutliveTheirArray) {
  made_.tables.apply({made_.tables.seq + 1, made_.tables.jobs.at(JobId(3)), true});
  EXPECT_EQ(selected("3_1"), "4");
  EXPECT_EQ(selected("3"), "4 5");
}

TEST_F(Selectors, TargetsOfABulkRequest) {
  JobSelector s;
  EXPECT_EQ(targets(s), "1 2 3_[2-9] 4 6");  // 5 has ended
  s.states = {};
  s.states.add(JobState::kPending);
  EXPECT_EQ(targets(s), "1 3_[2-9] 6");  // what runs of the array is not meant
  s = {};
  s.targets = {*parse_job_target("3_[0-3]"), *parse_job_target("3_[3-4]"), *parse_job_target("6")};
  EXPECT_EQ(targets(s), "3_[2-4] 4 6");
  s.users = users_named(made_.tables, {"bob"});
  EXPECT_EQ(targets(s), "6");
  s = {};
  s.targets = {*parse_job_target("3_7"), *parse_job_target("3")};
  EXPECT_EQ(targets(s), "3_[2-9] 4");
  s.targets = {*parse_job_target("77")};
  EXPECT_EQ(targets(s), "");
}

TEST(JobStates, UnfinishedIsWhatHasNotEnded) {
  for (auto i = 0u; i <= static_cast<unsigned>(JobState::kBootFail); ++i) {
    const auto state = static_cast<JobState>(i);
    EXPECT_EQ(JobStates::unfinished().has(state), !is_final(state));
    EXPECT_TRUE(JobStates::all().has(state));
    EXPECT_FALSE(JobStates{}.has(state));
  }
}

TEST(Intersection, MatchesMembership) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    IntervalSet a, b;
    for (IntervalSet* set : {&a, &b})
      for (std::uint64_t n = rng.below(6); n > 0; --n) {
        const auto low = static_cast<std::uint32_t>(rng.below(60));
        set->insert(low, low + static_cast<std::uint32_t>(rng.below(10)));
      }
    const IntervalSet both = intersection(a, b);
    for (std::uint32_t i = 0; i < 80; ++i) ASSERT_EQ(both.contains(i), a.contains(i) && b.contains(i)) << seed;
    ASSERT_EQ(both, intersection(b, a));
  }
}

}  // namespace
}  // namespace lockstep
