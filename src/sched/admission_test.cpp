// The planner knows what the core would refuse: limits, licences and reservations bar starts, get their reason and
// their place in the calendar, and never make a job head.
#include <gtest/gtest.h>

#include "model/job.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

constexpr Duration kHour = hours(1);

struct World {
  MiniCore core;
  Driver driver;
  Instant now = kNow;

  explicit World(std::uint32_t nodes) {
    core.add_partition("main", {"ALL"});
    for (std::uint32_t n = 1; n <= nodes; ++n) core.add_node(n, 8, 4);
    User user;
    user.id = UserId{7};
    user.meta.name = "ada";
    core.put(user);
  }
  JobId add(JobSpec spec, std::uint64_t priority = 1) {
    spec.user = UserId{7};
    return core.add_job(std::move(spec), priority);
  }
  std::size_t run() { return driver.run(core, now); }
  bool runs(JobId id) const { return core.tables.job(id)->state == JobState::kRunning; }
  const PlanNote& note(JobId id) { return driver.notes[id]; }
  Duration expected_in(JobId id) { return driver.planner.expected_start(id) - now; }
  void reserve(const std::string& name, std::vector<std::string> nodes, Duration in, Duration length,
               std::vector<std::string> users, Recurrence recurrence = Recurrence::kNone) {
    Reservation r;
    r.recurrence = recurrence;
    r.maint = recurrence != Recurrence::kNone;
    r.meta.name = name;
    r.start = WallTime{now.us + in.us};
    r.duration = length;
    r.nodes = std::move(nodes);
    r.users = std::move(users);
    core.put(r);
  }
};

void expect_near(Duration is, Duration should) {
  EXPECT_GE(is, should);
  EXPECT_LE(is, should + minutes(15));  // the calendar's grid
}

TEST(PlannerAdmission, a_users_limit_is_a_reason_and_keeps_no_room) {
  World w(2);
  Qos qos;
  qos.meta.name = "gold";
  qos.limits.max_tres_per_user.gpus = 4;
  w.core.put(qos);
  JobSpec big = ask(1, 4, kHour);
  big.qos = "gold";
  const JobId first = w.add(big, 9), second = w.add(big, 9);
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(first));
  EXPECT_EQ(w.note(second).wait, Wait::kLimit);
  EXPECT_NE(w.note(second).detail.find("QOSMaxGRESPerUser"), std::string::npos) << w.note(second).detail;
  expect_near(w.expected_in(second), kHour);
  // What it cannot use anyway is nobody's to wait for: a job that outlasts the first takes the free node.
  const JobId other = w.add(ask(1, 4, hours(9)), 1);
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(other));
  w.core.end(first);
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(second));
}

TEST(PlannerAdmission, what_will_never_be_allowed_gets_no_start) {
  World w(2);
  Qos qos;
  qos.meta.name = "small";
  qos.limits.max_tres_per_job.gpus = 2;
  w.core.put(qos);
  JobSpec big = ask(1, 4, kHour);
  big.qos = "small";
  const JobId id = w.add(big);
  EXPECT_EQ(w.run(), 0u);
  EXPECT_EQ(w.note(id).wait, Wait::kLimit);
  EXPECT_EQ(w.driver.planner.expected_start(id), Instant{});
}

// --exclusive asks for no GPU and no core but holds them all, and limits count what is held.
TEST(PlannerAdmission, a_node_for_oneself_is_barred_by_what_it_will_count) {
  const auto with = [](auto edit) {
    Qos qos;
    qos.meta.name = "few";
    edit(qos.limits);
    return qos;
  };
  for (const Qos& qos :
       {with([](Limits& l) { l.max_tres_per_user.gpus = 3; }), with([](Limits& l) { l.max_tres_per_user.cpu = 7; }),
        with([](Limits& l) { l.grp_tres.gpus = 3; }), with([](Limits& l) { l.max_tres_per_job.cpu = 7; })}) {
    World w(2);
    w.core.put(qos);
    JobSpec whole = ask(1, 0, kHour);
    whole.groups[0].sharing = Sharing::kExclusive;
    whole.groups[0].all_cores = true;
    const JobId free = w.add(whole, 9);
    whole.qos = "few";
    const JobId barred = w.add(whole, 9);
    EXPECT_EQ(w.run(), 1u);
    EXPECT_TRUE(w.runs(free));
    EXPECT_EQ(w.note(barred).wait, Wait::kLimit) << w.note(barred).detail;
    EXPECT_EQ(w.driver.planner.expected_start(barred), Instant{}) << "no place for it counts less";
    // Room is not kept for it.
    const JobId other = w.add(ask(1, 4, hours(9)), 1);
    EXPECT_EQ(w.run(), 1u);
    EXPECT_TRUE(w.runs(other));
  }
}

TEST(PlannerAdmission, a_node_for_oneself_waits_for_what_others_count) {
  World w(2);
  Qos qos;
  qos.meta.name = "few";
  qos.limits.max_tres_per_user.gpus = 6;
  w.core.put(qos);
  JobSpec whole = ask(1, 0, kHour);
  whole.qos = "few";
  whole.groups[0].sharing = Sharing::kExclusive;
  whole.groups[0].all_cores = true;
  const JobId first = w.add(whole, 9), second = w.add(whole, 9);
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(first));
  EXPECT_EQ(w.note(second).wait, Wait::kLimit) << w.note(second).detail;
  expect_near(w.expected_in(second), kHour);
  // A node with fewer GPUs comes: there it counts less.
  w.core.add_node(3, 8, 2);
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(second));
}

TEST(PlannerAdmission, licences_are_counted_over_time) {
  World w(4);
  Licence licence;
  licence.meta.name = "matlab";
  licence.total = 2;
  w.core.put(licence);
  JobSpec one = ask(1, 1, kHour);
  one.licenses = "matlab:1";
  std::vector<JobId> jobs;
  for (int i = 0; i < 6; ++i) jobs.push_back(w.add(one));
  EXPECT_EQ(w.run(), 2u);
  EXPECT_EQ(w.note(jobs[2]).wait, Wait::kLicenses);
  expect_near(w.expected_in(jobs[2]), kHour);
  expect_near(w.expected_in(jobs[3]), kHour);
  EXPECT_GE(w.expected_in(jobs[4]), kHour * 2);
  w.core.end(jobs[0]);
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(jobs[2]));
}

TEST(PlannerAdmission, nobody_runs_into_a_reservation_of_others) {
  World w(2);
  w.reserve("maint", {"n1"}, kHour, kHour * 3, {"root"});
  const JobId long_one = w.add(ask(1, 4, kHour * 2));
  EXPECT_EQ(w.run(), 1u);
  EXPECT_EQ(w.core.tables.job(long_one)->allocation->grants[0].node, NodeId{2});
  const JobId second = w.add(ask(1, 4, kHour * 2));
  const JobId brief = w.add(ask(1, 4, minutes(30)));
  EXPECT_EQ(w.run(), 1u) << "only what ends before it";
  EXPECT_TRUE(w.runs(brief));
  expect_near(w.expected_in(second), kHour * 2);
  const JobId both = w.add(ask(2, 4, kHour * 2));
  w.run();
  EXPECT_GE(w.expected_in(both), kHour * 4) << "after the maintenance";
}

TEST(PlannerAdmission, a_head_is_promised_a_place_behind_the_window) {
  World w(2);
  w.reserve("maint", {"n1", "n2"}, kHour, kHour, {"root"});
  const JobId wide = w.add(ask(2, 4, kHour * 3));
  EXPECT_EQ(w.run(), 0u);
  EXPECT_EQ(w.driver.planner.expected_start(wide), w.now + kHour * 2);
  const JobId filler = w.add(ask(1, 4, kHour));
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(filler));
  w.now = w.now + kHour * 2;
  w.core.end(filler);
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(wide));
}

// A window that comes again sooner than a job would be over keeps it from starting for ever. It says so, is foreseen at
// no time, and no room is kept for it: the next job is the head.
TEST(PlannerAdmission, what_a_weekly_window_never_lets_start_says_so_and_is_nobodys_head) {
  for (const Duration limit : {kForever, hours(24 * 8)}) {
    World w(2);
    w.reserve("maint", {"n1", "n2"}, kHour * 30, kHour * 4, {"root"}, Recurrence::kWeekly);
    const JobId runs = w.add(ask(1, 4, kHour * 2));
    EXPECT_EQ(w.run(), 1u);
    ASSERT_TRUE(w.runs(runs));
    const JobId endless = w.add(ask(1, 4, limit), 9);
    const JobId wide = w.add(ask(2, 4, kHour), 5);
    const JobId filler = w.add(ask(1, 4, kHour * 3), 1);
    EXPECT_EQ(w.run(), 0u) << "the filler would delay the wide one";
    EXPECT_EQ(w.note(endless).wait, Wait::kNodesUnavailable);
    EXPECT_EQ(w.note(endless).detail, "Reserved for maintenance");
    EXPECT_EQ(w.note(endless).expected_start, Instant{});
    EXPECT_EQ(w.note(wide).wait, Wait::kResources);
    EXPECT_EQ(w.driver.planner.expected_start(wide), w.now + kHour * 2);
    w.core.end(runs);
    EXPECT_EQ(w.run(), 1u);
    EXPECT_TRUE(w.runs(wide));
    EXPECT_FALSE(w.runs(filler));
  }
}

TEST(PlannerAdmission, a_window_that_does_not_come_again_is_the_reason_and_its_end_the_start) {
  World w(2);
  w.reserve("class", {"n1", "n2"}, kHour, kHour, {"root"});
  const JobId head = w.add(ask(2, 4, kHour * 3), 9), other = w.add(ask(2, 4, kForever), 1);
  EXPECT_EQ(w.run(), 0u);
  for (const JobId id : {head, other}) {
    EXPECT_EQ(w.note(id).wait, Wait::kNodesUnavailable);
    EXPECT_EQ(w.note(id).detail, "Reserved for class");
  }
  EXPECT_EQ(w.driver.planner.expected_start(head), w.now + kHour * 2);
  expect_near(w.expected_in(other), kHour * 5);
  w.now = w.now + kHour * 2;
  EXPECT_EQ(w.run(), 1u);
  EXPECT_EQ(w.note(other).wait, Wait::kResources);
}

TEST(PlannerAdmission, a_job_waits_for_its_own_reservation_and_starts_inside) {
  World w(3);
  w.reserve("class", {"n2"}, kHour, kHour * 4, {"ada"});
  JobSpec spec = ask(1, 4, kHour);
  spec.reservation = "class";
  const JobId id = w.add(spec);
  EXPECT_EQ(w.run(), 0u);
  EXPECT_EQ(w.note(id).wait, Wait::kReservation);
  expect_near(w.expected_in(id), kHour);
  EXPECT_LE(w.driver.planner.wake_at(), w.now + kHour);
  w.now = w.now + kHour;
  EXPECT_EQ(w.run(), 1u);
  EXPECT_EQ(w.core.tables.job(id)->allocation->grants[0].node, NodeId{2});
}

TEST(PlannerAdmission, a_job_that_outlasts_its_reservation_starts_inside) {
  for (const Duration limit : {kHour * 24, kForever}) {
    World w(3);
    w.reserve("class", {"n2"}, kHour, kHour * 4, {"ada"});
    JobSpec spec = ask(1, 4, limit);
    spec.reservation = "class";
    const JobId id = w.add(spec);
    EXPECT_EQ(w.run(), 0u);
    w.now = w.now + kHour;
    EXPECT_EQ(w.run(), 1u);
    EXPECT_TRUE(w.runs(id));
  }
}

// What was found not to fit is not looked at again until something can help it. These do, though nothing was freed.
TEST(PlannerAdmission, a_reservation_that_moves_or_changes_its_users_lets_waiting_jobs_in) {
  World w(1);
  w.reserve("maint", {"n1"}, minutes(-1), kHour * 3, {"root"});
  const JobId one = w.add(ask(1, 4, kHour), 9), other = w.add(ask(1, 2, kHour), 1);
  EXPECT_EQ(w.run(), 0u);
  w.reserve("maint", {"n1"}, kHour * 2, kHour, {"root"});
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(one));
  w.core.end(one);
  w.reserve("maint", {"n1"}, minutes(-1), kHour * 3, {"root"});
  EXPECT_EQ(w.run(), 0u);
  w.reserve("maint", {"n1"}, minutes(-1), kHour * 3, {"ada"});
  EXPECT_EQ(w.run(), 0u) << "who does not name it does not get it";
  w.reserve("maint", {}, minutes(-1), kHour * 3, {"root"});
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(other));
}

TEST(PlannerAdmission, a_node_that_changes_helps_the_job_that_waits_for_such_a_one) {
  World w(2);
  Node node = *w.core.tables.node(NodeId{1});
  node.features = {"big"};
  w.core.put(node);
  JobSpec spec = ask(1, 4, kHour);
  spec.groups[0].constraint = "big";
  const JobId first = w.add(spec), second = w.add(spec);
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(first));
  w.add(ask(2, 4, kHour));
  EXPECT_EQ(w.run(), 0u);
  node = *w.core.tables.node(NodeId{2});
  node.features = {"big"};
  w.core.put(node);
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(second));
}

TEST(PlannerAdmission, past_use_puts_an_account_behind) {
  World w(1);
  for (const char* name : {"heavy", "light"}) {
    Account account;
    account.meta.name = name;
    w.core.put(account);
    Association association;
    association.account = name;
    association.user = "ada";
    association.meta.name = association_name(name, "ada", "");
    w.core.put(association);
  }
  Usage usage;
  usage.account = "heavy";
  usage.user = UserId{7};
  usage.as_of = w.now;
  usage.spent.cpu = usage.spent.billing = 1'000'000'000;
  usage.meta.name = usage_name(usage);
  w.core.put(usage);
  JobSpec spec = ask(1, 4, kHour);
  spec.account = "heavy";
  const JobId heavy = w.add(spec);
  spec.account = "light";
  const JobId light = w.add(spec);
  EXPECT_EQ(w.run(), 1u);
  EXPECT_TRUE(w.runs(light));
  EXPECT_FALSE(w.runs(heavy));
}

std::vector<std::string> starts_of(const std::vector<PlannedStart>& starts) {
  std::vector<std::string> out;
  for (const PlannedStart& start : starts) {
    std::string text = format("{} in {}:", start.job.value, start.partition);
    for (const Grant& grant : start.grants) text += format(" n{}", grant.node.value);
    out.push_back(std::move(text));
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The law under everything that bounds starts: a planner made from the records proposes the same, the rules allow all
// of it, and nothing is proposed in vain.
TEST(PlannerAdmission, a_rebuilt_planner_proposes_the_same) {
  for (std::uint64_t seed = 1; seed <= 400 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Rng rng(seed);
    World w(static_cast<std::uint32_t>(rng.between(2, 5)));
    for (const char* name : {"a", "b"}) {
      Account account;
      account.meta.name = name;
      if (rng.chance(0.5))
        account.limits.grp_tres.gpus = rng.between(2, 12);
      w.core.put(account);
      Association association;
      association.account = name;
      association.user = "ada";
      association.meta.name = association_name(name, "ada", "");
      if (rng.chance(0.3))
        association.limits.max_jobs = rng.between(1, 3);
      w.core.put(association);
      Qos qos;
      qos.meta.name = std::string("q") + name;
      qos.priority = static_cast<std::uint32_t>(rng.below(3));
      if (rng.chance(0.5))
        qos.limits.max_tres_per_user.gpus = rng.between(1, 8);
      w.core.put(qos);
    }
    Licence licence;
    licence.meta.name = "l";
    licence.total = rng.between(1, 3);
    w.core.put(licence);
    for (int round = 0; round < 10 && !testing::Test::HasFailure(); ++round) {
      w.now = w.now + seconds(rng.between(0, 4000));
      for (std::int64_t i = rng.between(0, 4); i > 0; --i) {
        JobSpec spec = ask(static_cast<std::uint32_t>(rng.between(1, 2)), static_cast<std::uint32_t>(rng.between(0, 4)),
                           minutes(rng.between(1, 200)));
        spec.account = rng.chance(0.5) ? "a" : "b";
        spec.qos = rng.chance(0.3) ? "qa" : rng.chance(0.5) ? "qb" : "";
        if (rng.chance(0.3))
          spec.licenses = "l:1";
        if (rng.chance(0.2))
          spec.reservation = format("r{}", rng.below(3));
        w.add(spec, rng.below(3));
      }
      if (rng.chance(0.3))
        w.reserve(format("r{}", rng.below(3)), {format("n{}", rng.between(1, 3))}, minutes(rng.between(0, 300)),
                  minutes(rng.between(10, 300)), {rng.chance(0.5) ? "ada" : "root"});
      std::vector<JobId> running;
      for (const auto& [id, job] : w.core.tables.jobs)
        if (holds_allocation(job->state) && rng.chance(0.3))
          running.push_back(id);
      for (const JobId id : running) {
        w.core.end(id);
        Usage usage;
        usage.account = w.core.tables.job(id)->spec->account;
        usage.user = UserId{7};
        usage.as_of = w.now;
        usage.spent.cpu = usage.spent.billing = rng.between(1, 1'000'000'000);
        usage.meta.name = usage_name(usage);
        w.core.put(usage);
      }
      w.driver.planner.observe(w.core.drain());
      Driver rebuilt;
      rebuilt.planner.observe(w.core.tables.snapshot());
      const auto expected = starts_of(rebuilt.pass(w.now));
      const auto starts = w.driver.pass(w.now);
      ASSERT_EQ(starts_of(starts), expected) << "round " << round;
      for (const PlannedStart& start : starts) w.core.start(start, w.now);
      w.driver.planner.observe(w.core.drain());
      w.driver.planner.settled();
      w.run();
    }
  }
}

}  // namespace
}  // namespace lockstep
