#include "io/lossy_vfs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/text.h"
#include "io/sha256.h"
#include "io/slow_sync_vfs.h"
#include "io/sqlite.h"
#include "io/sqlite_history.h"
#include "io/sqlite_log.h"
#include "io/temp_dir.h"
#include "model/job.h"
#include "model/spec.h"
#include "ports/log_testing.h"

namespace lockstep {
namespace {

std::string content_of(std::uint64_t index) { return format("entry {} ", index) + std::string(index * 37 % 9000, 'e'); }
LogEntry make_entry(std::uint64_t index) { return {.index = index, .last_seq = index, .bytes = content_of(index)}; }
Blob make_blob(std::uint64_t index) {
  std::string bytes = format("blob {}", index);
  return {sha256_hex(bytes), bytes};
}

// The disk itself must be able to lose things, or the tests below would prove nothing.
TEST(LossyDisk, ForgetsWhatWasNotSynced) {
  TempDir dir;
  LossyDisk disk("lossy-forgets");
  for (const bool synced : {false, true}) {
    const std::string path = dir.file(synced ? "synced.db" : "careless.db");
    {
      auto db = Sqlite::open(path, disk.name());
      ASSERT_TRUE(db.ok());
      ASSERT_TRUE(db->run("PRAGMA journal_mode=WAL").ok());
      ASSERT_TRUE(db->run("CREATE TABLE t(x)").ok());
      ASSERT_TRUE(db->run(synced ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF").ok());
      for (int i = 0; i < 10; ++i) ASSERT_TRUE(db->run("INSERT INTO t VALUES(1)").ok());
      EXPECT_EQ(disk.unsynced_bytes() == 0, synced);
      disk.lose_power();
      EXPECT_FALSE(db->run("INSERT INTO t VALUES(1)").ok());
    }
    disk.power_on();
    auto db = Sqlite::open(path, disk.name());
    ASSERT_TRUE(db.ok());
    const auto count = db->number("SELECT count(*) FROM t");
    EXPECT_EQ(count.ok() ? *count : 0, synced ? 10 : 0);
  }
}

// Pulls the plug at a random operation, again and again, on one growing log.
void torture(std::uint64_t seed, double survival) {
  Rng rng(seed);
  TempDir dir;
  LossyDisk disk(format("lossy-{}", seed));
  disk.set_survival(survival, seed);
  const std::string path = dir.file("log.db");
  std::uint64_t acknowledged = 0, trimmed = 0, snapshot = 0;
  for (int life = 0; life < 12; ++life) {
    std::uint64_t tried = acknowledged;
    {
      disk.lose_power_after(rng.below(life == 0 ? 20 : 400) + 1);
      auto log = open_sqlite_log(path, {.vfs = disk.name(), .reserve_bytes = 0, .checkpoint_pages = 30});
      while (log.ok() && !disk.dead()) {
        const std::uint64_t count = 1 + rng.below(4);
        std::vector<LogEntry> entries;
        std::vector<Blob> blobs;
        for (std::uint64_t i = 1; i <= count; ++i) {
          entries.push_back(make_entry(acknowledged + i));
          blobs.push_back(make_blob(acknowledged + i));
        }
        tried = acknowledged + count;
        if (!append_to(**log, entries, blobs).ok())
          break;
        ASSERT_TRUE(disk.dead() || disk.unsynced_bytes() == 0) << "append returned before its sync";
        acknowledged = tried;
        const auto term = (*log)->lead();
        if (!term.ok())
          break;
        if (rng.chance(0.1) &&
            (*log)->write_whole_snapshot(*term, acknowledged, {format("up to {}", acknowledged)}).ok())
          snapshot = acknowledged;
        if (rng.chance(0.1) && (*log)->trim(*term, acknowledged).ok())
          trimmed = snapshot;
      }
    }
    if (!disk.dead())
      disk.lose_power(survival);
    disk.power_on();
    auto log = open_sqlite_log(path, {.vfs = disk.name(), .reserve_bytes = 0});
    ASSERT_TRUE(log.ok()) << "seed " << seed << " life " << life << ": " << log.error().message;
    const std::uint64_t last = *(*log)->last_index();
    ASSERT_GE(last, acknowledged) << "seed " << seed;
    ASSERT_TRUE(last == acknowledged || last == tried) << "an append is all or nothing, seed " << seed;
    const auto found = (*log)->read_snapshot();
    ASSERT_TRUE(found.ok()) << found.error().message;
    ASSERT_GE(found->index, snapshot);
    if (found->index > 0) {
      ASSERT_EQ(found->chunks, std::vector{format("up to {}", found->index)});
    }
    const auto entries = (*log)->read(1, 1'000'000);
    ASSERT_TRUE(entries.ok());
    ASSERT_EQ(last - entries->size(), entries->empty() ? last : entries->front().index - 1);
    ASSERT_LE(last - entries->size(), found->index);
    ASSERT_GE(last - entries->size(), trimmed);
    for (const auto& entry : *entries) ASSERT_EQ(entry.bytes, content_of(entry.index));
    for (std::uint64_t i = 1; i <= last; ++i) ASSERT_TRUE(*(*log)->has_blob(make_blob(i).id)) << i;
    acknowledged = last;
    snapshot = found->index;
  }
}

TEST(LossyDisk, NoAcknowledgedEntryIsEverLost) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) torture(seed, 0);
}

TEST(LossyDisk, HalfWrittenSectorsDoNotConfuseTheLog) {
  for (std::uint64_t seed = 101; seed <= 112; ++seed) torture(seed, seed % 2 == 0 ? 0.5 : 0.95);
}

TEST(LossyDisk, AFailedSyncIsAFailedAppend) {
  TempDir dir;
  LossyDisk disk("lossy-fsync");
  const std::string path = dir.file("log.db");
  {
    auto log = open_sqlite_log(path, {.vfs = disk.name(), .reserve_bytes = 0});
    ASSERT_TRUE(log.ok());
    ASSERT_TRUE(append_to(**log, {make_entry(1)}, {}).ok());
    disk.fail_sync_after(1);
    EXPECT_FALSE(append_to(**log, {make_entry(2)}, {}).ok());
    const auto last = (*log)->last_index();  // the caller reloads
    ASSERT_TRUE(last.ok());
    EXPECT_TRUE(append_to(**log, {make_entry(*last + 1)}, {}).ok());
    disk.lose_power();
  }
  disk.power_on();
  auto log = open_sqlite_log(path, {.vfs = disk.name(), .reserve_bytes = 0});
  ASSERT_TRUE(log.ok()) << log.error().message;
  EXPECT_GE(*(*log)->last_index(), 2u);
}

TEST(LossyDisk, AFullDiskIsSaidToBeFullAndTheReserveLetsCompletionsThrough) {
  TempDir dir;
  LossyDisk disk("lossy-full");
  auto opened = open_sqlite_log(dir.file("log.db"), {.vfs = disk.name(), .reserve_bytes = 1 << 16});
  ASSERT_TRUE(opened.ok());
  SqliteLog& log = **opened;
  ASSERT_TRUE(append_to(log, {make_entry(1)}, {}).ok());
  EXPECT_FALSE(log.low_space());
  const Term term = *log.lead();
  disk.set_room(0);
  const std::vector<LogEntry> entries{make_entry(2), make_entry(3)};
  const std::vector<Blob> blobs{make_blob(2)};
  log.put(blobs);
  Log::End refused;
  log.append(term, entries, [&](const Log::End& end) { refused = end; });
  EXPECT_NE(refused.stored, Stored::kYes);
  EXPECT_NE(refused.why.find("full"), std::string::npos) << refused.why;
  EXPECT_EQ(*log.last_index(), 1u);
  EXPECT_TRUE(log.low_space());
  struct stat reserve {};
  EXPECT_NE(stat(dir.file("reserve").c_str(), &reserve), 0) << "the reserve is given back";
  disk.set_room(1 << 16);  // which is this much room
  EXPECT_TRUE(append_to(log, {make_entry(2)}, {}).ok());
  EXPECT_EQ(*log.last_index(), 2u);
}

TEST(LossyDisk, HistoryAndItsCursorSurviveTogether) {
  TempDir dir;
  LossyDisk disk("lossy-history");
  const std::string path = dir.file("history.db");
  Rng rng(7);
  std::uint64_t taken = 0;
  for (int life = 0; life < 10; ++life) {
    {
      disk.lose_power_after(rng.below(100) + 1);
      auto history = open_sqlite_history(path, disk.name());
      while (history.ok() && !disk.dead()) {
        auto spec = std::make_shared<JobSpec>();
        spec->groups.resize(1);
        auto job = std::make_shared<Job>();
        job->id = JobId{taken + 1};
        job->spec = spec;
        if (!(*history)->take(taken + 1, std::vector<Change>{{taken + 1, Ref<Job>(job), false}}, Tables{}).ok())
          break;
        ++taken;
      }
    }
    if (!disk.dead())
      disk.lose_power();
    disk.power_on();
    auto history = open_sqlite_history(path, disk.name());
    ASSERT_TRUE(history.ok()) << history.error().message;
    const std::uint64_t cursor = *(*history)->cursor();
    EXPECT_GE(cursor, taken);
    EXPECT_EQ((*history)->query({})->size(), cursor);
    taken = cursor;
  }
}

TEST(SlowSync, EveryCommitPassesItAndStaysReadable) {
  TempDir dir;
  const std::string vfs = register_slow_sync_vfs(micros(10));
  {
    auto log = open_sqlite_log(dir.file("log.db"), {.vfs = vfs, .reserve_bytes = 0});
    ASSERT_TRUE(log.ok()) << log.error().message;
    for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_TRUE(append_to(**log, {make_entry(i)}, {make_blob(i)}).ok());
  }
  auto log = open_sqlite_log(dir.file("log.db"), {.reserve_bytes = 0});
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(*(*log)->last_index(), 5u);
}

}  // namespace
}  // namespace lockstep
