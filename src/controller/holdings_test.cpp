#include "controller/holdings.h"

#include <gtest/gtest.h>

#include "model/job.h"
#include "model/placement.h"
#include "model/spec.h"

namespace lockstep {
namespace {

Job job(std::uint64_t id, std::uint32_t user, const char* script, JobState state = JobState::kPending) {
  Job out;
  out.id = JobId(id);
  out.state = state;
  JobSpec spec;
  spec.user = UserId(user);
  spec.script = script;
  spec.environment = "env";
  out.spec = std::make_shared<const JobSpec>(std::move(spec));
  return out;
}

TEST(Holdings, PendingJobsAndStoredBytesOfEachUser) {
  Holdings h;
  h.loaded();
  const Job a = job(1, 7, "s1"), b = job(2, 7, "s1"), c = job(3, 8, "s1");
  for (const Job* each : {&a, &b, &c}) h.changed(nullptr, each);
  h.known(UserId(7), "s1", 1000);
  h.known(UserId(7), "env", 50);
  h.known(UserId(7), "s1", 1000);  // told twice, counted once
  EXPECT_EQ(h.of(UserId(7)).pending_jobs, 2u);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, 1050u);
  EXPECT_EQ(h.of(UserId(8)).stored_bytes, 0u);
  const Job running = job(1, 7, "s1", JobState::kRunning);
  h.changed(&a, &running);
  EXPECT_EQ(h.of(UserId(7)).pending_jobs, 1u);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, 1050u);
  h.changed(&running, nullptr);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, 1050u);
  h.changed(&b, nullptr);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, 0u);
  EXPECT_EQ(h.of(UserId(7)).pending_jobs, 0u);
  EXPECT_EQ(h.of(UserId(8)).pending_jobs, 1u);
}

// Long words count like stored files, once for all records that share them.
TEST(Holdings, LongWordsCountOnce) {
  Holdings h;
  h.loaded();
  Job fat = job(1, 7, "s1");
  auto spec = std::make_shared<JobSpec>(*fat.spec);
  spec->groups.resize(1);
  spec->groups[0].argv = {std::string(100'000, 'a')};
  fat.spec = spec;
  h.changed(nullptr, &fat);
  const std::uint64_t once = h.of(UserId(7)).stored_bytes;
  EXPECT_GE(once, 100'000u);
  EXPECT_LT(once, 101'000u);
  EXPECT_EQ(once, counted_bytes(*fat.spec));
  // An element that was held on its own: another specification with the same words.
  Job element = fat;
  element.id = JobId(2);
  auto held = std::make_shared<JobSpec>(*spec);
  held->hold = true;
  element.spec = held;
  h.changed(nullptr, &element);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, once);
  Job running = fat;
  running.state = JobState::kRunning;
  h.changed(&fat, &running);
  h.changed(&running, nullptr);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, once);
  h.changed(&element, nullptr);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, 0u);
  // A step of it, too.
  Step step;
  step.user = UserId(7);
  auto words = std::make_shared<StepSpec>();
  words->argv = {std::string(50'000, 's')};
  step.spec = words;
  h.changed(nullptr, &step);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, counted_bytes(*words));
  h.changed(&step, nullptr);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, 0u);
  EXPECT_EQ(counted_bytes(*job(3, 7, "s1").spec), 0u) << "ordinary words count nothing";
}

// Each just too short to lie apart, and together as much as a long one: every version of the record is written with
// them.
TEST(Holdings, ManyShortWordsCount) {
  Holdings h;
  h.loaded();
  Job a = job(1, 7, "s1");
  auto spec = std::make_shared<JobSpec>(*a.spec);
  const std::string word(8000, 'w');
  spec->comment = word;
  spec->options = std::vector<std::pair<std::string, std::string>>{{"a", word}};
  spec->std_out = std::string(4000, 'o');
  spec->work_dir = std::string(4000, 'd');
  a.spec = spec;
  h.changed(nullptr, &a);
  EXPECT_GE(h.of(UserId(7)).stored_bytes, 24'000u);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, counted_bytes(*spec));
  Job b = job(2, 7, "s1");
  auto other = std::make_shared<JobSpec>(*spec);
  other->hold = true;
  b.spec = other;
  h.changed(nullptr, &b);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, 2 * counted_bytes(*spec));
  EXPECT_EQ(h.all_stored(), 2 * counted_bytes(*spec));
  h.changed(&a, nullptr);
  h.changed(&b, nullptr);
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, 0u);
}

TEST(Holdings, WhatWasThereAtTheStartIsAskedForOnce) {
  Holdings h;
  const Job a = job(1, 7, "s1"), b = job(2, 7, "s2");
  h.changed(nullptr, &a);
  h.changed(nullptr, &b);
  h.loaded();
  std::size_t asked = 0;
  for (auto some = h.take_unknown(2); !some.empty(); some = h.take_unknown(2))
    for (const auto& [user, blob] : some) {
      ++asked;
      h.known(user, blob, 10);
    }
  EXPECT_EQ(asked, 3u);  // two scripts and the environment they share
  EXPECT_EQ(h.of(UserId(7)).stored_bytes, 30u);
  const Job c = job(3, 7, "s3");
  h.changed(nullptr, &c);
  EXPECT_TRUE(h.take_unknown(9).empty());
}

}  // namespace
}  // namespace lockstep
