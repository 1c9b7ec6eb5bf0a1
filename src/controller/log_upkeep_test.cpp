#include "controller/log_upkeep.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "controller/test_engine.h"
#include "model/job.h"
#include "model/spec.h"

namespace lockstep {
namespace {

using LogUpkeepTest = EngineTest;

TEST_F(LogUpkeepTest, WorkGoesOnWhileASnapshotIsEncodedElsewhere) {
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

TEST_F(LogUpkeepTest, ASnapshotReplacesTheEntriesBeforeItAndTrimmingWaitsForReaders) {
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

TEST_F(LogUpkeepTest, NumbersOfRemovedRecordsAreNotGivenOutAgain) {
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

TEST_F(LogUpkeepTest, BlobsAreStoredOnceWithTheirCommandAndSweptWhenUnused) {
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

// Fat jobs come, change, and go, with snapshots, trims, failed appends and restarts in between: what they hold is
// always there, and no change but the first costs what their words take.
TEST_F(LogUpkeepTest, LongWordsAreStoredOnceAndStayAsLongAsTheyAreNeeded) {
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
TEST_F(LogUpkeepTest, ManyBytesAreAReasonForASnapshot) {
  EngineSettings settings;
  settings.snapshot_bytes = 3 << 20;
  auto engine = open(settings);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(run(*engine, PutObject{note("n", std::string(500'000, 'x')), 0}).ok());
  EXPECT_GT(log.snapshot.index, 0u);
}

// What goes of the log goes in pieces, so that nobody waits for a gigabyte of it.
TEST_F(LogUpkeepTest, TheLogIsTrimmedInPieces) {
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

// A large snapshot is stored part by part, with others' commands in between, and counts when it is whole.
TEST_F(LogUpkeepTest, ASnapshotIsStoredInParts) {
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
TEST_F(LogUpkeepTest, BlobsAreSweptInPiecesAndWhatComesBackStays) {
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
TEST_F(LogUpkeepTest, AnUpkeepThatFailsWaitsForTheNextSnapshot) {
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

// Row 5: 190 held jobs of 340,000 empty arguments were a snapshot that nobody could read any more. Here in small.
TEST_F(LogUpkeepTest, ASnapshotOfManyLargeJobsIsReadBack) {
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

}  // namespace
}  // namespace lockstep
