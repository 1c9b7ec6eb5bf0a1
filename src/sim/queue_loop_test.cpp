// The queue loop: starts worked out by hand, and what must hold on any log.
#include "sim/queue_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "sim/queue_figures.h"
#include "sim/strict_loop.h"

namespace lockstep::sim {
namespace {

TraceJob job(std::int64_t size, std::int64_t limit_s, std::int64_t run_s, std::int64_t submit_s) {
  return {.id = submit_s, .size = size, .limit_s = limit_s, .run_s = run_s, .submit_s = submit_s};
}

class ByArrival : public QueuePolicy {
 public:
  explicit ByArrival(std::span<const TraceJob> jobs, bool shortest_first = false)
      : jobs_(jobs), shortest_first_(shortest_first) {}
  QueueKeys keys(std::size_t job) override {
    return {.filler = shortest_first_ ? jobs_[job].limit_s : 0, .estimate_s = jobs_[job].limit_s};
  }

 private:
  std::span<const TraceJob> jobs_;
  bool shortest_first_;
};

std::vector<std::int64_t> starts(const std::vector<TraceJob>& jobs, const QueueRules& rules,
                                 bool shortest_first = false) {
  ByArrival policy(jobs, shortest_first);
  return run_queue(jobs, rules, policy)->start_s;
}

using Starts = std::vector<std::int64_t>;

// Four processors. The second job needs all of them and waits for the first until 100; the third would end at 90, the
// fourth at 140, the fifth at 60 but only after what is before it.
const std::vector<TraceJob> kFew{job(3, 100, 80, 0), job(4, 50, 50, 10), job(1, 70, 70, 20), job(1, 110, 110, 30),
                                 job(1, 20, 20, 40)};

TEST(QueueLoop, FirstComeFirstServedStartsNothingPastTheFirst) {
  EXPECT_EQ(starts(kFew, {1, 4, Filling::kNone}), (Starts{0, 80, 130, 130, 130}));
}

TEST(QueueLoop, EasyFillsWhatDoesNotDelayTheFirst) {
  // The third runs in the hole from 20 to 90. The first ends early, at 80, but the second needs the third's processor.
  // The fifth has no room at 40; at 80 and 90 what is left goes by the second's start.
  EXPECT_EQ(starts(kFew, {1, 4, Filling::kHead}), (Starts{0, 90, 20, 140, 140}));
}

TEST(QueueLoop, EasyShortestFirstFillsTheHoleWithTheShortest) {
  const std::vector<TraceJob> jobs{job(3, 100, 100, 0), job(4, 50, 50, 10), job(1, 70, 70, 20), job(1, 40, 40, 20)};
  EXPECT_EQ(starts(jobs, {1, 4, Filling::kHead}, true), (Starts{0, 100, 150, 20}));
  EXPECT_EQ(starts(jobs, {1, 4, Filling::kHead}, false), (Starts{0, 100, 20, 150}));
}

TEST(QueueLoop, EasyUsesTheProcessorsThatTheFirstLeavesOver) {
  // The second needs three of four from 100 on: a long job of one may run beside it.
  const std::vector<TraceJob> jobs{job(3, 100, 100, 0), job(3, 50, 50, 10), job(1, 900, 900, 20), job(1, 900, 900, 30)};
  EXPECT_EQ(starts(jobs, {1, 4, Filling::kHead}), (Starts{0, 100, 20, 150}));
}

TEST(QueueLoop, ConservativeDelaysNoReservation) {
  // At 30 the reservations are: second at 100, third (two processors) at 150. The fourth would end at 160 on the one
  // free processor and push the second back, so it is put behind it; the fifth ends in time.
  const std::vector<TraceJob> jobs{job(3, 100, 100, 0), job(4, 50, 50, 10), job(2, 30, 30, 20), job(1, 130, 130, 30),
                                   job(1, 60, 60, 40)};
  EXPECT_EQ(starts(jobs, {1, 4, Filling::kConservative}), (Starts{0, 100, 150, 150, 40}));
}

TEST(QueueLoop, OverdueFirstOnesAreProtectedByLimits) {
  class Hopeful : public QueuePolicy {
   public:
    std::int64_t overdue_s = 0;
    QueueKeys keys(std::size_t job) override {
      return {.turn = static_cast<std::int64_t>(job), .estimate_s = 1, .overdue_s = overdue_s};
    }
  };
  const std::vector<TraceJob> jobs{job(3, 100, 100, 0), job(4, 50, 50, 10), job(1, 500, 300, 20)};
  Hopeful policy;
  policy.overdue_s = 1000;
  EXPECT_EQ(run_queue(jobs, {1, 4}, policy)->start_s, (Starts{0, 320, 20}));  // a prediction that was wrong
  policy.overdue_s = 15;
  EXPECT_EQ(run_queue(jobs, {1, 4}, policy)->start_s, (Starts{0, 100, 150}));
}

TEST(QueueLoop, KinAreAskedAgainWhenOneOfThemEnds) {
  class Learner : public QueuePolicy {
   public:
    std::vector<std::size_t> asked;
    bool wiser = false;
    QueueKeys keys(std::size_t job) override {
      asked.push_back(job);
      return {.turn = job == 2 && wiser ? -1 : static_cast<std::int64_t>(job)};
    }
    void ended(std::size_t, std::int64_t) override { wiser = true; }
    std::uint64_t kin(std::size_t job) const override { return job == 1 ? 0 : 7; }
  };
  const std::vector<TraceJob> jobs{job(1, 10, 10, 0), job(1, 10, 10, 1), job(1, 10, 10, 2)};
  Learner policy;
  EXPECT_EQ(run_queue(jobs, {1, 1}, policy)->start_s, (Starts{0, 20, 10}));
  EXPECT_EQ(policy.asked, (std::vector<std::size_t>{0, 1, 2, 2}));
}

TEST(QueueLoop, GangsSitOnOneNodeOrOnWholeOnes) {
  GangPool pool(3, 8);
  pool.take({{0, 5}, {1, 3}});
  EXPECT_TRUE(pool.fits(5));
  EXPECT_EQ(pool.find(5)[0].node, 1);  // the fullest that has room
  EXPECT_EQ(pool.find(3)[0].node, 0);
  EXPECT_TRUE(pool.fits(13));  // the idle node and five of the second
  EXPECT_EQ(pool.find(13).size(), 2u);
  EXPECT_FALSE(pool.fits(14));  // sixteen are free, but not so
  EXPECT_TRUE(pool.find(14).empty());
  EXPECT_FALSE(pool.fits(16));
  EXPECT_TRUE(pool.could_ever_fit(24));
  EXPECT_FALSE(pool.could_ever_fit(25));
}

TEST(QueueLoop, WhatCanNeverRunIsRefused) {
  const std::vector<TraceJob> jobs{job(5, 1, 1, 0)};
  ByArrival policy(jobs);
  EXPECT_EQ(run_queue(jobs, {1, 4}, policy).error().code, Errc::kImpossible);
  EXPECT_EQ(run_queue(jobs, {2, 4, Filling::kConservative}, policy).error().code, Errc::kUnsupported);
}

std::vector<TraceJob> random_jobs(Rng& rng, std::int64_t size_max) {
  std::vector<TraceJob> jobs;
  std::int64_t at_s = 0;
  for (int i = 0; i < 60; ++i) {
    at_s += rng.between(0, 30);
    const std::int64_t run_s = rng.between(1, 200);
    jobs.push_back(
        job(rng.chance(0.2) ? rng.between(1, size_max) : rng.between(1, 3), run_s + rng.between(0, 100), run_s, at_s));
  }
  return jobs;
}

void check_capacity(const std::vector<TraceJob>& jobs, const QueueRun& run, const QueueRules& rules) {
  std::map<std::int64_t, std::vector<std::pair<std::size_t, int>>> events;  // ends before starts
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    ASSERT_GE(run.start_s[i], jobs[i].submit_s);
    events[run.start_s[i]].push_back({i, 1});
    events[run.start_s[i] + jobs[i].run_s].insert(events[run.start_s[i] + jobs[i].run_s].begin(), {i, -1});
  }
  std::vector<std::int64_t> used(static_cast<std::size_t>(rules.nodes), 0);
  for (const auto& [at_s, changes] : events) {
    for (const auto& [i, sign] : changes)
      for (const GangPool::Part& part : run.places[i]) used[static_cast<std::size_t>(part.node)] += sign * part.devices;
    for (const std::int64_t devices : used) {
      ASSERT_GE(devices, 0);
      ASSERT_LE(devices, rules.devices_per_node);
    }
  }
}

TEST(QueueLoop, HoldsItsBoundsOnRandomLogs) {
  Rng rng(11);
  for (int round = 0; round < 60; ++round) {
    const QueueRules rules{.nodes = round % 2 ? 5 : 1,
                           .devices_per_node = round % 2 ? 8 : 16,
                           .filling = Filling::kHead,
                           .one_event_at_a_time = round % 3 == 0};
    const std::vector<TraceJob> jobs = random_jobs(rng, 16);
    ByArrival policy(jobs, round % 4 > 1);
    const QueueRun run = run_queue(jobs, rules, policy).value();
    check_capacity(jobs, run, rules);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      std::int64_t devices = 0;
      for (const GangPool::Part& part : run.places[i]) devices += part.devices;
      ASSERT_EQ(devices, jobs[i].size);
      ASSERT_EQ(run.places[i].size(),
                static_cast<std::size_t>((jobs[i].size + rules.devices_per_node - 1) / rules.devices_per_node));
    }
  }
}

// EASY, slow and obvious: second by second, with a count of what would be free at every second to come.
Starts slow_easy(const std::vector<TraceJob>& jobs, std::int64_t procs) {
  Starts start_s(jobs.size(), -1);
  const auto free_at = [&](std::int64_t now_s, std::int64_t at_s, bool limits) {
    std::int64_t free = procs;
    for (std::size_t i = 0; i < jobs.size(); ++i)
      if (start_s[i] >= 0 && start_s[i] + jobs[i].run_s > now_s &&
          start_s[i] + (limits ? jobs[i].limit_s : jobs[i].run_s) > at_s)
        free -= jobs[i].size;
    return free;
  };
  std::size_t left = jobs.size();
  for (std::int64_t now_s = 0; left > 0; ++now_s) {
    std::vector<std::size_t> queue;
    for (std::size_t i = 0; i < jobs.size(); ++i)
      if (start_s[i] < 0 && jobs[i].submit_s <= now_s)
        queue.push_back(i);
    std::int64_t shadow_s = -1;
    std::size_t head = 0;
    for (const std::size_t i : queue) {
      if (jobs[i].size > free_at(now_s, now_s, false)) {
        if (shadow_s < 0) {
          head = i;
          for (shadow_s = now_s; free_at(now_s, shadow_s, true) < jobs[head].size;) ++shadow_s;
        }
        continue;
      }
      start_s[i] = now_s;
      if (shadow_s >= 0 && free_at(now_s, shadow_s, true) < jobs[head].size)
        start_s[i] = -1;
      else
        --left;
    }
  }
  return start_s;
}

TEST(QueueLoop, EasyEqualsTheSlowObviousOne) {
  Rng rng(5);
  for (int round = 0; round < 12; ++round) {
    const std::vector<TraceJob> jobs = random_jobs(rng, 16);
    ASSERT_EQ(starts(jobs, {1, 16}), slow_easy(jobs, 16)) << "round " << round;
  }
}

TEST(StrictLoop, BlocksWhileThePickedOneWaits) {
  class Shortest : public StrictPolicy {
   public:
    explicit Shortest(std::span<const TraceJob> jobs) : jobs_(jobs) {}
    double score(std::size_t job) const override { return static_cast<double>(jobs_[job].limit_s); }

   private:
    std::span<const TraceJob> jobs_;
  };
  // At 0 the first is picked and starts; then the second, which blocks until 100. The third arrives meanwhile: shorter,
  // but it is not looked at again; with backfilling it runs in the hole, and the fourth does not, as 100 < 100 is
  // wrong.
  const std::vector<TraceJob> jobs{job(3, 100, 100, 0), job(4, 50, 50, 0), job(1, 20, 20, 10), job(1, 70, 70, 30)};
  Shortest policy(jobs);
  std::vector<TraceJob> first = jobs;
  first[0].limit_s = 10;  // picked first
  Shortest by_first(first);
  EXPECT_EQ(*run_strict_loop(first, 4, false, by_first), (Starts{0, 100, 150, 150}));
  EXPECT_EQ(*run_strict_loop(first, 4, true, by_first), (Starts{0, 100, 10, 150}));
  EXPECT_EQ(run_strict_loop(jobs, 3, true, policy).error().code, Errc::kImpossible);
}

TEST(QueueFigures, AreWhatTheyAreCalled) {
  const std::vector<TraceJob> jobs{job(1, 100, 100, 0), job(8, 5, 5, 10)};
  const Starts start_s{0, 100};
  const QueueFigures figures = figures_of(jobs, start_s, 10);
  EXPECT_DOUBLE_EQ(figures.avg_wait_s, 45);
  EXPECT_DOUBLE_EQ(figures.avg_bsld, (1 + 9.5) / 2);
  EXPECT_DOUBLE_EQ(figures.p99_wait_s, 90);
  EXPECT_DOUBLE_EQ(figures.max_wait_s, 90);
  EXPECT_DOUBLE_EQ(figures.area_wait_s, 90.0 * 40 / 140);
  EXPECT_DOUBLE_EQ(figures.utilization, 140.0 / 1050);
  EXPECT_DOUBLE_EQ(figures.utilization_to_last_start, 140.0 / 1000);
  EXPECT_EQ(figures.gangs, 1u);
  EXPECT_DOUBLE_EQ(figures.gang_wait_s, 90);
  EXPECT_EQ(figures.by_width[0].jobs, 1u);  // a tenth of the machine
  EXPECT_DOUBLE_EQ(figures.by_width[0].max_wait_s, 0);
  EXPECT_EQ(figures.by_width[3].jobs, 1u);  // eight tenths
  EXPECT_DOUBLE_EQ(figures.by_width[3].avg_wait_s, 90);
  EXPECT_EQ(figures_of(jobs, start_s, 16).by_width[2].jobs, 1u) << "half of it is not more than half";
  const QueueFigures runs[] = {figures, figures};
  EXPECT_DOUBLE_EQ(mean_of(runs).by_width[3].avg_wait_s, 90);
  EXPECT_EQ(mean_of(runs).by_width[3].jobs, 2u);
  EXPECT_DOUBLE_EQ(mean_of(runs).avg_wait_s, 45);
  EXPECT_EQ(mean_of(runs).jobs, 4u);
}

}  // namespace
}  // namespace lockstep::sim
