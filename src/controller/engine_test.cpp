#include "controller/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/mutant.h"
#include "base/text.h"
#include "controller/test_log.h"
#include "model/bounds.h"
#include "wire/codec.h"

namespace lockstep {
namespace {

User person(const std::string& name, std::uint32_t uid) {
  User user;
  user.meta.name = name;
  user.uid = uid;
  return user;
}

Object note(const std::string& name, std::string body = "x") {
  Object object;
  object.type = "test/Note";
  object.meta.name = name;
  object.body = std::move(body);
  return object;
}

BlobId id_of(int blob) { return format("{:064x}", blob); }

class EngineTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> open(EngineSettings settings = {}) {
    auto engine = Engine::open(log, settings, now);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    return engine.ok() ? std::move(*engine) : nullptr;
  }
  // Commits one command and gives its answer.
  Result<Answer> run(Engine& engine, CommandBody body) {
    Result<Answer> answer = Error{Errc::kInternal, "never answered", {}};
    engine.submit(own(std::move(body)), [&](Result<Answer> a) { answer = std::move(a); });
    now = now + millis(1);
    engine.run_batch(now);
    return answer;
  }

  TestLog log;
  Instant now = kStart;
};

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
  auto engine = *Engine::open(log, settings, now);
  const UserId ann = run(*engine, PutUser{person("ann", 1000)})->user;
  EXPECT_EQ(submit(*engine, ann), JobId{500});
  EXPECT_EQ(log.entries.back().next_job, 501u) << "kept beside the log";
  settings.core.first_job = 7;
  engine = *Engine::open(log, settings, now);
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
    Result<void> append(const std::vector<LogEntry>& entries, const std::vector<Blob>& blobs) override {
      EXPECT_TRUE(answered == nullptr || !*answered);
      return TestLog::append(entries, blobs);
    }
  } watching;
  auto engine = std::move(*Engine::open(watching, {}, now));
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

TEST_F(EngineTest, ALargeBatchIsCutAndCountsWhole) {
  auto engine = open();
  // Six objects of 400 KiB: more than three entries.
  for (int i = 0; i < 6; ++i)
    engine->submit(own(PutObject{note(format("o{}", i), std::string(400 << 10, 'x')), 0}), nullptr);
  const std::size_t before = log.entries.size();
  engine->run_batch(now + millis(1));
  ASSERT_GT(log.entries.size(), before + 3);
  for (std::size_t i = before; i + 1 < log.entries.size(); ++i) EXPECT_FALSE(log.entries[i].closing);
  EXPECT_TRUE(log.entries.back().closing);
  const Seq seq = engine->state().tables().seq;

  // Without its closing entry the batch never happened, and its numbers are given out again.
  TestLog torn = log;
  torn.entries.pop_back();
  {
    auto again = std::move(*Engine::open(torn, {}, now));
    EXPECT_TRUE(again->state().tables().objects.empty());
    again->submit(own(PutObject{note("later"), 0}), nullptr);
    again->run_batch(now + seconds(1));
  }
  auto third = std::move(*Engine::open(torn, {}, now));
  EXPECT_EQ(third->state().tables().objects.size(), 1u);

  auto whole = open();
  EXPECT_EQ(whole->state().tables().objects.size(), 6u);
  EXPECT_GE(whole->state().tables().seq, seq);
}

TEST_F(EngineTest, WorkGoesOnWhileASnapshotIsEncodedElsewhere) {
  EngineSettings settings;
  settings.snapshot_every = 5;
  auto engine = open(settings);
  std::vector<std::function<void()>> works, dones;
  engine->set_aside([&](std::function<void()> work, std::function<void()> done) {
    works.push_back(std::move(work));
    dones.push_back(std::move(done));
  });
  engine->set_trim_floor(1000);
  std::uint32_t made = 0;
  const auto more = [&](std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i, ++made)
      ASSERT_TRUE(run(*engine, PutUser{person(format("u{}", made), 1000 + made)}).ok());
  };
  more(20);
  ASSERT_EQ(works.size(), 1u);  // one at a time
  const std::uint64_t at_most = engine->last_index();
  EXPECT_EQ(log.snapshot.index, 0u);
  EXPECT_EQ(log.trimmed, 0u);
  works[0]();
  more(2);
  EXPECT_EQ(log.snapshot.index, 0u);
  dones[0]();
  EXPECT_EQ(log.snapshot.index, 0u);
  ASSERT_TRUE(engine->has_upkeep());
  engine->upkeep();
  EXPECT_GE(log.snapshot.index, 5u);
  EXPECT_LT(log.snapshot.index, at_most);
  EXPECT_EQ(log.trimmed, log.snapshot.index);
  more(1);
  EXPECT_EQ(works.size(), 2u);  // the next one is due

  // The snapshot and what followed it give the whole state; the second one was never finished.
  const auto seq = engine->state().tables().seq;
  engine = open(settings);
  EXPECT_GT(engine->state().tables().seq, seq);  // its own epoch
  for (std::uint32_t i = 0; i < made; ++i) EXPECT_TRUE(engine->state().tables().user_named(format("u{}", i)));
}

TEST_F(EngineTest, ASnapshotReplacesTheEntriesBeforeItAndTrimmingWaitsForReaders) {
  EngineSettings settings;
  settings.snapshot_every = 10;
  auto engine = open(settings);
  for (std::uint32_t i = 0; i < 25; ++i) ASSERT_TRUE(run(*engine, PutObject{note(format("o{}", i)), 0}).ok());
  ASSERT_TRUE(run(*engine, RemoveObject{"test/Note", "", "o24", 0}).ok());
  EXPECT_GE(log.snapshot.index, 20u);
  EXPECT_EQ(log.trimmed, 0u);  // no reader has said how far it is
  engine->set_trim_floor(5);
  EXPECT_LE(log.trimmed, 5u);
  engine->set_trim_floor(log.snapshot.index + 100);
  EXPECT_EQ(log.trimmed, log.snapshot.index);
  const Seq seq = engine->state().tables().seq;
  const auto last = engine->last_index();
  engine.reset();
  engine = open(settings);
  EXPECT_EQ(engine->state().tables().objects.size(), 24u);
  EXPECT_GT(engine->last_index(), last);  // the new epoch
  EXPECT_GT(engine->state().tables().seq, seq);
  check_invariants(engine->state());
}

TEST_F(EngineTest, NumbersOfRemovedRecordsAreNotGivenOutAgain) {
  EngineSettings settings;
  settings.snapshot_every = 1;
  auto engine = open(settings);
  ASSERT_TRUE(run(*engine, PutObject{note("a"), 0}).ok());
  ASSERT_TRUE(run(*engine, RemoveObject{"test/Note", "", "a", 0}).ok());
  const Seq seq = engine->state().tables().seq;
  auto records = engine->snapshot();
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(records.back().seq, seq);
  engine.reset();
  log.entries.clear();  // only the snapshot is left
  engine = open(settings);
  EXPECT_GT(engine->state().tables().seq, seq);
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

TEST_F(EngineTest, BlobsAreStoredOnceWithTheirCommandAndSweptWhenUnused) {
  EngineSettings settings;
  settings.snapshot_every = 3;
  auto engine = open(settings);
  engine->submit(own(PutUser{person("ann", 1000)}), nullptr, {{id_of(1), "script"}});
  engine->submit(own(RemovePartition{"nowhere"}), nullptr, {{id_of(2), "of a refused command"}});
  engine->run_batch(now + millis(1));
  EXPECT_TRUE(log.blobs.contains(id_of(1)));
  EXPECT_FALSE(log.blobs.contains(id_of(2)));
  for (std::uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(run(*engine, PutObject{note(format("o{}", i)), 0}).ok());
  EXPECT_FALSE(log.blobs.contains(id_of(1)));  // nothing names it
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

// Row 1 of what a hostile user tried: the controller stopped itself on a record of more than an entry.
TEST_F(EngineTest, ARecordMaySpanEntries) {
  std::vector<std::string> bodies;
  std::size_t appends_before = 0;
  {
    auto engine = open();
    for (const std::size_t bytes : {kEntryBytesMax - 200, kEntryBytesMax, kEntryBytesMax + 1, 3 * kEntryBytesMax}) {
      bodies.push_back(std::string(bytes, static_cast<char>('a' + bodies.size())));
      appends_before = log.entries.size();
      ASSERT_TRUE(run(*engine, PutObject{note(format("o{}", bodies.size()), bodies.back()), 0}).ok()) << log.refused;
    }
    EXPECT_GE(log.entries.size() - appends_before, 4u);
    // Beside others in one batch.
    for (int i = 0; i < 3; ++i) engine->submit(own(PutObject{note(format("many{}", i), bodies[2]), 0}), nullptr);
    while (engine->has_work()) engine->run_batch(now + millis(5));
  }
  for (const auto& entry : log.entries) EXPECT_LE(entry.bytes.size(), kEntryBytesMax);
  EXPECT_EQ(log.refused, "");
  for (const bool from_snapshot : {false, true}) {
    EngineSettings settings;
    if (from_snapshot)
      settings.snapshot_every = 1;
    auto engine = open(settings);
    ASSERT_TRUE(engine);
    for (std::size_t i = 0; i < bodies.size(); ++i)
      EXPECT_EQ(engine->state().tables().objects.at({"test/Note", "", format("o{}", i + 1)})->body, bodies[i]);
    EXPECT_EQ(engine->state().tables().objects.size(), bodies.size() + 3);
    engine->set_trim_floor(engine->last_index());  // the second time only the snapshot is there
  }
  EXPECT_EQ(log.refused, "") << "chunks of a snapshot are bounded, too";
  EXPECT_TRUE(open());
}

// What a record would take is known before it is committed: the command is refused with the number, and nothing
// happened.
TEST_F(EngineTest, ARecordBeyondItsBoundIsRefusedAndChangesNothing) {
  auto engine = open();
  const UserId ann = run(*engine, PutUser{person("ann", 1000)})->user;
  const std::string much(kRecordBytesMax + 1, 'm');
  auto spec = std::make_shared<JobSpec>();
  spec->name = "large";
  spec->user = ann;
  spec->hold = true;
  spec->script = id_of(1);
  spec->groups.resize(1);
  spec->groups[0].launch = Launch::kScript;
  const auto small = run(*engine, SubmitJob{.spec = std::make_shared<JobSpec>(*spec)});
  ASSERT_TRUE(small.ok()) << small.error().message;
  // Each field within its own bound, more than a record together.
  spec->groups[0].argv = {std::string(kArgvBytesMax, 'm')};
  spec->groups[0].env = {{"A", std::string(kVariablesBytesMax - 1000, 'm')}};
  spec->options = {{"a", std::string(kVariablesBytesMax - 1000, 'm')}};
  UpdateJob update{.target = {.job = small->job}};
  update.comment = much;
  NodeHello hello;
  hello.facts.meta.name = "n1";
  hello.facts.boot_id = "boot";
  hello.facts.cores = 4;
  hello.facts.memory_mb = 1000;
  hello.facts.features = {much};
  Partition partition;
  partition.meta.name = "wide";
  partition.nodes.assign(kRecordBytesMax / 8, "node123");
  const std::pair<CommandBody, std::string> commands[] = {
      {PutObject{note("large", much), 0}, "body"},
      {SubmitJob{.spec = spec}, "groups"},
      {update, "comment"},
      {hello, "features"},
      {PutPartition{partition}, "nodes"},
  };
  for (const auto& [command, heaviest] : commands) {
    const Seq seq = engine->state().tables().seq;
    const std::size_t entries = log.entries.size();
    const auto answer = run(*engine, command);
    ASSERT_FALSE(answer.ok()) << heaviest;
    EXPECT_NE(answer.error().message.find_first_of("0123456789"), std::string::npos) << answer.error().message;
    const bool of_the_record = heaviest == "groups";  // the others meet the narrower bound of a field first
    EXPECT_EQ(answer.error().code, of_the_record ? Errc::kExhausted : Errc::kInvalid) << answer.error().message;
    EXPECT_EQ(answer.error().field.substr(0, heaviest.size()), heaviest);
    if (of_the_record) {
      EXPECT_NE(answer.error().message.find("1310720 are allowed"), std::string::npos) << answer.error().message;
    }
    EXPECT_EQ(engine->state().tables().seq, seq);
    EXPECT_EQ(log.entries.size(), entries);
    check_invariants(engine->state());
  }
  EXPECT_FALSE(engine->read_only());
  EXPECT_TRUE(run(*engine, PutObject{note("after"), 0}).ok());
  planted = Mutant::kOversizeAccepted;
  const bool refused = !run(*engine, SubmitJob{.spec = spec}).ok();
  planted = Mutant::kNone;
  EXPECT_NE(log.refused, "") << "planted: the log is asked for what it cannot take" << refused;
}

TEST_F(EngineTest, APlantedOversizeEntryIsRefusedByTheLogAndNotTheEndOfTheController) {
  auto engine = open();
  planted = Mutant::kOversizeAccepted;
  const auto answer = run(*engine, PutObject{note("big", std::string(2 * kEntryBytesMax, 'x')), 0});
  planted = Mutant::kNone;
  EXPECT_FALSE(answer.ok());
  EXPECT_NE(log.refused.find("bytes; 1048576 are allowed"), std::string::npos) << log.refused;
  now = now + seconds(2);
  EXPECT_TRUE(run(*engine, PutObject{note("big", std::string(2 * kEntryBytesMax, 'x')), 0}).ok());
}

// Fat jobs come, change, and go, with snapshots, trims, failed appends and restarts in between: what they hold is
// always there, and no change but the first costs what their words take.
TEST_F(EngineTest, LongWordsAreStoredOnceAndStayAsLongAsTheyAreNeeded) {
  EngineSettings settings;
  settings.snapshot_every = 7;
  settings.sha256_hex = [](std::string_view text) { return format("{:064x}", std::hash<std::string_view>{}(text)); };
  settings.core.keep_ended = seconds(1);
  constexpr std::size_t kArguments = 20'000;
  Rng rng(17);
  auto engine = open(settings);
  const UserId ann = run(*engine, PutUser{person("ann", 1000)})->user;
  std::map<JobId, std::string> jobs;  // what each was asked with
  int number = 0;
  for (int round = 0; round < 400; ++round) {
    const auto any = [&] {
      return std::next(jobs.begin(), static_cast<std::ptrdiff_t>(rng.below(jobs.size())))->first;
    };
    if (rng.chance(0.1))
      log.next = rng.chance(0.5) ? TestLog::Append::kFails : TestLog::Append::kStoresAndErrs;
    const std::size_t entries = log.entries.size();
    if (jobs.size() < 3 || rng.chance(0.2)) {
      auto spec = std::make_shared<JobSpec>();
      spec->name = format("j{}", ++number % 5);  // some ask for what another one asked for
      spec->user = ann;
      spec->hold = true;
      spec->groups.resize(1);
      spec->groups[0].launch = Launch::kScript;
      spec->script = id_of(1);
      spec->groups[0].argv.assign(kArguments, spec->name);
      if (const auto done = run(*engine, SubmitJob{.spec = spec}); done.ok())
        jobs[done->job] = spec->name;
    } else if (rng.chance(0.3)) {
      const JobId id = any();
      (void)run(*engine, CancelJob{.target = {.job = id}});  // an error may come after the data
      jobs.erase(id);
    } else {
      UpdateJob update{.target = {.job = any()}};
      update.name = jobs.at(update.target.job);
      update.nice = static_cast<std::int32_t>(rng.below(100));
      (void)run(*engine, update);
      for (std::size_t i = entries; i < log.entries.size(); ++i)
        ASSERT_LT(log.entries[i].bytes.size(), 3000u) << "the words were stored before";
    }
    now = now + millis(500);
    (void)run(*engine, Tick{});
    if (rng.chance(0.7))
      engine->set_trim_floor(engine->last_index() - rng.below(3));
    if (rng.chance(0.1)) {
      log.next = TestLog::Append::kWorks;
      engine.reset();
      engine = open(settings);
      ASSERT_TRUE(engine);
      for (const auto& [id, job] : engine->state().tables().jobs) {
        ASSERT_EQ(job->spec->groups[0].argv.size(), kArguments);
        ASSERT_EQ(job->spec->groups[0].argv.back(), job->spec->name);
      }
      for (const auto& [id, name] : jobs) ASSERT_TRUE(engine->state().tables().job(id)) << id.value;
    }
  }
  log.next = TestLog::Append::kWorks;
  now = now + seconds(1);
  std::vector<JobId> left;
  for (const auto& [id, job] : engine->state().tables().jobs) left.push_back(id);
  for (const JobId id : left) (void)run(*engine, CancelJob{.target = {.job = id}});
  for (int i = 0; i < 60; ++i) {
    now = now + seconds(1);
    (void)run(*engine, PutObject{note(format("n{}", i)), 0});
    (void)run(*engine, Tick{});
    engine->set_trim_floor(engine->last_index());
  }
  EXPECT_TRUE(engine->state().tables().jobs.empty());
  EXPECT_TRUE(log.blobs.empty()) << log.blobs.size() << " are left behind";
}

// So many bytes of changes, not only so many entries, are a reason to write a snapshot: else the log would grow without
// end under a few users with long words.
TEST_F(EngineTest, ManyBytesAreAReasonForASnapshot) {
  EngineSettings settings;
  settings.snapshot_bytes = 3 << 20;
  auto engine = open(settings);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(run(*engine, PutObject{note("n", std::string(500'000, 'x')), 0}).ok());
  EXPECT_GT(log.snapshot.index, 0u);
}

// What goes of the log goes in pieces, so that nobody waits for a gigabyte of it.
TEST_F(EngineTest, TheLogIsTrimmedInPieces) {
  EngineSettings settings;
  settings.snapshot_every = 110;
  auto engine = open(settings);
  for (int i = 0; i < 120; ++i) ASSERT_TRUE(run(*engine, PutObject{note("n", std::string(900'000, 'x')), 0}).ok());
  ASSERT_GT(log.snapshot.index, 100u);
  std::uint64_t before = log.trimmed;
  engine->set_trim_floor(engine->last_index());
  int pieces = 0;
  for (; log.trimmed < log.snapshot.index; ++pieces) {
    ASSERT_LE(log.trimmed - before, 40u) << "a batch and the call behind it take a piece each";
    before = log.trimmed;
    ASSERT_TRUE(run(*engine, PutObject{note("m"), 0}).ok());
    engine->set_trim_floor(engine->last_index());
  }
  EXPECT_GE(pieces, 2);
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

// A large snapshot is stored part by part, with others' commands in between, and counts when it is whole.
TEST_F(EngineTest, ASnapshotIsStoredInParts) {
  EngineSettings settings;
  settings.snapshot_every = 16;
  auto engine = open(settings);
  for (int i = 0; log.parts == 0; ++i)
    ASSERT_TRUE(run(*engine, PutObject{note(format("n{}", i), std::string(900'000, 'x')), 0}).ok());
  EXPECT_EQ(log.parts, 1);
  EXPECT_EQ(log.snapshot.index, 0u);
  ASSERT_TRUE(engine->has_upkeep());
  ASSERT_TRUE(run(*engine, PutObject{note("between"), 0}).ok());
  EXPECT_EQ(log.parts, 2) << "a batch takes one part along";
  EXPECT_EQ(log.snapshot.index, 0u);
  for (int parts = log.parts; log.snapshot.index == 0; ++parts) {
    ASSERT_TRUE(engine->has_upkeep());
    EXPECT_EQ(log.parts, parts);
    engine->upkeep();
  }
  EXPECT_GE(log.parts, 5);
  EXPECT_EQ(log.refused, "");
  while (engine->has_upkeep()) engine->upkeep();
  const Seq seq = engine->state().tables().seq;
  engine = open(settings);
  EXPECT_GE(engine->state().tables().seq, seq);
  EXPECT_TRUE(engine->state().tables().objects.size() > 12);
}

// Old blobs go piece by piece. Who stores one of them again meanwhile finds it afterwards.
TEST_F(EngineTest, BlobsAreSweptInPiecesAndWhatComesBackStays) {
  EngineSettings settings;
  settings.snapshot_every = 20;
  auto engine = open(settings);
  const UserId ann = run(*engine, PutUser{person("ann", 1000)})->user;
  constexpr int kBlobs = 900;
  for (int i = 1; i <= kBlobs; ++i)
    engine->submit(own(PutObject{note(format("n{}", i)), 0}), nullptr, {{id_of(i), "script"}});
  while (engine->has_work()) engine->run_batch(now);
  ASSERT_EQ(log.blobs.size(), std::size_t{kBlobs});
  while (log.sweeps == 0) ASSERT_TRUE(run(*engine, PutObject{note("more"), 0}).ok());
  EXPECT_EQ(log.blobs.size(), kBlobs - kSweepRows);
  ASSERT_TRUE(engine->has_upkeep());

  auto spec = std::make_shared<JobSpec>();
  spec->name = "late";
  spec->user = ann;
  spec->hold = true;
  spec->groups.resize(1);
  spec->groups[0].launch = Launch::kScript;
  spec->script = id_of(kBlobs);
  bool done = false;
  engine->submit(own(SubmitJob{.spec = spec}), [&](const Result<Answer>& answer) { done = answer.ok(); },
                 {{id_of(kBlobs), "script"}});
  engine->run_batch(now);
  ASSERT_TRUE(done);
  EXPECT_EQ(log.sweeps, 2) << "a batch takes one piece along";
  int turns = 0;
  for (; engine->has_upkeep(); ++turns) {
    const std::size_t before = log.blobs.size();
    engine->upkeep();
    EXPECT_LE(before - log.blobs.size(), kSweepRows);
  }
  EXPECT_GE(turns, 2);
  EXPECT_EQ(log.blobs.size(), 1u);
  EXPECT_TRUE(log.blobs.contains(id_of(kBlobs)));
}

// A sweep that fails, or that a reload overtakes, is given up: nothing turns without end, and the next snapshot's
// sweep does it.
TEST_F(EngineTest, AnUpkeepThatFailsWaitsForTheNextSnapshot) {
  EngineSettings settings;
  settings.snapshot_every = 10;
  settings.retry_after = {};
  auto engine = open(settings);
  int made = 0;
  const auto more = [&] { return run(*engine, PutObject{note(format("m{}", ++made)), 0}).ok(); };
  for (int i = 1; i <= 900; ++i)
    engine->submit(own(PutObject{note(format("n{}", i)), 0}), nullptr, {{id_of(i), "script"}});
  while (engine->has_work()) engine->run_batch(now);
  log.sweeps_fail = true;
  while (log.sweeps == 0) ASSERT_TRUE(more());
  EXPECT_FALSE(engine->has_upkeep());
  EXPECT_EQ(log.blobs.size(), 900u);
  log.sweeps_fail = false;
  while (log.sweeps == 1) ASSERT_TRUE(more());
  ASSERT_TRUE(engine->has_upkeep());
  log.next = TestLog::Append::kFails;
  EXPECT_FALSE(more());
  EXPECT_FALSE(engine->has_upkeep()) << "the state was read back";
  log.next = TestLog::Append::kWorks;
  for (int i = 0; i < 40; ++i) {
    engine->set_trim_floor(engine->last_index());
    ASSERT_TRUE(more());
    while (engine->has_upkeep()) engine->upkeep();
  }
  EXPECT_TRUE(log.blobs.empty());
}

// A batch ends once it brings two mebibytes: nobody waits while 500 fat jobs are written.
TEST_F(EngineTest, ABatchTakesOnlySoManyBytes) {
  auto engine = open();
  int answers = 0;
  for (int i = 0; i < 20; ++i)
    engine->submit(own(PutObject{note(format("n{}", i), std::string(300'000, 'x')), 0}),
                   [&](const Result<Answer>& answer) { answers += answer.ok(); });
  engine->run_batch(now);
  EXPECT_GT(answers, 0);
  EXPECT_LE(answers, 8);
  while (engine->has_work()) engine->run_batch(now);
  EXPECT_EQ(answers, 20);
}

TEST_F(EngineTest, ABatchTakesOnlySoManyBytesOfWhatJobsAskFor) {
  auto engine = open();
  const auto user = run(*engine, PutUser{person("ann", 1000)});
  int answers = 0;
  for (int i = 0; i < 20; ++i) {
    auto spec = std::make_shared<JobSpec>();
    spec->name = "a";
    spec->user = user->user;
    spec->hold = true;
    spec->groups.resize(1);
    spec->groups[0].launch = Launch::kScript;
    spec->script = id_of(1);
    spec->groups[0].argv.assign(30'000, format("argument-{}", i));
    engine->submit(own(SubmitJob{.spec = spec}), [&](const Result<Answer>& answer) { answers += answer.ok(); });
  }
  engine->run_batch(now);
  EXPECT_GT(answers, 0);
  EXPECT_LE(answers, 8);
  while (engine->has_work()) engine->run_batch(now);
  EXPECT_EQ(answers, 20);
}

// Row 5: 190 held jobs of 340,000 empty arguments were a snapshot that nobody could read any more. Here in small.
TEST_F(EngineTest, ASnapshotOfManyLargeJobsIsReadBack) {
  EngineSettings settings;
  settings.snapshot_every = 30;
  constexpr std::size_t kJobs = 40, kArguments = 60'000;
  {
    auto engine = open(settings);
    const auto user = run(*engine, PutUser{person("ann", 1000)});
    for (std::size_t i = 0; i < kJobs; ++i) {
      auto spec = std::make_shared<JobSpec>();
      spec->name = format("j{}", i);
      spec->user = user->user;
      spec->hold = true;
      spec->groups.resize(1);
      spec->groups[0].launch = Launch::kScript;
      spec->script = id_of(1);
      spec->groups[0].argv.resize(kArguments);
      spec->groups[0].argv[0] = spec->name;
      const auto done = run(*engine, SubmitJob{.spec = spec});
      ASSERT_TRUE(done.ok()) << done.error().message;
    }
  }
  ASSERT_GE(log.snapshot.index, 30u);
  for (const auto& chunk : log.snapshot.chunks) EXPECT_LE(chunk.size(), kEntryBytesMax);
  auto engine = open(settings);
  ASSERT_TRUE(engine);
  ASSERT_EQ(engine->state().tables().jobs.size(), kJobs);
  for (const auto& [id, job] : engine->state().tables().jobs) {
    ASSERT_EQ(job->spec->groups[0].argv.size(), kArguments);
    ASSERT_EQ(job->spec->groups[0].argv[0], job->spec->name);
  }
}

TEST_F(EngineTest, ADamagedLogIsRefused) {
  open();
  log.entries.back().bytes = "{\"v\":1,";
  const auto broken = Engine::open(log, {}, now);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, Errc::kCorrupt);
}

TEST_F(EngineTest, AGapInTheLogIsRefused) {
  {
    auto engine = open();
    for (std::uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(run(*engine, PutObject{note(format("o{}", i)), 0}).ok());
  }
  log.entries.erase(log.entries.begin() + 2);
  const auto broken = Engine::open(log, {}, now);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, Errc::kCorrupt);
}

}  // namespace
}  // namespace lockstep
