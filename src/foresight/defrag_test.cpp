// Moves by the real planner in the real core: every moved job starts again where its place was kept, nothing goes round
// in circles; and what explain says of them.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "core/testing.h"
#include "foresight/explain.h"
#include "model/job.h"

namespace lockstep {
namespace {

CoreSettings defragmenting() {
  CoreSettings settings;
  settings.defragment = true;
  return settings;
}

JobSpec batch(std::uint32_t nodes, std::uint32_t gpus, Duration limit, bool saves) {
  JobSpec spec = World::batch(nodes, gpus);
  spec.time_limit = limit;
  spec.groups[0].per_task.cores = 1;
  spec.checkpoint_signal = saves ? 10 : 0;
  return spec;
}

CommandBody submission(JobSpec spec) { return SubmitJob{.spec = std::make_shared<const JobSpec>(std::move(spec))}; }

JobId submit(ClusterCopy& copy, JobSpec spec) { return copy.change(submission(std::move(spec))).value().job; }

// Half of two nodes is free, and a job waits for a whole one.
struct Scattered {
  explicit Scattered(CoreSettings settings, bool saves = true, Duration wait = minutes(20))
      : copy(World(2).state.tables(), {Instant{1'700'000'000'000'000}, {}}, settings) {
    std::vector<JobId> jobs;
    for (int i = 0; i < 4; ++i) jobs.push_back(submit(copy, batch(1, 4, hours(10), saves)));
    copy.plan();
    copy.finish(jobs[0]);
    copy.finish(jobs[2]);
    stay = {jobs[1], jobs[3]};
    go(wait);
    head = submit(copy, batch(1, 8, hours(1), false));
    copy.plan();
  }
  void go(Duration span) {
    const Instant until = copy.now() + span;
    while (copy.step(until)) {}
    copy.advance_to(until);
  }
  JobState state(JobId id) const { return copy.tables().job(id)->state; }
  ClusterCopy copy;
  std::vector<JobId> stay;
  JobId head;
};

TEST(Defragment, a_head_starts_where_a_job_moved_away) {
  Scattered s(defragmenting());
  EXPECT_EQ(s.state(s.head), JobState::kPending);
  s.go(seconds(40));
  EXPECT_EQ(s.state(s.head), JobState::kRunning);
  for (const JobId id : s.stay) EXPECT_EQ(s.state(id), JobState::kRunning);
  EXPECT_EQ(s.copy.tables().job(s.stay[0])->attempt + s.copy.tables().job(s.stay[1])->attempt, 3u);
}

TEST(Defragment, nobody_moves_who_cannot_or_where_it_is_off) {
  Scattered off{CoreSettings{}}, cannot(defragmenting(), false);
  off.go(minutes(5));
  cannot.go(minutes(5));
  EXPECT_EQ(off.state(off.head), JobState::kPending);
  EXPECT_EQ(cannot.state(cannot.head), JobState::kPending);
}

TEST(Defragment, the_young_move_when_they_have_run_for_a_while) {
  Scattered s(defragmenting(), true, minutes(3));
  s.go(minutes(5));
  EXPECT_EQ(s.state(s.head), JobState::kPending);
  s.go(minutes(4));
  EXPECT_EQ(s.state(s.head), JobState::kRunning);
}

TEST(Defragment, explain_names_the_move) {
  Scattered s{CoreSettings{}};
  const auto e = explain(s.copy.tables(), s.copy.clock(), s.head);
  ASSERT_TRUE(e.ok());
  bool named = false;
  for (const Suggestion& suggestion : e->suggestions)
    if (const auto* moves = std::get_if<remedy::MoveJobs>(&suggestion.remedy)) {
      named = true;
      EXPECT_LE(suggestion.then.start.us, (s.copy.now() + minutes(1)).us);
      EXPECT_FALSE(moves->jobs.empty());
      EXPECT_EQ(moves->device_minutes_lost, 84);
    }
  EXPECT_TRUE(named);
}

TEST(Defragment, random_clusters) {
  std::uint64_t moves = 0, arrived = 0, several = 0;
  for (std::uint64_t seed = 1; seed <= 120 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    ClusterCopy copy(World(static_cast<std::uint32_t>(rng.between(2, 5))).state.tables(),
                     {Instant{1'700'000'000'000'000}, {}}, defragmenting());
    std::map<JobId, Promise> moving;
    std::map<JobId, int> moved;
    bool drained = false;
    const Instant begun = copy.now();
    const auto look = [&] {
      std::map<JobId, int> by;
      for (const auto& [id, job] : copy.tables().jobs) {
        if (job->allocation && job->promise) {
          if (moving.emplace(id, *job->promise).second) {
            ++moved[id];
            ++moves;
            several += ++by[job->eviction->by] == 2;
          }
        } else if (const auto it = moving.find(id); it != moving.end()) {
          if (is_final(job->state) || job->allocation) {
            if (job->allocation && job->attempt > 1 && !job->eviction && job->started + seconds(1) >= copy.now()) {
              EXPECT_EQ(job->allocation->grants, it->second.grants) << "job " << id.value;
              ++arrived;
            }
            moving.erase(it);
          } else {
            EXPECT_TRUE(job->promise || drained) << "job " << id.value << " waits without its place";
            if (!job->promise)
              moving.erase(it);
          }
        }
      }
      // A planner that knows only the records has nothing to add.
      ClusterState records;
      records.restore(copy.tables().snapshot());
      check_invariants(records);
      ClusterCopy other(copy.tables(), copy.clock(), defragmenting());
      other.plan();
      for (const auto& [id, job] : other.tables().jobs)
        EXPECT_EQ(job->eviction != nullptr, copy.tables().job(id)->eviction != nullptr) << "job " << id.value;
    };
    for (int round = 0; round < 40 && !testing::Test::HasFailure(); ++round) {
      for (std::int64_t i = rng.between(0, 3); i > 0; --i) {
        const bool wide = rng.chance(0.3);
        submit(copy, batch(wide ? static_cast<std::uint32_t>(rng.between(1, 2)) : 1,
                           wide ? 8 : static_cast<std::uint32_t>(rng.between(1, 4)), minutes(rng.between(10, 600)),
                           rng.chance(0.7)));
      }
      copy.plan();
      look();
      drained = rng.chance(0.1);
      if (drained || rng.chance(0.3))
        (void)copy.change(
            UpdateNode{.name = World::name_of(static_cast<std::uint32_t>(rng.between(1, 2))), .drain = drained});
      std::vector<JobId> running;
      for (const auto& [id, job] : copy.tables().jobs)
        if (job->state == JobState::kRunning)
          running.push_back(id);
      for (const JobId id : running)
        if (rng.chance(0.15))
          copy.finish(id);
        else if (rng.chance(0.2))
          (void)copy.change(MarkCheckpoint{id});
      copy.plan();
      look();
      const Instant until = copy.now() + seconds(rng.between(10, 900));
      int steps = 0;
      while (copy.step(until) && !testing::Test::HasFailure()) {
        look();
        ASSERT_LT(++steps, 2000) << "it never comes to rest";
      }
      copy.advance_to(until);
    }
    for (const auto& [id, times] : moved) EXPECT_LE(times, (copy.now() - begun).us / minutes(10).us);
  }
  EXPECT_GT(moves, 50u);
  EXPECT_GT(arrived, 40u);
  EXPECT_GT(several, 0u);
}

}  // namespace
}  // namespace lockstep
