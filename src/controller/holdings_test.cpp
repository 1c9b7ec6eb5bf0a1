#include "controller/holdings.h"

#include <gtest/gtest.h>

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
