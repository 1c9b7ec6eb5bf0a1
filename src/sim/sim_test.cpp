#include <gtest/gtest.h>

#include "model/change.h"
#include "model/job.h"
#include "model/spec.h"
#include "ports/log_testing.h"
#include "sim/client_checker.h"
#include "sim/clock.h"
#include "sim/history.h"
#include "sim/log.h"
#include "sim/network.h"
#include "sim/record_checker.h"
#include "sim/shims.h"

namespace lockstep::sim {
namespace {

constexpr Instant kStart{1'000'000'000};

LogEntry entry(std::uint64_t index, Seq seq) { return {.index = index, .last_seq = seq, .bytes = "x"}; }

TEST(SimLog, keeps_what_was_synced_and_nothing_else) {
  SimLog log;
  ASSERT_TRUE(append_to(log, {entry(1, 5)}, {}).ok());
  CommitFault fault = CommitFault::kCrashBeforeSync;
  log.draw_fault = [&] { return fault; };
  EXPECT_THROW((void)append_to(log, {entry(2, 6)}, {}), Crash);
  EXPECT_EQ(*log.last_index(), 1u);
  fault = CommitFault::kCrashAfterSync;
  EXPECT_THROW((void)append_to(log, {entry(2, 6)}, {}), Crash);
  EXPECT_EQ(*log.last_index(), 2u);
  EXPECT_EQ(log.durable_seq(), 6u);
  fault = CommitFault::kFails;
  EXPECT_FALSE(append_to(log, {entry(3, 7)}, {}).ok());
  EXPECT_EQ(*log.last_index(), 2u);
  fault = CommitFault::kFailsYetWritten;
  EXPECT_FALSE(append_to(log, {entry(3, 7)}, {}).ok());
  EXPECT_EQ(*log.last_index(), 3u);
}

TEST(SimLog, refuses_gaps_and_trimming_beyond_the_snapshot) {
  SimLog log;
  ASSERT_TRUE(append_to(log, {entry(1, 1), entry(2, 2), entry(3, 3)}, {}).ok());
  EXPECT_FALSE(append_to(log, {entry(5, 5)}, {}).ok());
  EXPECT_FALSE(log.trim(*log.lead(), 1).ok());
  ASSERT_TRUE(log.write_whole_snapshot(*log.lead(), 2, {"s"}).ok());
  ASSERT_TRUE(log.trim(*log.lead(), 2).ok());
  EXPECT_EQ(log.read(1, 10)->front().index, 3u);
  EXPECT_EQ(log.archive().size(), 3u);
}

TEST(SimLog, takes_a_snapshot_in_parts_as_the_real_log_does) {
  SimLog log;
  ASSERT_TRUE(append_to(log, {entry(1, 1), entry(2, 2)}, {}).ok());
  ASSERT_TRUE(log.write_whole_snapshot(*log.lead(), 1, {"old"}).ok());
  const std::vector<std::string> chunks(4, std::string(kEntryBytesMax, 'x'));
  const auto part = [&](std::size_t first, std::size_t count, bool last) {
    return Log::SnapshotPart{2, first, std::span(chunks).subspan(first, count), last};
  };
  EXPECT_FALSE(log.write_snapshot(*log.lead(), part(0, 3, false)).ok());
  EXPECT_FALSE(log.write_snapshot(*log.lead(), part(2, 2, true)).ok());
  ASSERT_TRUE(log.write_snapshot(*log.lead(), part(0, 2, false)).ok());
  EXPECT_EQ(log.read_snapshot()->index, 1u);
  ASSERT_TRUE(log.write_snapshot(*log.lead(), part(2, 2, true)).ok());
  EXPECT_EQ(log.read_snapshot()->chunks, chunks);
}

TEST(SimClock, says_when_its_boot_clock_will_show_a_time) {
  Timeline timeline(kStart);
  for (const std::int64_t ppm : {-2000, 0, 1999}) {
    SimClock clock(timeline, ppm);
    const Instant later = clock.boot() + hours(30);
    Timeline ahead(kStart);
    SimClock same(ahead, ppm);
    ahead.step(kStart + (clock.true_time(later) - timeline.now()));
    EXPECT_GE(same.boot(), later);
    EXPECT_LE(same.boot(), later + millis(1));
  }
}

struct Ends {
  Timeline timeline{kStart};
  SimNetwork network{timeline, Rng(7)};
  std::vector<std::uint64_t> up;
  int closed = 0;
  Ends() {
    network.on_connected = [](LinkId, std::size_t) {};
    network.on_up = [this](LinkId, const FromAgent& m) { up.push_back(std::get<Report>(m).number); };
    network.on_controller_closed = [this](LinkId) { ++closed; };
    network.on_agent_closed = [this](std::size_t, LinkId) { ++closed; };
    network.on_down = [](std::size_t, LinkId, const ToAgent&) {};
    network.controller_started();
  }
  void run(Duration length) {
    const Instant until = timeline.now() + length;
    while (timeline.step(until)) {}
  }
};

TEST(SimNetwork, delivers_in_order_and_after_a_stall_too) {
  Ends ends;
  const LinkId link = ends.network.open(0);
  for (std::uint64_t i = 1; i <= 50; ++i) {
    if (i == 20)
      ends.network.partition(0, SimNetwork::Partition::kStall);
    ends.network.send_up(link, Report{.number = i});
  }
  ends.run(seconds(1));
  EXPECT_LT(ends.up.size(), 50u);
  ends.network.partition(0, SimNetwork::Partition::kNone);
  ends.run(seconds(1));
  ASSERT_EQ(ends.up.size(), 50u);
  EXPECT_TRUE(std::is_sorted(ends.up.begin(), ends.up.end()));
}

TEST(SimNetwork, a_cut_ends_the_link_on_both_sides) {
  Ends ends;
  const LinkId link = ends.network.open(0);
  ends.network.partition(0, SimNetwork::Partition::kCut);
  EXPECT_EQ(ends.network.open(0), 0u);
  ends.network.send_up(link, Report{.number = 1});
  ends.run(minutes(1));
  EXPECT_TRUE(ends.up.empty());
  EXPECT_EQ(ends.closed, 2);
}

struct Machine {
  Timeline timeline{kStart};
  Verdict verdict;
  ProcessChecker checker{verdict};
  SimClock clock{timeline, 0};
  SimShims shims{timeline, clock, Rng(3), 0, checker};
  std::vector<ShimEvent> events;
  Machine() {
    shims.on_event([this](ShimEvent e) { events.push_back(std::move(e)); });
  }
  ShimStart script(std::uint64_t job, std::vector<std::string> argv, std::uint32_t device = 0) {
    ShimStart start{.key = {.job = JobId{job}, .attempt = 1, .part = ScriptPart{}}};
    start.launch.ranks = {0};
    start.launch.process.argv = std::move(argv);
    start.launch.devices.set(device);
    return start;
  }
  void run(Duration length) {
    const Instant until = timeline.now() + length;
    while (timeline.step(until)) {}
  }
};

TEST(SimShims, a_process_runs_and_tells_its_exit_code) {
  Machine m;
  m.shims.start(m.script(1, {"sim", "run=100", "exit=3"}));
  m.run(seconds(1));
  ASSERT_EQ(m.events.size(), 2u);
  EXPECT_EQ(m.events[0].what, ShimEvent::What::kStarted);
  EXPECT_EQ(m.events[1].results.at(0).exit.code, 3);
  EXPECT_FALSE(m.verdict.failed());
}

TEST(SimShims, a_stubborn_process_falls_to_kill_and_the_lease) {
  Machine m;
  m.shims.start(m.script(1, {"sim", "run=1000000", "stubborn"}));
  auto leased = m.script(2, {"sim", "run=1000000", "stubborn"}, 1);
  leased.fence_after = seconds(60);
  leased.launch.kill_wait = seconds(30);
  m.shims.write_lease(m.clock.boot());
  m.shims.start(leased);
  m.run(seconds(1));
  m.shims.stop({.job = JobId{1}, .attempt = 1, .part = ScriptPart{}}, seconds(5), StopWhy::kCancelled);
  m.run(seconds(4));
  EXPECT_EQ(m.shims.live(), 2u);
  m.run(seconds(2));
  EXPECT_EQ(m.shims.live(), 1u);
  m.run(seconds(60));
  EXPECT_EQ(m.shims.live(), 0u);
}

TEST(ProcessChecker, sees_a_device_used_twice_and_a_second_run) {
  Machine shared;
  shared.shims.start(shared.script(1, {"sim", "run=5000"}));
  shared.shims.start(shared.script(2, {"sim", "run=5000"}));
  shared.run(seconds(1));
  EXPECT_NE(shared.verdict.failure().find("device 0 of n1 is used by job"), std::string::npos);

  Machine twice;
  twice.shims.start(twice.script(1, {"sim", "run=10"}));
  twice.run(seconds(1));
  twice.shims.forget({.job = JobId{1}, .attempt = 1, .part = ScriptPart{}});
  twice.shims.start(twice.script(1, {"sim", "run=10"}));
  twice.run(seconds(1));
  EXPECT_NE(twice.verdict.failure().find("ran twice"), std::string::npos);
}

TEST(ClientChecker, sees_early_answers_lost_jobs_and_ids_given_twice) {
  Verdict early;
  ClientChecker(early).answered("it", 8, 7, kStart);
  EXPECT_TRUE(early.failed());

  Verdict lost;
  ClientChecker clients(lost);
  clients.submitted(JobId{4}, "a", kStart);
  EXPECT_FALSE(lost.failed());
  clients.finish();
  EXPECT_NE(lost.failure().find("is lost"), std::string::npos);

  Verdict twice;
  ClientChecker again(twice);
  again.submitted(JobId{4}, "a", kStart);
  again.submitted(JobId{4}, "b", kStart);
  EXPECT_TRUE(twice.failed());
}

TEST(RecordChecker, sees_a_partial_gang_and_an_end_with_live_processes) {
  Machine m;
  RecordChecker records(m.verdict, m.checker, {});
  Node node;
  node.id = NodeId{1};
  node.meta.name = "n1";
  records.saw(std::vector<Change>{{1, Ref<Node>(std::make_shared<Node>(node)), false}}, kStart);
  auto spec = std::make_shared<JobSpec>();
  spec->groups.emplace_back().launch = Launch::kScript;
  Job job;
  job.id = JobId{1};
  job.spec = spec;
  job.state = JobState::kRunning;
  job.attempt = 1;
  auto allocation = std::make_shared<Allocation>();
  allocation->attempt = 1;
  allocation->grants = {{.node = NodeId{1}, .tasks = 1}};
  job.allocation = allocation;
  job.members = {MemberState::kRunning};
  const auto saw = [&](const Job& version, Seq seq) {
    records.saw(std::vector<Change>{{seq, Ref<Job>(std::make_shared<Job>(version)), false}}, kStart);
  };
  saw(job, 2);
  EXPECT_FALSE(m.verdict.failed()) << m.verdict.failure();
  m.shims.start(m.script(1, {"sim", "run=5000"}));
  m.run(seconds(1));
  Job over = job;
  over.state = JobState::kCancelled;
  over.allocation = nullptr;
  over.members.clear();
  saw(over, 3);
  EXPECT_NE(m.verdict.failure().find("declared stopped on n1"), std::string::npos);

  Machine other;
  RecordChecker gangs(other.verdict, other.checker, {});
  spec->groups[0].nodes = {2, 2};
  gangs.saw(std::vector<Change>{{2, Ref<Job>(std::make_shared<Job>(job)), false}}, kStart);
  EXPECT_NE(other.verdict.failure().find("got 1 nodes and asked for 2-2"), std::string::npos);
}

TEST(SimHistory, sees_repeats_gaps_and_what_is_not_durable) {
  SimLog log;
  ASSERT_TRUE(append_to(log, {entry(1, 2), entry(2, 3)}, {}).ok());
  const auto change = [](Seq seq) { return Change{seq, Ref<User>(std::make_shared<User>()), false}; };
  Verdict good;
  SimHistory history(good, log);
  ASSERT_TRUE(history.take(1, std::vector<Change>{change(1), change(2)}, {}).ok());
  history.finish({1, 2});
  EXPECT_FALSE(good.failed());
  history.finish({1, 2, 3});
  EXPECT_TRUE(good.failed());

  Verdict repeated;
  SimHistory again(repeated, log);
  ASSERT_TRUE(again.take(1, std::vector<Change>{change(1)}, {}).ok());
  ASSERT_TRUE(again.take(1, std::vector<Change>{change(1)}, {}).ok());
  EXPECT_TRUE(repeated.failed());

  Verdict early;
  SimHistory ahead(early, log);
  ASSERT_TRUE(ahead.take(3, std::vector<Change>{change(4)}, {}).ok());
  EXPECT_TRUE(early.failed());
}

}  // namespace
}  // namespace lockstep::sim
