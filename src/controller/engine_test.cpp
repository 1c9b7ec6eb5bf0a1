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
  // Eight objects of 400 KiB: more than three entries.
  for (int i = 0; i < 8; ++i)
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
  EXPECT_EQ(whole->state().tables().objects.size(), 8u);
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
    engine->run_batch(now + millis(5));
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
      EXPECT_NE(answer.error().message.find("4194304 are allowed"), std::string::npos) << answer.error().message;
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
