// What is remembered of limits says what asking anew says; and amounts shared over time, by block, are what they are
// one column at a time.
#include "model/job.h"
#include "sched/scalars.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

struct TallyWorld : MiniCore {
  PlannerView view;
  std::vector<JobId> running;

  TallyWorld() {
    add_partition("main", {"ALL"});
    add_partition("side", {"n1", "n2"});
    for (std::uint32_t n = 1; n <= 6; ++n) add_node(n, 8, 4);
    for (const char* name : {"gold", "plain"}) {
      Qos qos;
      qos.meta.name = name;
      put(qos);
    }
    for (std::uint32_t u = 1; u <= 3; ++u) {
      User user;
      user.id = UserId{u};
      user.meta.name = format("u{}", u);
      put(user);
    }
    account("top", "");
    account("a", "top");
    account("b", "top");
  }
  Account& account(const std::string& name, const std::string& parent) {
    Account& account = accounts[name];
    account.meta.name = name;
    account.parent = parent;
    put(account);
    return account;
  }
  void change_rules(Rng& rng) {
    const auto bound = [&] { return rng.chance(0.4) ? kNoLimit : static_cast<std::int64_t>(rng.between(1, 8)); };
    const std::string name = rng.chance(0.4) ? "top" : rng.chance(0.5) ? "a" : "b";
    Account& account = accounts[name];
    account.limits.grp_tres.gpus = bound();
    account.limits.grp_jobs = bound();
    account.limits.grp_tres_mins.gpus = rng.chance(0.1) ? 100 : kNoLimit;
    account.quota.nominal.cpu = rng.chance(0.3) ? static_cast<std::int64_t>(rng.between(2, 10)) : kNoLimit;
    put(account);
    Qos qos;
    qos.meta.name = rng.chance(0.5) ? "gold" : "plain";
    qos.limits.max_tres_per_user.gpus = bound();
    qos.limits.max_jobs_per_account = bound();
    qos.limits.grp_tres.cpu = bound();
    put(qos);
  }
  void submit(Rng& rng) {
    JobSpec spec = random_ask(rng);
    spec.user = UserId{static_cast<std::uint32_t>(rng.between(1, 3))};
    spec.account = std::string(rng.chance(0.5) ? "a" : "b");
    spec.qos = std::string(rng.chance(0.5) ? "gold" : "plain");
    add_job(std::move(spec));
  }
  // It runs somewhere: where does not matter to limits.
  void run_one(Rng& rng, Instant now) {
    std::vector<JobId> pending;
    for (const auto& [id, job] : tables.jobs)
      if (job->state == JobState::kPending)
        pending.push_back(id);
    if (pending.empty())
      return;
    Job job = *tables.job(pending[rng.below(pending.size())]);
    auto allocation = std::make_shared<Allocation>();
    allocation->partition = rng.chance(0.5) ? "main" : "side";
    allocation->granted = now;
    allocation->limit = hours(1);
    allocation->tres.cpu = static_cast<std::int64_t>(rng.between(1, 4));
    allocation->tres.gpus = static_cast<std::int64_t>(rng.between(0, 2));
    job.allocation = allocation;
    job.state = JobState::kRunning;
    job.limit_end = now + hours(1);
    running.push_back(job.id);
    put(job);
  }
  std::map<std::string, Account> accounts;
};

TEST(Tally, what_bars_a_shape_is_what_asking_anew_says) {
  std::uint64_t barred = 0, open = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    TallyWorld w;
    Instant now = kNow;
    for (int n = 0; n < 15; ++n) w.submit(rng);
    for (int step = 0; step < 40; ++step) {
      now = now + seconds(1);
      const double kind = rng.unit();
      if (kind < 0.15)
        w.change_rules(rng);
      else if (kind < 0.3)
        w.submit(rng);
      else if (kind < 0.7 || w.running.empty())
        w.run_one(rng, now);
      else {
        w.end(w.running.back());
        w.running.pop_back();
      }
      for (const Change& change : w.drain()) w.view.observe(change);
      w.view.advance(now);
      for (Shape& shape : w.view.shapes()) {
        if (shape.jobs.empty())
          continue;
        for (const Way& way : w.view.ways(shape)) {
          const std::optional<Bar> known = w.view.bar_on(shape, way), anew = w.view.bar(*shape.spec, way);
          ASSERT_EQ(known.has_value(), anew.has_value()) << "seed " << seed << " step " << step;
          ++(known ? barred : open);
          if (known) {
            ASSERT_EQ(known->detail, anew->detail) << "seed " << seed << " step " << step;
            ASSERT_EQ(known->lasting, anew->lasting);
          }
        }
      }
    }
  }
  EXPECT_GT(barred, 1000u);
  EXPECT_GT(open, 1000u);
}

TEST(Scalars, the_first_column_is_the_one_found_by_looking_at_every_column) {
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    ScalarCalendar calendar;
    calendar.begin(kNow);
    std::vector<std::vector<std::int64_t>> free(2, std::vector<std::int64_t>(TimeGrid::columns(), 20));
    const TimeGrid grid(kNow);
    for (ScalarCalendar::Pool p = 0; p < 2; ++p) {
      ASSERT_EQ(calendar.pool(format("p{}", p), 20), p);
      for (int n = 0; n < 5; ++n) {
        const auto amount = static_cast<std::int64_t>(rng.between(0, 5));
        const Instant until = rng.chance(0.1) ? kNever : kNow + minutes(static_cast<std::int64_t>(rng.below(3000)));
        calendar.hold(p, amount, until);
        const Column to =
            until == kNever ? TimeGrid::columns() : std::max<Column>(1, grid.at_or_after(minute_after(until)));
        for (Column c = 0; c < to; ++c) free[p][c] -= amount;
      }
      calendar.use(p);
    }
    for (int n = 0; n < 30; ++n) {
      const std::vector<ScalarCalendar::Part> parts{{0, static_cast<std::int64_t>(rng.between(1, 20))},
                                                    {1, static_cast<std::int64_t>(rng.between(1, 20))}};
      const auto minutes = static_cast<std::uint32_t>(rng.between(1, 4000));
      const auto from = static_cast<Column>(rng.below(300));
      Column expected = kNoColumn;
      for (Column c = from; c < TimeGrid::columns() && expected == kNoColumn; ++c) {
        bool fits = true;
        for (Column at = c; fits && at < std::min(grid.end_of(c, minutes), TimeGrid::columns()); ++at)
          for (const ScalarCalendar::Part& part : parts) fits = fits && free[part.pool][at] >= part.amount;
        if (fits)
          expected = c;
      }
      const Column found = calendar.earliest(parts, from, minutes);
      ASSERT_EQ(found, expected);
      if (found == kNoColumn)
        continue;
      const Column to = grid.end_of(found, minutes);
      calendar.book(parts, found, to);
      for (const ScalarCalendar::Part& part : parts)
        for (Column c = found; c < std::min(to, TimeGrid::columns()); ++c) free[part.pool][c] -= part.amount;
    }
  }
}

}  // namespace
}  // namespace lockstep
