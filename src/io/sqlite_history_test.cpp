#include "io/sqlite_history.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/text.h"
#include "io/temp_dir.h"
#include "model/change.h"
#include "model/command.h"
#include "model/history.h"
#include "model/job.h"
#include "model/spec.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBase = 1'700'000'000'000'000;

class HistoryTest : public testing::Test {
 protected:
  HistoryTest() {
    Cluster cluster;
    cluster.meta.seq = next_seq_;
    cluster.wall_offset = seconds(5);
    cluster.clock = {kBase + 1'000'000'000};
    put(cluster);
    User user;
    user.id = UserId{1};
    user.meta.name = "ada";
    user.uid = 1001;
    user.gid = 100;
    put(user);
    for (std::uint32_t n = 1; n <= 3; ++n) {
      Node node;
      node.id = NodeId{n};
      node.meta.name = format("n{}", n);
      node.devices.resize(8);
      for (auto& device : node.devices) device.type = "h100";
      put(node);
    }
    store();
    reopen();
  }

  void reopen() {
    history_.reset();
    auto opened = open_sqlite_history(path());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    history_ = std::move(*opened);
  }
  std::string path() const { return dir_.file("history.db"); }

  template <class T>
  void put(T record) {
    record.meta.seq = next_seq_;
    Change change{next_seq_++, std::make_shared<const T>(std::move(record)), false};
    tables_.apply(change);
    changes_.push_back(std::move(change));
  }
  void store() {
    if (history_) {
      const auto done = history_->take(++index_, changes_, tables_);
      ASSERT_TRUE(done.ok()) << done.error().message;
    }
    changes_.clear();
  }

  Job make_job(std::uint64_t id, Launch launch = Launch::kScript) {
    auto spec = std::make_shared<JobSpec>();
    spec->name = format("job{}", id);
    spec->user = UserId{1};
    spec->account = "math";
    spec->partitions = {"gpu"};
    spec->time_limit = hours(1);
    GroupSpec group;
    group.launch = launch;
    group.tasks = {2, 2};
    group.nodes = {2, 2};
    group.per_task.cores = 4;
    group.per_node.devices = {{"gpu", "h100", 8}};
    group.per_node.memory_mb = 1000;
    spec->groups = {group};
    Job job;
    job.id = JobId{id};
    job.spec = spec;
    job.submitted = job.eligible = at(static_cast<std::int64_t>(id));
    return job;
  }
  static Instant at(std::int64_t s) { return {kBase + s * 1'000'000}; }
  static std::int64_t wall(std::int64_t s) { return kBase + (s + 5) * 1'000'000; }

  void start(Job& job, std::int64_t s) {
    auto allocation = std::make_shared<Allocation>();
    job.attempt += 1;
    allocation->attempt = job.attempt;
    allocation->partition = "gpu";
    for (std::uint32_t n = 1; n <= 2; ++n)
      allocation->grants.push_back({.node = NodeId{n},
                                    .tasks = 1,
                                    .cores = CoreSet::first_n(4),
                                    .memory_mb = 1000,
                                    .devices = DeviceSet::first_n(8)});
    job.allocation = allocation;
    job.state = JobState::kStarting;
    put(job);
    job.state = JobState::kRunning;
    job.started = at(s);
    put(job);
  }
  void complete(Job& job, std::int64_t s, JobState state = JobState::kCompleted, ExitStatus exit = {}) {
    job.state = JobState::kCompleting;
    job.ending = state;
    job.exit = exit;
    put(job);
    job.allocation = nullptr;
    job.state = state;
    job.ended = at(s);
    put(job);
  }
  std::vector<JobRow> query(HistoryQuery query = {}) {
    auto rows = history_->query(query);
    EXPECT_TRUE(rows.ok()) << rows.error().message;
    return std::move(*rows);
  }

  TempDir dir_;
  Tables tables_;
  std::vector<Change> changes_;
  std::unique_ptr<HistoryStore> history_;
  Seq next_seq_ = 1;
  std::uint64_t index_ = 0;
};

TEST_F(HistoryTest, AJobIsFollowedFromTheQueueToItsEnd) {
  Job job = make_job(7);
  put(job);
  store();
  auto rows = query();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].state, "pending");
  EXPECT_EQ(rows[0].nodes, 2u);  // wishes, as long as there is no allocation
  EXPECT_EQ(rows[0].cores, 8u);
  EXPECT_EQ(rows[0].devices_text, "gpu:h100=16");
  EXPECT_EQ(rows[0].asked_memory_mb, 2000);
  EXPECT_EQ(rows[0].limit_s, 3600);
  start(job, 20);
  store();
  complete(job, 30, JobState::kFailed, {.code = 3});
  store();
  reopen();
  rows = query();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].step, -100);
  EXPECT_EQ(rows[0].state, "failed");
  EXPECT_EQ(rows[0].user, "ada");
  EXPECT_EQ(rows[0].uid, 1001u);
  EXPECT_EQ(rows[0].node_list, "n[1-2]");
  EXPECT_EQ(rows[0].nodes, 2u);
  EXPECT_EQ(rows[0].cores, 8u);
  EXPECT_EQ(rows[0].tasks, 2u);
  EXPECT_EQ(rows[0].memory_mb, 2000);
  EXPECT_EQ(rows[0].devices, 16u);
  EXPECT_EQ(rows[0].exit_code, 3);
  EXPECT_EQ(rows[0].submitted_us, wall(7));
  EXPECT_EQ(rows[0].started_us, wall(20));
  EXPECT_EQ(rows[0].ended_us, wall(30));
  EXPECT_EQ(rows[1].step, kBatchStep);
  EXPECT_EQ(rows[1].name, "batch");
  EXPECT_EQ(rows[1].state, "failed");
  EXPECT_EQ(rows[1].node_list, "n1");
  EXPECT_EQ(rows[1].cores, 4u);
  EXPECT_EQ(rows[1].devices_text, "gpu:h100=8");
  EXPECT_EQ(rows[1].exit_code, 3);
}

TEST_F(HistoryTest, AWholeLifeInOneBatchIsTheSame) {
  Job job = make_job(1);
  put(job);
  start(job, 2);
  complete(job, 3);
  store();
  const auto rows = query({.steps = false});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].state, "completed");
  EXPECT_EQ(rows[0].node_list, "n[1-2]");
  EXPECT_EQ(rows[0].ended_us, wall(3));
}

TEST_F(HistoryTest, ARequeueKeepsTheEarlierRunAsADuplicate) {
  for (const bool one_batch : {true, false}) {
    Job job = make_job(one_batch ? 1 : 2);
    const auto flush = [&] {
      if (!one_batch)
        store();
    };
    put(job);
    start(job, 10);
    flush();
    job.state = JobState::kCompleting;
    job.ending = JobState::kNodeFail;
    job.requeue_after = true;
    job.end_reason = "NodeDown n2";
    put(job);
    flush();
    job.state = JobState::kPending;
    job.requeue_after = false;
    job.allocation = nullptr;
    job.restarts = 1;
    job.started = {};
    job.ended = at(20);
    job.eligible = at(22);
    put(job);
    flush();
    job.ended = {};
    start(job, 30);
    complete(job, 40);
    store();
    HistoryQuery ask{.jobs = {{job.id, {}}}, .steps = false};
    EXPECT_EQ(query(ask).size(), 1u);
    ask.duplicates = true;
    const auto rows = query(ask);
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0].attempt, 1u);
    EXPECT_EQ(rows[0].state, "node_fail");
    EXPECT_EQ(rows[0].reason, "NodeDown n2");
    EXPECT_EQ(rows[0].started_us, wall(10));
    EXPECT_EQ(rows[0].ended_us, wall(20));
    EXPECT_EQ(rows[1].attempt, 2u);
    EXPECT_EQ(rows[1].state, "completed");
    EXPECT_EQ(rows[1].restarts, 1u);
    EXPECT_EQ(rows[1].started_us, wall(30));
  }
}

// scontrol requeue. The cluster's record, which carries a clock, was written last long before.
TEST_F(HistoryTest, ARunThatWasEndedToStartAgainIsCalledRequeued) {
  Cluster stale = *tables_.cluster;
  stale.clock = at(5);
  put(stale);
  Job job = make_job(1);
  put(job);
  start(job, 10);
  store();
  job.state = JobState::kCompleting;
  job.ending = JobState::kCancelled;
  job.requeue_after = true;
  put(job);
  store();
  job.state = JobState::kPending;
  job.requeue_after = false;
  job.allocation = nullptr;
  job.started = {};
  job.ended = at(70);
  job.eligible = at(72);
  put(job);
  store();
  const auto rows = query({.duplicates = true});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].state, "requeued");
  EXPECT_EQ(rows[0].started_us, wall(10));
  EXPECT_EQ(rows[0].ended_us, wall(70));
  EXPECT_EQ(rows[1].step, kBatchStep);
  EXPECT_EQ(rows[1].state, "cancelled");
  EXPECT_EQ(rows[1].exit_signal, 15) << "as Slurm's";
  EXPECT_EQ(rows[0].exit_signal, 0);
  EXPECT_EQ(rows[1].ended_us, wall(70));
  EXPECT_EQ(rows[2].state, "pending");
  EXPECT_EQ(rows[2].attempt, 2u);
}

TEST_F(HistoryTest, AJobCancelledInTheQueueNeverRan) {
  Job job = make_job(1);
  put(job);
  store();
  job.state = JobState::kCancelled;
  job.cancelled_by = UserId{1};
  job.ended = at(5);
  put(job);
  store();
  // After a requeue, too: the first run keeps its end.
  Job again = make_job(2);
  put(again);
  start(again, 3);
  complete(again, 4, JobState::kFailed, {.code = 1});
  store();
  again.state = JobState::kPending;
  again.restarts = 1;
  again.started = again.ended = {};
  put(again);
  store();
  again.state = JobState::kCancelled;
  again.ended = at(9);
  put(again);
  store();
  const auto rows = query({.duplicates = true});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].state, "cancelled");
  EXPECT_EQ(rows[0].cancelled_by, "ada");
  EXPECT_EQ(rows[0].started_us, 0);
  EXPECT_EQ(rows[1].state, "failed");
  EXPECT_EQ(rows[1].ended_us, wall(4));
  EXPECT_EQ(rows[2].step, kBatchStep);
  EXPECT_EQ(rows[3].state, "cancelled");
  EXPECT_EQ(rows[3].attempt, 2u);
}

TEST_F(HistoryTest, StepsStandBehindTheirJob) {
  Job job = make_job(1);
  put(job);
  start(job, 2);
  auto spec = std::make_shared<StepSpec>();
  spec->argv = {"/usr/bin/hostname", "-f"};
  Step step;
  step.job = job.id;
  step.attempt = 1;
  step.spec = spec;
  step.created = step.started = at(3);
  step.state = StepState::kRunning;
  step.places = {{.node = NodeId{1}, .ranks = {0, 1}, .cores = CoreSet::first_n(2), .devices = DeviceSet::first_n(1)},
                 {.node = NodeId{2}, .ranks = {2}, .cores = CoreSet::first_n(1), .devices = DeviceSet::first_n(1)}};
  put(step);
  store();
  step.state = StepState::kEnded;
  step.ended = at(4);
  step.exit = {.code = 0, .signal = 9};
  put(step);
  step.number = 1;
  step.cancelled = true;
  put(step);
  store();
  const auto rows = query();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[1].step, kBatchStep);
  EXPECT_EQ(rows[1].state, "running");
  EXPECT_EQ(rows[2].step, 0);
  EXPECT_EQ(rows[2].name, "hostname");
  EXPECT_EQ(rows[2].state, "failed");
  EXPECT_EQ(rows[2].exit_signal, 9);
  EXPECT_EQ(rows[2].tasks, 3u);
  EXPECT_EQ(rows[2].cores, 3u);
  EXPECT_EQ(rows[2].node_list, "n[1-2]");
  EXPECT_EQ(rows[2].devices_text, "gpu:h100=2");
  EXPECT_EQ(rows[2].user, "ada");
  EXPECT_EQ(rows[2].ended_us, wall(4));
  EXPECT_EQ(rows[3].state, "cancelled");
  EXPECT_EQ(query({.steps = false}).size(), 1u);
  EXPECT_EQ(query({.commands_of = {{1001, "ada"}}})[2].command, "/usr/bin/hostname -f");
  for (const HistoryQuery::Person& other : {HistoryQuery::Person{1002, "bob"}, {1001, "bob"}, {1002, "ada"}})
    EXPECT_EQ(query({.commands_of = other})[2].command, "");
}

TEST_F(HistoryTest, StepsThatASignalEndedWithTheirJobWereCancelled) {
  for (const JobState how : {JobState::kCancelled, JobState::kTimeout, JobState::kFailed}) {
    Job job = make_job(static_cast<std::uint64_t>(how) + 1, Launch::kNothing);
    put(job);
    start(job, 100);
    job.state = JobState::kCompleting;
    job.ending = how;
    job.ended = at(110);
    put(job);
    auto spec = std::make_shared<StepSpec>();
    spec->argv = {"sleep"};
    Step step;
    step.job = job.id;
    step.attempt = 1;
    step.spec = spec;
    step.created = step.started = at(101);
    step.state = StepState::kEnded;
    for (const auto& [ended, exit] : {std::pair{at(105), ExitStatus{.signal = 15}},
                                      {at(111), ExitStatus{.signal = 15}},
                                      {at(111), ExitStatus{.code = 3}}}) {
      step.ended = ended;
      step.exit = exit;
      put(step);
      ++step.number;
    }
    store();
    const auto rows = query({.jobs = {{job.id, {}}}});
    ASSERT_EQ(rows.size(), 4u);
    EXPECT_EQ(rows[1].state, "failed") << "it was over by then";
    EXPECT_EQ(rows[2].state, how == JobState::kFailed ? "failed" : "cancelled");
    EXPECT_EQ(rows[3].state, "failed") << "it ended by itself";
  }
}

// Rows are kept for ever and read by everybody: a user's long words are not.
TEST_F(HistoryTest, LongWordsAreCut) {
  Job job = make_job(1);
  auto words = std::make_shared<JobSpec>(*job.spec);
  words->comment = std::string(60'000, 'c');
  job.spec = words;
  put(job);
  start(job, 2);
  auto spec = std::make_shared<StepSpec>();
  spec->argv.assign(10'000, "/usr/bin/hostname");
  Step step;
  step.job = job.id;
  step.attempt = 1;
  step.spec = spec;
  step.created = at(3);
  put(step);
  store();
  const auto rows = query();
  ASSERT_EQ(rows.size(), 3u);
  for (const std::string& text : {rows[0].comment, rows[2].command}) {
    EXPECT_EQ(text.size(), 4096u + 4);
    EXPECT_TRUE(text.ends_with(" ..."));
  }
  EXPECT_EQ(rows[2].name, "hostname");
}

// A job's and a step's words together; the next question is answered as if that had not been asked.
TEST_F(HistoryTest, AnAnswerHasSoManyWords) {
  for (std::uint64_t id = 1; id <= 20; ++id) {
    Job job = make_job(id);
    auto words = std::make_shared<JobSpec>(*job.spec);
    words->comment = std::string(1'000, 'c');
    job.spec = words;
    put(job);
    start(job, 100);
    auto spec = std::make_shared<StepSpec>();
    spec->argv = {"echo", std::string(1'000, 'a')};
    Step step;
    step.job = job.id;
    step.attempt = 1;
    step.spec = spec;
    step.created = at(101);
    for (step.number = 0; step.number < 2; ++step.number) put(step);
  }
  store();
  for (const std::size_t most : {500, 2'500, 5'500, 60'000}) {
    const auto refused = history_->query({.words_max = most});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().field, "reply");
  }
  EXPECT_EQ(query({.words_max = 200'000}).size(), 80u);
  EXPECT_EQ(query({.words_max = 90'000, .commands_of = {{1002, "bob"}}}).size(), 80u)
      << "what is not told does not count";
}

TEST_F(HistoryTest, ArraysShowWaitingAndStartedElements) {
  Job array = make_job(10);
  auto state = std::make_shared<ArrayState>();
  state->asked = IntervalSet(0, 2);
  state->waiting = IntervalSet(1, 2);
  state->unfinished = 1;
  array.array = state;
  put(array);
  Job element = make_job(11);
  element.array_job = JobId{10};
  element.array_index = 0;
  put(element);
  start(element, 12);
  store();
  auto rows = query({.steps = false});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_FALSE(rows[0].is_element);
  EXPECT_TRUE(rows[1].is_element);
  EXPECT_FALSE(rows[0].ends_array || rows[1].ends_array) << "the array's own row has its id";
  auto drained = std::make_shared<ArrayState>(*state);
  drained->waiting = {};
  array.array = drained;
  put(array);
  complete(element, 14);
  store();
  rows = query({.steps = false});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].array_job.value, 10u);
  EXPECT_TRUE(rows[0].ends_array);
  Job later = make_job(12);
  later.array_job = JobId{10};
  later.array_index = 2;
  put(later);
  start(later, 15);
  store();
  rows = query({.steps = false});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(!rows[0].ends_array && rows[1].ends_array);
  rows = query({.jobs = {{JobId{10}, IntervalSet(0, 0)}}, .steps = false});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].ends_array) << "another element of the array is the last, though nobody asked for it";
  EXPECT_EQ(query({.jobs = {{JobId{10}, {}}}, .steps = false}).size(), 2u);
  EXPECT_EQ(query({.jobs = {{JobId{10}, IntervalSet(0, 0)}}, .steps = false}).size(), 1u);
  EXPECT_EQ(query({.jobs = {{JobId{10}, IntervalSet(1, 5)}}, .steps = false}).size(), 1u);
  EXPECT_EQ(query({.jobs = {{JobId{10}, IntervalSet(3, 5)}}, .steps = false}).size(), 0u);
}

TEST_F(HistoryTest, ACancelledArrayHasARowOnlyWhereSomeOfItNeverHadARecord) {
  for (const bool cut_short : {false, true}) {
    Job array = make_job(cut_short ? 20 : 10);
    auto state = std::make_shared<ArrayState>();
    state->asked = IntervalSet(0, 2);
    state->cut_short = cut_short;
    array.array = state;
    array.state = JobState::kCancelled;
    array.ended = at(14);
    put(array);
  }
  store();
  const auto rows = query({.steps = false});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].job.value, 20u);
  EXPECT_EQ(rows[0].state, "cancelled");
}

TEST_F(HistoryTest, TheLatestRunsAreThoseThatEndedByThemselves) {
  for (std::uint64_t id = 1; id <= 5; ++id) {
    Job job = make_job(id, Launch::kNothing);
    put(job);
    if (id == 5)
      continue;
    start(job, static_cast<std::int64_t>(id * 100));
    if (id != 4)  // it runs on
      complete(job, static_cast<std::int64_t>(id * 100 + 10 * id),
               id == 2 ? JobState::kCancelled : JobState::kCompleted);
  }
  store();
  const auto runs = history_->latest_runs(10);
  ASSERT_TRUE(runs.ok()) << runs.error().message;
  ASSERT_EQ(runs->size(), 2u);
  EXPECT_EQ((*runs)[0].name, "job1");
  EXPECT_EQ((*runs)[0].user, "ada");
  EXPECT_EQ((*runs)[0].uid, 1001u);
  EXPECT_EQ((*runs)[0].ran, seconds(10));
  EXPECT_EQ((*runs)[1].name, "job3");
  EXPECT_EQ((*runs)[1].ran, seconds(30));
  EXPECT_EQ(history_->latest_runs(1)->at(0).name, "job3");
}

TEST_F(HistoryTest, FiltersNarrowWhatIsFound) {
  for (std::uint64_t id = 1; id <= 4; ++id) {
    Job job = make_job(id, Launch::kNothing);
    put(job);
    if (id == 4)
      continue;
    start(job, static_cast<std::int64_t>(id * 100));
    if (id < 3)
      complete(job, static_cast<std::int64_t>(id * 100 + 50), id == 2 ? JobState::kTimeout : JobState::kCompleted);
  }
  store();
  EXPECT_EQ(query().size(), 4u);
  EXPECT_EQ(query({.jobs = {{JobId{2}, {}}, {JobId{3}, {}}}}).size(), 2u);
  EXPECT_EQ(query({.users = {"ada", "bob"}}).size(), 4u);
  EXPECT_EQ(query({.users = {"bob"}}).size(), 0u);
  EXPECT_EQ(query({.users = {"x' OR 1 --"}}).size(), 0u);
  EXPECT_EQ(query({.accounts = {"math"}, .names = {"job2"}}).size(), 1u);
  EXPECT_EQ(query({.partitions = {"cpu"}}).size(), 0u);
  EXPECT_EQ(query({.states = {"running", "timeout"}}).size(), 2u);
  EXPECT_EQ(query({.from_us = wall(200)}).size(), 3u);  // job 1 had ended
  EXPECT_EQ(query({.to_us = wall(3)}).size(), 2u);      // 3 and 4 were not submitted yet
  EXPECT_EQ(query({.limit = 2}).size(), 2u);
}

TEST_F(HistoryTest, AQuestionThatTakesTooLongIsGivenUpAndTheNextIsAnswered) {
  for (std::uint64_t id = 1; id <= 200; ++id) put(make_job(id, Launch::kNothing));
  store();
  history_.reset();
  const auto strict = open_sqlite_history(path(), {}, 5'000);
  ASSERT_TRUE(strict.ok());
  const auto refused = (*strict)->query({});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kExhausted);
  EXPECT_NE(refused.error().message.find("narrow it"), std::string::npos);
  EXPECT_TRUE((*strict)->cursor().ok());
  reopen();
  EXPECT_EQ(query().size(), 200u);
}

TEST_F(HistoryTest, JobsThatTheLogLostAreEndedAndTheirIdsKnown) {
  Job waiting = make_job(7), running = make_job(8), kept = make_job(9), over = make_job(12);
  start(running, 20);
  start(over, 20);
  over.state = JobState::kCompleted;
  over.ended = at(30);
  for (const Job& job : {waiting, running, kept, over}) put(job);
  store();
  EXPECT_EQ(*history_->highest_job(), JobId{12});
  Tables after;  // as the log knows it, after it lost its end
  after.apply({1, std::make_shared<const Job>(kept), false});
  EXPECT_EQ(*history_->close_lost(after, WallTime{wall(100)}), 2u);
  EXPECT_EQ(*history_->close_lost(after, WallTime{wall(200)}), 0u);
  std::map<std::uint64_t, JobRow> rows;
  HistoryQuery jobs_only;
  jobs_only.steps = false;
  for (const auto& all = query(jobs_only); const auto& row : all) rows[row.job.value] = row;
  EXPECT_EQ(rows[7].state, "cancelled");
  EXPECT_EQ(rows[7].reason, "LostFromLog");
  EXPECT_EQ(rows[7].ended_us, wall(100));
  EXPECT_EQ(rows[8].state, "node_fail");
  EXPECT_EQ(rows[8].ended_us, rows[8].started_us) << "nobody knows how long it ran";
  EXPECT_EQ(rows[9].ended_us, 0);
  EXPECT_EQ(rows[12].state, "completed");
}

// The log was put back from a backup and tells another story of what ended meanwhile.
TEST_F(HistoryTest, WhatRanAndEndedStaysAsItEnded) {
  Job job = make_job(7);
  start(job, 20);
  const Job backup = job;
  Step step;
  step.job = job.id;
  step.attempt = 1;
  step.spec = std::make_shared<const StepSpec>();
  step.state = StepState::kEnded;
  step.created = step.started = at(21);
  step.ended = at(22);
  put(step);
  complete(job, 30);
  store();
  job.exit.code = 3;
  put(job);  // the same end, with a word more
  job = backup;
  step.state = StepState::kRunning;
  step.ended = {};
  put(step);
  store();
  complete(job, 90, JobState::kNodeFail);
  store();
  const auto rows = query();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].state, "completed");
  EXPECT_EQ(rows[0].ended_us, wall(30));
  EXPECT_EQ(rows[0].exit_code, 3);
  EXPECT_EQ(rows[2].state, "completed");
  EXPECT_EQ(rows[2].ended_us, wall(22));
}

TEST_F(HistoryTest, AnOlderLogGoesOnAboveWhatHasRun) {
  // As the log put back knows them: 1 waits, 2, 3 and 5 run, 4 waits and has not run since either.
  Job waits = make_job(1), runs = make_job(2), again = make_job(3), idle = make_job(4), over = make_job(5);
  for (Job* job : {&waits, &idle}) put(*job);
  for (Job* job : {&runs, &again, &over}) start(*job, 20);
  store();
  const Tables backup = tables_;
  // What happened since then.
  start(waits, 30);
  const auto made = [&](const Job& job, StepNo number) {
    Step step;
    step.job = job.id;
    step.attempt = job.attempt;
    step.number = number;
    step.spec = std::make_shared<const StepSpec>();
    step.state = StepState::kRunning;
    step.created = step.started = at(31);
    put(step);
  };
  made(runs, 0);
  made(runs, 1);
  again.state = JobState::kPending;
  again.allocation = nullptr;
  again.ended = at(40);
  put(again);
  start(again, 41);
  complete(over, 50);
  store();

  ASSERT_TRUE(history_->settle_older_log(backup)->empty()) << "nobody has said that it is older";
  ASSERT_TRUE(history_->note_older_log().ok());
  reopen();
  for (int times = 0; times < 2; ++times) {  // also when that start did not come to its end
    std::map<std::uint64_t, std::pair<AttemptNo, StepNo>> seen;
    const auto beyond = history_->settle_older_log(backup);
    ASSERT_TRUE(beyond.ok()) << beyond.error().message;
    for (const AttemptSeen& one : *beyond) seen[one.job.value] = {one.attempt, one.next_step};
    EXPECT_EQ(seen.size(), 3u);
    EXPECT_EQ(seen[1], std::pair(AttemptNo{1}, StepNo{0}));
    EXPECT_EQ(seen[2], std::pair(AttemptNo{1}, StepNo{2}));
    EXPECT_EQ(seen[3], std::pair(AttemptNo{2}, StepNo{0}));
  }
  std::map<std::pair<std::uint64_t, StepNo>, JobRow> rows;
  for (const auto& row : query({.duplicates = true})) rows[{row.job.value + 10 * row.attempt, row.step}] = row;
  EXPECT_EQ((rows[{11, -100}].state), "node_fail") << "nobody knows how it ended";
  EXPECT_EQ((rows[{11, -100}].reason), "LostFromLog");
  EXPECT_EQ((rows[{11, -100}].ended_us), wall(30));
  EXPECT_EQ((rows[{12, -100}].state), "running");
  EXPECT_EQ((rows[{12, 0}].state), "cancelled");
  EXPECT_EQ((rows[{12, 1}].ended_us), wall(31));
  EXPECT_EQ((rows[{13, -100}].state), "requeued");
  EXPECT_EQ((rows[{23, -100}].reason), "LostFromLog");
  EXPECT_EQ((rows[{14, -100}].state), "pending");
  EXPECT_EQ((rows[{15, -100}].state), "completed");

  // Once the log has gone on above it, there is nothing left to say.
  Tables later = backup;
  Job first = *backup.job(JobId{1}), second = *backup.job(JobId{2}), third = *backup.job(JobId{3});
  first.attempt = 1;
  second.next_step = 2;
  third.attempt = 3;
  Seq seq = next_seq_;
  for (const Job& job : {first, second, third}) later.apply({seq++, std::make_shared<const Job>(job), false});
  EXPECT_TRUE(history_->settle_older_log(later)->empty());
  EXPECT_TRUE(history_->settle_older_log(backup)->empty()) << "and it is forgotten";
}

TEST_F(HistoryTest, TheCursorMovesWithTheRows) {
  EXPECT_EQ(*history_->cursor(), 0u);
  put(make_job(1));
  ASSERT_TRUE(history_->take(41, changes_, tables_).ok());
  reopen();
  EXPECT_EQ(*history_->cursor(), 41u);
  ASSERT_TRUE(history_->take(41, changes_, tables_).ok());  // told twice: the same
  EXPECT_EQ(query().size(), 1u);
  ASSERT_TRUE(history_->take(42, {}, tables_).ok());
  EXPECT_EQ(*history_->cursor(), 42u);
}

TEST_F(HistoryTest, ForeignFilesAreRefusedAndNeverTouched) {
  const std::string foreign = dir_.file("foreign.db"), content = "these are my notes, all of them, and no database";
  std::ofstream(foreign) << content;
  const auto opened = open_sqlite_history(foreign);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Errc::kCorrupt);
  std::ifstream in(foreign);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), content);
}

}  // namespace
}  // namespace lockstep
