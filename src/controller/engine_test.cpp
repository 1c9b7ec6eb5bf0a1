#include "controller/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "controller/test_engine.h"
#include "model/job.h"
#include "model/spec.h"

namespace lockstep {
namespace {

TEST_F(EngineTest, ALongCommandGoesOnInPartsAndIsAnsweredOnce) {
  auto engine = open();
  const UserId ann = run(*engine, PutUser{person("ann", 1000)})->user;
  auto spec = std::make_shared<JobSpec>();
  spec->name = "many";
  spec->user = ann;
  spec->hold = true;
  spec->groups.resize(1);
  spec->groups[0].launch = Launch::kScript;
  spec->script = "a-blob";
  SubmitJob ask{spec, ArrayAsk{IntervalSet(0, 1999), 0, 1}, nullptr, {}};
  const JobId id = run(*engine, std::move(ask))->job;
  int answers = 0;
  bool other = false;
  engine->submit(own(HoldJob{{id, IntervalSet(0, 1999)}}), [&](const Result<Answer>& answer) {
    EXPECT_TRUE(answer.ok());
    ++answers;
  });
  engine->submit(own(PutUser{person("bob", 1001)}), [&](const Result<Answer>&) { other = true; });
  engine->run_batch(now);
  EXPECT_TRUE(other);
  EXPECT_EQ(answers, 0);
  for (int i = 0; i < 100 && engine->has_work(); ++i) engine->run_batch(now);
  EXPECT_EQ(answers, 1);
  EXPECT_EQ(engine->state().tables().jobs.size(), 2001u);
  // Where a later part fails to be stored, the caller hears of it.
  engine->submit(own(ReleaseJob{{id, {}}}), [&](const Result<Answer>& answer) { answers += answer.ok() ? 1 : 10; });
  engine->run_batch(now);
  log.next = TestLog::Append::kFails;
  engine->run_batch(now);
  EXPECT_EQ(answers, 11);
  EXPECT_FALSE(engine->has_work());
}

// A restored cluster shows what was, and nothing of it changes by itself or by anybody's word.
TEST_F(EngineTest, AQuietOneRefusesEveryCommandAndSaysWhy) {
  ASSERT_TRUE(run(*open(), PutUser{person("ann", 1000)}).ok());
  EngineSettings settings;
  settings.quiet = "this cluster was restored and is quiet";
  const auto engine = open(settings);
  ASSERT_NE(engine, nullptr);
  const std::uint64_t last = engine->last_index();
  int published = 0;
  engine->add_reader([&](const auto&) { ++published; });
  for (const CommandBody& body : {CommandBody(PutUser{person("bob", 1001)}), CommandBody(Tick{})}) {
    const auto answer = run(*engine, body);
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, Errc::kUnavailable);
    EXPECT_EQ(answer.error().message, settings.quiet);
  }
  EXPECT_EQ(engine->trouble(), settings.quiet);
  EXPECT_TRUE(engine->read_only());
  EXPECT_EQ(engine->last_index(), last);
  EXPECT_EQ(published, 0);
  EXPECT_EQ(engine->state().tables().users.size(), 1u);
}

// What was learned of nodes since the start is no record, and outlives the reload after a failed commit.
TEST_F(EngineTest, WhoHasBeenHeardIsNotAskedAgainAfterACommitThatFailed) {
  auto engine = open();
  const auto hello = [&](const std::string& name, std::uint64_t highest) {
    NodeHello said;
    said.facts.meta.name = name;
    said.facts.boot_id = "b1";
    said.facts.cores = 4;
    said.highest_job = JobId(highest);
    return run(*engine, said).ok();
  };
  const auto next_job = [&] { return engine->state().tables().cluster->next_job; };
  ASSERT_TRUE(hello("n1", 100));
  EXPECT_EQ(next_job(), 101u);
  log.next = TestLog::Append::kFails;
  EXPECT_FALSE(hello("n2", 200));
  log.next = TestLog::Append::kWorks;
  now = now + seconds(60);
  EXPECT_TRUE(hello("n1", 300));
  EXPECT_EQ(next_job(), 101u) << "it was asked before the reload";
  EXPECT_TRUE(hello("n2", 200));
  EXPECT_EQ(next_job(), 201u) << "what it said first was not stored";
}

TEST_F(EngineTest, NoJobGetsAnIdThatWasGivenOutBefore) {
  const auto submit = [this](Engine& engine, UserId user) {
    auto spec = std::make_shared<JobSpec>();
    spec->user = user;
    spec->hold = true;
    spec->groups.resize(1);
    spec->groups[0].launch = Launch::kScript;
    spec->script = "a-blob";
    return run(engine, SubmitJob{spec, std::nullopt, nullptr, {}})->job;
  };
  EngineSettings settings;
  settings.core.first_job = 500;  // as accounting says, though the log has lost it
  auto engine = *Engine::open(log, log, settings, now);
  const UserId ann = run(*engine, PutUser{person("ann", 1000)})->user;
  EXPECT_EQ(submit(*engine, ann), JobId{500});
  EXPECT_EQ(log.entries.back().next_job, 501u) << "kept beside the log";
  settings.core.first_job = 7;
  engine = *Engine::open(log, log, settings, now);
  EXPECT_EQ(submit(*engine, ann), JobId{501});
}

// An array's record holds all of its ranges: it is not written once for each element that a batch cancels.
TEST_F(EngineTest, OfABatchTheLogTakesFewVersionsOfAnArray) {
  auto engine = open();
  auto spec = std::make_shared<JobSpec>();
  spec->name = "gaps";
  spec->user = run(*engine, PutUser{person("ann", 1000)})->user;
  spec->hold = true;
  spec->groups.resize(1);
  spec->groups[0].launch = Launch::kScript;
  spec->script = "a-blob";
  IntervalSet even;
  for (std::uint32_t i = 0; i < 400; i += 2) even.insert(i);
  const JobId id = run(*engine, SubmitJob{spec, ArrayAsk{even, 0, 2}, nullptr, {}})->job;
  std::map<JobId, std::vector<JobState>> seen;
  engine->add_reader([&](const std::shared_ptr<const Engine::Batch>& batch) {
    for (const Change& change : batch->changes)
      if (const auto* job = std::get_if<Ref<Job>>(&change.record))
        seen[(*job)->id].push_back((*job)->state);
  });
  for (const std::uint32_t i : {0u, 50u, 100u, 150u, 200u}) engine->submit(own(CancelJob{{id, IntervalSet(i, i)}}), {});
  engine->run_batch(now);
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_EQ(seen[id], (std::vector{JobState::kPending, JobState::kPending}));
  EXPECT_EQ(engine->state().tables().job(id)->array->waiting.size(), 195u);
  // A state that was passed through is told.
  seen.clear();
  for (const Interval& part : even.intervals())
    if (part.low % 50 != 0 || part.low > 200)
      engine->submit(own(CancelJob{{id, IntervalSet(part.low, part.low)}}), {});
  engine->submit(own(RequeueJob{{id, IntervalSet(0, 0)}, true}), {});
  engine->run_batch(now);
  EXPECT_LE(seen[id].size(), 6u);
  seen[id].erase(std::unique(seen[id].begin(), seen[id].end()), seen[id].end());
  EXPECT_EQ(seen[id], (std::vector{JobState::kPending, JobState::kFailed, JobState::kPending}));
  const std::size_t jobs = engine->state().tables().jobs.size();
  engine = open();
  EXPECT_EQ(engine->state().tables().job(id)->array->waiting, IntervalSet());
  EXPECT_EQ(engine->state().tables().jobs.size(), jobs);
}

TEST_F(EngineTest, ABatchEndsWhenItsCommandsTookLongEnough) {
  auto engine = open();
  Duration cpu;
  std::vector<std::string> slow;
  engine->set_watch({[&] { return cpu = cpu + millis(6); },
                     [&](const std::string& who, Duration) {
                       if (!who.empty())
                         slow.push_back(who);
                     },
                     millis(15)});
  std::vector<int> done;
  for (int i = 0; i < 5; ++i)
    engine->submit(own(PutUser{person(format("u{}", i), static_cast<std::uint32_t>(2000 + i))}),
                   [&done, i](const Result<Answer>&) { done.push_back(i); });
  engine->run_batch(now);
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2}));
  engine->run_batch(now);
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(slow.empty());
  engine->set_watch({[&] { return cpu = cpu + millis(21); },
                     [&](const std::string& who, Duration) { slow.push_back(who); }, kForever});
  (void)run(*engine, PutUser{person("eve", 3000)});
  EXPECT_EQ(slow, std::vector<std::string>{"u0 user eve"});
}

TEST_F(EngineTest, AnswersAreDurableAndSurviveARestart) {
  UserId id;
  {
    auto engine = open();
    const auto answer = run(*engine, PutUser{person("ann", 1000)});
    ASSERT_TRUE(answer.ok());
    id = answer->user;
  }
  auto engine = open();
  const User* user = engine->state().tables().user(id);
  ASSERT_NE(user, nullptr);
  EXPECT_EQ(user->meta.name, "ann");
}

TEST_F(EngineTest, ManyCommandsAreOneEntry) {
  auto engine = open();
  const int before = log.appends;
  int answered = 0;
  for (std::uint32_t i = 0; i < 100; ++i)
    engine->submit(own(PutUser{person(format("u{}", i), 2000 + i)}),
                   [&](const Result<Answer>& a) { answered += a.ok(); });
  engine->run_batch(now + millis(1));
  EXPECT_EQ(log.appends, before + 1);
  EXPECT_EQ(answered, 100);
  EXPECT_FALSE(engine->has_work());
}

TEST_F(EngineTest, NobodyIsAnsweredBeforeTheEntryIsDurable) {
  struct Watching : TestLog {
    bool* answered = nullptr;
    void append(Term term, std::span<const LogEntry> entries, Done done) override {
      EXPECT_TRUE(answered == nullptr || !*answered);
      TestLog::append(term, entries, std::move(done));
    }
  } watching;
  auto engine = std::move(*Engine::open(watching, watching, {}, now));
  bool answered = false, published = false;
  watching.answered = &answered;
  engine->add_reader([&](const auto&) {
    EXPECT_FALSE(answered);
    published = true;
  });
  engine->submit(own(PutUser{person("ann", 1000)}), [&](const Result<Answer>&) { answered = true; });
  engine->run_batch(now + millis(1));
  EXPECT_TRUE(answered);
  EXPECT_TRUE(published);
}

TEST_F(EngineTest, WhileAnAppendIsUnderWayNobodyIsToldAndNothingIsBegun) {
  auto engine = open();
  log.late = true;
  int published = 0;
  std::vector<std::string> answered;
  engine->add_reader([&](const auto&) { ++published; });
  const auto submit = [&](const char* name, std::uint32_t uid) {
    engine->submit(own(PutUser{person(name, uid)}),
                   [&answered, name](const Result<Answer>& a) { answered.push_back(a.ok() ? name : "refused"); });
  };
  submit("ann", 1000);
  engine->run_batch(now);
  EXPECT_TRUE(engine->storing());
  submit("bob", 1001);
  EXPECT_FALSE(engine->has_work());
  EXPECT_FALSE(engine->has_upkeep());
  engine->run_batch(now);
  EXPECT_EQ(engine->state().tables().user("local", 1001), nullptr);
  EXPECT_EQ(published, 0);
  EXPECT_TRUE(answered.empty());

  engine->poll();
  EXPECT_FALSE(engine->storing());
  EXPECT_EQ(answered, std::vector<std::string>{"ann"});
  EXPECT_EQ(published, 1);
  ASSERT_TRUE(engine->has_work());

  // What fails late fails whole, with what waits behind it.
  log.next = TestLog::Append::kFails;
  engine->run_batch(now);
  submit("eve", 1002);
  engine->settle();
  EXPECT_EQ(answered, (std::vector<std::string>{"ann", "refused", "refused"}));
  EXPECT_EQ(published, 1);
  EXPECT_EQ(engine->state().tables().user("local", 1001), nullptr);
  engine->settle();
  engine->poll();
  EXPECT_EQ(answered.size(), 3u);
}

TEST_F(EngineTest, WhoIsDeposedChangesNothingAnyMore) {
  auto old_one = open({.snapshot_every = 2});
  ASSERT_TRUE(run(*old_one, PutUser{person("ann", 1000)}).ok());
  auto new_one = open();
  const std::size_t entries = log.entries.size();
  const auto answer = run(*old_one, PutUser{person("bob", 1001)});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Errc::kUnavailable);
  EXPECT_NE(old_one->deposed().find("its term is 2, ours was 1"), std::string::npos) << old_one->deposed();
  EXPECT_FALSE(old_one->trusted()) << "what it holds was never stored";
  EXPECT_EQ(log.entries.size(), entries);
  const int tried = log.appends;
  now = now + hours(1);
  EXPECT_FALSE(run(*old_one, PutUser{person("bob", 1001)}).ok());
  old_one->upkeep();
  EXPECT_EQ(log.appends, tried) << "it does not try again";
  EXPECT_TRUE(run(*new_one, PutUser{person("eve", 1002)}).ok());
  EXPECT_TRUE(new_one->deposed().empty());
}

// One that leads while the append of another is under way: either that is stored before, or never.
TEST_F(EngineTest, AnAppendOfBeforeAnotherLeadsIsNotTakenAfterwards) {
  auto old_one = open();
  log.late = true;
  bool done = true;
  old_one->submit(own(PutUser{person("ann", 1000)}), [&](const Result<Answer>& a) { done = a.ok(); });
  old_one->run_batch(now);
  ASSERT_TRUE(old_one->storing());
  const auto under_way = std::exchange(log.under_way, nullptr);
  log.late = false;
  auto new_one = open();
  EXPECT_TRUE(run(*new_one, PutUser{person("eve", 1002)}).ok());
  under_way();
  EXPECT_FALSE(done);
  EXPECT_FALSE(old_one->deposed().empty());
  EXPECT_EQ(open()->state().tables().user("local", 1000), nullptr);
}

TEST_F(EngineTest, AFailedAppendChangesNothingAndTellsNobody) {
  auto engine = open();
  int published = 0;
  engine->add_reader([&](const auto&) { ++published; });
  log.next = TestLog::Append::kFails;
  const auto answer = run(*engine, PutUser{person("ann", 1000)});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Errc::kUnavailable);
  EXPECT_TRUE(engine->read_only());
  EXPECT_TRUE(engine->trusted());
  EXPECT_EQ(published, 0);
  EXPECT_EQ(engine->state().tables().user("local", 1000), nullptr);

  // Within the pause the log is not even tried.
  const int tried = log.appends;
  EXPECT_FALSE(run(*engine, PutUser{person("bob", 1001)}).ok());
  EXPECT_EQ(log.appends, tried);

  log.next = TestLog::Append::kWorks;
  now = now + seconds(1);
  EXPECT_TRUE(run(*engine, PutUser{person("bob", 1001)}).ok());
  EXPECT_FALSE(engine->read_only());
  EXPECT_EQ(published, 1);
}

TEST_F(EngineTest, WhenReadOnlyWhatEndsWorkIsTriedAlone) {
  auto engine = open();
  ASSERT_TRUE(run(*engine, PutUser{person("ann", 1000)}).ok());
  log.next = TestLog::Append::kFails;
  ASSERT_FALSE(run(*engine, PutUser{person("bob", 1001)}).ok());
  log.next = TestLog::Append::kWorks;
  now = now + seconds(1);
  std::vector<std::string> order;
  engine->submit(own(PutUser{person("eve", 1002)}), [&](const Result<Answer>&) { order.push_back("user"); });
  Node facts;
  facts.meta.name = "n1";
  facts.boot_id = "b1";
  facts.cores = 4;
  engine->submit(own(NodeHello{facts}),
                 [&](const Result<Answer>& a) { order.push_back(a.ok() ? "hello" : "refused"); });
  engine->run_batch(now);
  EXPECT_EQ(order, std::vector<std::string>{"hello"});
  EXPECT_TRUE(engine->has_work());
  EXPECT_FALSE(engine->read_only());
  engine->run_batch(now);
  EXPECT_EQ(order.size(), 2u);
}

TEST_F(EngineTest, AnAppendThatFailedAndIsThereAllTheSameIsPublished) {
  auto engine = open();
  std::vector<std::string> seen;
  engine->add_reader([&](const std::shared_ptr<const Engine::Batch>& batch) {
    for (const auto& change : batch->changes) seen.push_back(meta_of(change.record).name);
  });
  log.next = TestLog::Append::kStoresAndErrs;
  EXPECT_FALSE(run(*engine, PutUser{person("ann", 1000)}).ok());
  EXPECT_NE(std::find(seen.begin(), seen.end(), "ann"), seen.end());
  EXPECT_NE(engine->state().tables().user("local", 1000), nullptr);
}

TEST_F(EngineTest, AStateThatCannotBeReloadedIsNotTrusted) {
  auto engine = open();
  log.next = TestLog::Append::kFails;
  log.reads_fail = true;
  EXPECT_FALSE(run(*engine, PutUser{person("ann", 1000)}).ok());
  EXPECT_FALSE(engine->trusted());
  now = now + seconds(1);
  EXPECT_FALSE(run(*engine, Tick{}).ok());
  log.next = TestLog::Append::kWorks;
  log.reads_fail = false;
  now = now + seconds(1);
  (void)run(*engine, Tick{});
  EXPECT_TRUE(engine->trusted());
  EXPECT_EQ(engine->state().tables().user("local", 1000), nullptr);
}

TEST_F(EngineTest, TimeNeverGoesBack) {
  auto engine = open();
  now = now + hours(1);
  ASSERT_TRUE(run(*engine, PutUser{person("ann", 1000)}).ok());
  const Instant reached = engine->clock();
  engine.reset();
  now = kStart;
  engine = open();
  EXPECT_GE(engine->clock(), reached);
}

TEST_F(EngineTest, TheInboxIsBounded) {
  EngineSettings settings;
  settings.inbox_max = 2;
  auto engine = open(settings);
  std::vector<Errc> refused;
  for (int i = 0; i < 4; ++i)
    engine->submit(own(Tick{}), [&](const Result<Answer>& a) {
      if (!a.ok())
        refused.push_back(a.error().code);
    });
  EXPECT_EQ(refused, (std::vector<Errc>{Errc::kExhausted, Errc::kExhausted}));
}

TEST_F(EngineTest, OnItsReserveTheLogTakesOnlyWhatEndsWork) {
  bool low = false;
  EngineSettings settings;
  settings.low_space = [&low] { return low; };
  auto engine = open(settings);
  low = true;
  const auto refused = run(*engine, PutUser{person("ann", 1000)});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kUnavailable);
  EXPECT_TRUE(run(*engine, Tick{}).ok());
  low = false;
  EXPECT_TRUE(run(*engine, PutUser{person("ann", 1000)}).ok());
}

TEST_F(EngineTest, ItTellsHowFarTheLogIsRead) {
  auto engine = open();
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(run(*engine, PutObject{note(format("n{}", i)), 0}).ok());
  engine.reset();
  std::vector<std::pair<std::uint64_t, std::uint64_t>> told;
  EngineSettings settings;
  settings.loading = [&](std::uint64_t entry, std::uint64_t last) { told.emplace_back(entry, last); };
  const std::uint64_t last = *log.last_index();
  engine = open(settings);
  ASSERT_GE(told.size(), 3u);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), std::pair(last, last));
  const std::size_t count = told.size();
  log.next = TestLog::Append::kFails;
  EXPECT_FALSE(run(*engine, PutObject{note("m"), 0}).ok());
  EXPECT_EQ(told.size(), count) << "only at the start";
}

TEST_F(EngineTest, ADamagedLogIsRefused) {
  open();
  log.entries.back().bytes = "{\"v\":1,";
  const auto broken = Engine::open(log, log, {}, now);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, Errc::kCorrupt);
}

TEST_F(EngineTest, AGapInTheLogIsRefused) {
  {
    auto engine = open();
    for (std::uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(run(*engine, PutObject{note(format("o{}", i)), 0}).ok());
  }
  log.entries.erase(log.entries.begin() + 2);
  const auto broken = Engine::open(log, log, {}, now);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, Errc::kCorrupt);
}

}  // namespace
}  // namespace lockstep
