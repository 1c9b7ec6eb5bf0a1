#include "io/sqlite_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/rng.h"
#include "base/text.h"
#include "io/sha256.h"
#include "io/sqlite.h"
#include "io/temp_dir.h"
#include "ports/log_testing.h"

namespace lockstep {
namespace {

constexpr std::int64_t kSmallReserve = 1 << 16;

class SqliteLogTest : public testing::Test {
 protected:
  std::string path() const { return dir_.file("log.db"); }
  std::unique_ptr<SqliteLog> open() {
    auto log = open_sqlite_log(path(), {.reserve_bytes = kSmallReserve});
    EXPECT_TRUE(log.ok()) << log.error().message;
    return std::move(*log);
  }
  Errc refused() {
    const auto log = open_sqlite_log(path(), {.reserve_bytes = kSmallReserve});
    EXPECT_FALSE(log.ok());
    return log.ok() ? Errc::kInternal : log.error().code;
  }
  std::string bytes() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write_file(std::string_view content) const {
    std::ofstream(path(), std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  void sql(const char* text) {
    auto db = Sqlite::open(path(), "");
    ASSERT_TRUE(db.ok());
    const auto done = db->run(text);
    ASSERT_TRUE(done.ok()) << done.error().message;
  }

  TempDir dir_;
};

LogEntry entry(std::uint64_t index, bool closing = true) {
  return {.index = index, .last_seq = index * 10, .closing = closing, .bytes = format("entry {}", index)};
}
Blob make_blob(std::string bytes) { return {sha256_hex(bytes), bytes}; }

TEST_F(SqliteLogTest, KeepsEntriesAndBlobsOverARestart) {
  const Blob script = make_blob("#!/bin/sh\necho hello\n"), empty = make_blob("");
  {
    const auto log = open();
    EXPECT_EQ(*log->last_index(), 0u);
    ASSERT_TRUE(append_to(*log, {entry(1), entry(2)}, {script, empty}).ok());
    ASSERT_TRUE(append_to(*log, {entry(3)}, {script}).ok());  // the same blob again
  }
  const auto log = open();
  EXPECT_EQ(*log->last_index(), 3u);
  const auto entries = log->read(2, 10);
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ(entries->front().index, 2u);
  EXPECT_EQ(entries->front().last_seq, 20u);
  EXPECT_EQ(entries->front().bytes, "entry 2");
  EXPECT_EQ(log->read(1, 1)->size(), 1u);
  EXPECT_EQ(*log->blob(script.id), script.bytes);
  EXPECT_EQ(*log->blob(empty.id), "");
  EXPECT_EQ(log->blob(sha256_hex("other")).error().code, Errc::kNotFound);
  EXPECT_TRUE(*log->has_blob(script.id));
  EXPECT_FALSE(*log->has_blob(sha256_hex("other")));
}

TEST_F(SqliteLogTest, AnAppendIsAllOrNothing) {
  const auto log = open();
  ASSERT_TRUE(append_to(*log, {entry(1)}, {}).ok());
  const Blob blob = make_blob("x");
  EXPECT_FALSE(append_to(*log, {entry(2), entry(4)}, {blob}).ok());
  EXPECT_FALSE(append_to(*log, {entry(1)}, {}).ok());
  EXPECT_EQ(*log->last_index(), 1u);
  EXPECT_FALSE(*log->has_blob(blob.id));
  EXPECT_TRUE(append_to(*log, {entry(2)}, {}).ok());
}

TEST_F(SqliteLogTest, AnOutcomeWithoutItsClosingEntryDoesNotCount) {
  {
    const auto log = open();
    ASSERT_TRUE(append_to(*log, {entry(1)}, {}).ok());
    ASSERT_TRUE(append_to(*log, {entry(2, false), entry(3, false)}, {}).ok());
  }
  const auto log = open();
  EXPECT_EQ(*log->last_index(), 1u);
  EXPECT_EQ(log->read(1, 10)->size(), 1u);
  EXPECT_TRUE(append_to(*log, {entry(2, false), entry(3)}, {}).ok());
}

TEST_F(SqliteLogTest, SnapshotsReplaceEachOtherAndBoundTheTrim) {
  {
    const auto log = open();
    for (std::uint64_t i = 1; i <= 10; ++i) ASSERT_TRUE(append_to(*log, {entry(i)}, {}).ok());
    EXPECT_EQ(log->read_snapshot()->index, 0u);
    EXPECT_FALSE(log->write_whole_snapshot(*log->lead(), 11, {"beyond the end"}).ok());
    ASSERT_TRUE(log->write_whole_snapshot(*log->lead(), 4, {"a", "b", "c"}).ok());
    ASSERT_TRUE(log->write_whole_snapshot(*log->lead(), 6, {std::string(100'000, 'q'), ""}).ok());
    ASSERT_TRUE(log->trim(*log->lead(), 9).ok());  // never beyond the snapshot
  }
  const auto log = open();
  EXPECT_EQ(log->read(1, 100)->front().index, 7u);
  EXPECT_EQ(*log->last_index(), 10u);
  const auto snapshot = log->read_snapshot();
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->index, 6u);
  ASSERT_EQ(snapshot->chunks.size(), 2u);
  EXPECT_EQ(snapshot->chunks[0], std::string(100'000, 'q'));
  EXPECT_EQ(snapshot->chunks[1], "");
}

TEST_F(SqliteLogTest, AFullyTrimmedLogGoesOnWhereItWas) {
  {
    const auto log = open();
    ASSERT_TRUE(append_to(*log, {entry(1), entry(2)}, {}).ok());
    ASSERT_TRUE(log->write_whole_snapshot(*log->lead(), 2, {"all"}).ok());
    ASSERT_TRUE(log->trim(*log->lead(), 2).ok());
  }
  const auto log = open();
  EXPECT_EQ(*log->last_index(), 2u);
  EXPECT_TRUE(log->read(1, 10)->empty());
  EXPECT_FALSE(append_to(*log, {entry(1)}, {}).ok());
  EXPECT_TRUE(append_to(*log, {entry(3)}, {}).ok());
}

TEST_F(SqliteLogTest, SweepsBlobsNobodyNeeds) {
  const auto log = open();
  const Blob keep = make_blob("keep"), drop = make_blob("drop");
  ASSERT_TRUE(append_to(*log, {entry(1)}, {keep, drop}).ok());
  EXPECT_EQ(*log->sweep_blobs(*log->lead(), "", [&](const BlobId& id) { return id == keep.id; }), "")
      << "one piece is enough";
  EXPECT_TRUE(*log->has_blob(keep.id));
  EXPECT_FALSE(*log->has_blob(drop.id));
}

// Many blobs, and large ones, go in pieces: nobody waits for a gigabyte of them.
TEST_F(SqliteLogTest, BlobsAreSweptInPieces) {
  const auto log = open();
  std::vector<Blob> small, large;
  for (int i = 0; i < 600; ++i) small.push_back(make_blob(format("small {}", i)));
  ASSERT_TRUE(append_to(*log, {entry(1)}, small).ok());
  const auto nothing = [](const BlobId&) { return false; };
  const auto left = [&](const std::vector<Blob>& blobs) {
    return static_cast<std::size_t>(
        std::count_if(blobs.begin(), blobs.end(), [&](const Blob& blob) { return *log->has_blob(blob.id); }));
  };
  BlobId next = *log->sweep_blobs(*log->lead(), "", nothing);
  EXPECT_EQ(left(small), small.size() - kSweepRows);
  EXPECT_NE(next, "");
  while (!next.empty()) next = *log->sweep_blobs(*log->lead(), next, nothing);
  EXPECT_EQ(left(small), 0u);

  Rng rng(1);
  for (int i = 0; i < 5; ++i) {
    std::string bytes(3 << 20, '\0');
    for (char& c : bytes) c = static_cast<char>(rng.below(256));
    large.push_back(make_blob(bytes));
  }
  ASSERT_TRUE(append_to(*log, {entry(2)}, large).ok());
  next = *log->sweep_blobs(*log->lead(), "", nothing);
  EXPECT_EQ(left(large), 2u) << "three are more than " << kSweepBytes;
  EXPECT_EQ(*log->sweep_blobs(*log->lead(), next, nothing), "");
  EXPECT_EQ(left(large), 0u);
}

// What is left of a long snapshot may fill a piece: the blobs come after it.
TEST_F(SqliteLogTest, ASweepGoesOnBehindTheRestOfASnapshot) {
  const auto log = open();
  const Blob blob = make_blob("old");
  ASSERT_TRUE(append_to(*log, {entry(1), entry(2)}, {blob}).ok());
  ASSERT_TRUE(log->write_whole_snapshot(*log->lead(), 1, std::vector<std::string>(2 * kSweepRows + 1, "x")).ok());
  ASSERT_TRUE(log->write_whole_snapshot(*log->lead(), 2, {"y"}).ok());
  int pieces = 1;
  for (BlobId next = *log->sweep_blobs(*log->lead(), "", [](const BlobId&) { return false; }); !next.empty(); ++pieces)
    next = *log->sweep_blobs(*log->lead(), next, [](const BlobId&) { return false; });
  EXPECT_EQ(pieces, 3);
  EXPECT_FALSE(*log->has_blob(blob.id));
}

// A snapshot counts with its last part; until then, and after a crash before it, the one before does. What is left of
// others goes with the next sweep.
TEST_F(SqliteLogTest, ASnapshotIsWrittenInParts) {
  const std::vector<std::string> chunks(4, std::string(kEntryBytesMax, 'x'));
  const auto part = [&](std::size_t first, std::size_t count, bool last) {
    return Log::SnapshotPart{2, first, std::span(chunks).subspan(first, count), last};
  };
  {
    const auto log = open();
    ASSERT_TRUE(append_to(*log, {entry(1), entry(2), entry(3)}, {}).ok());
    ASSERT_TRUE(log->write_whole_snapshot(*log->lead(), 1, {"old"}).ok());
    EXPECT_FALSE(log->write_snapshot(*log->lead(), part(0, 3, false)).ok()) << "more than one part holds";
    EXPECT_FALSE(log->write_snapshot(*log->lead(), part(2, 2, true)).ok()) << "its first part is missing";
    ASSERT_TRUE(log->write_snapshot(*log->lead(), part(0, 2, false)).ok());
    EXPECT_FALSE(log->write_snapshot(*log->lead(), part(1, 1, false)).ok());
    EXPECT_EQ(log->read_snapshot()->index, 1u);
  }
  const auto log = open();
  ASSERT_EQ(log->read_snapshot()->chunks, std::vector<std::string>{"old"});
  EXPECT_FALSE(log->write_snapshot(*log->lead(), part(2, 2, true)).ok()) << "another life began it";
  ASSERT_TRUE(log->write_snapshot(*log->lead(), part(0, 2, false)).ok());
  ASSERT_TRUE(log->write_snapshot(*log->lead(), part(2, 2, true)).ok());
  EXPECT_EQ(log->read_snapshot()->index, 2u);
  EXPECT_EQ(log->read_snapshot()->chunks, chunks);
  const auto rows = [&] {
    auto db = Sqlite::open(path(), "");
    return *db->number("SELECT count(*) FROM chunks");
  };
  EXPECT_EQ(rows(), 1 + 2 + 4);
  EXPECT_EQ(*log->sweep_blobs(*log->lead(), "", [](const BlobId&) { return true; }), "");
  EXPECT_EQ(rows(), 4);
  EXPECT_EQ(log->read_snapshot()->chunks, chunks);
}

TEST_F(SqliteLogTest, CheckpointsKeepTheWalShort) {
  auto opened = open_sqlite_log(path(), {.reserve_bytes = 0, .checkpoint_pages = 50});
  ASSERT_TRUE(opened.ok());
  for (std::uint64_t i = 1; i <= 300; ++i) {
    LogEntry e = entry(i);
    e.bytes.assign(10'000, 'x');
    ASSERT_TRUE(append_to(**opened, {e}, {}).ok());
  }
  struct stat wal {};
  ASSERT_EQ(stat((path() + "-wal").c_str(), &wal), 0);
  EXPECT_LT(wal.st_size, 100 * 4200);
}

TEST_F(SqliteLogTest, TwoControllersOnOneDirectoryAreRefused) {
  const auto log = open();
  const auto second = open_sqlite_log(path());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::kConflict);
  EXPECT_NE(second.error().message.find(format("another controller (pid {})", getpid())), std::string::npos);
}

TEST_F(SqliteLogTest, ForeignFilesAreRefusedAndNeverTouched) {
  std::string random(5000, '\0');
  for (std::size_t i = 0; i < random.size(); ++i) random[i] = static_cast<char>(i * 37 + i / 3);
  for (const std::string& content : {std::string("some text of mine\n"), random, std::string("SQLite format 3"),
                                     std::string("SQLite format 3\0 cut short", 27), std::string(1, 'x')}) {
    write_file(content);
    EXPECT_EQ(refused(), Errc::kCorrupt);
    EXPECT_EQ(bytes(), content);
  }
}

TEST_F(SqliteLogTest, AnotherProgramsDatabaseIsRefusedAndNeverTouched) {
  sql("CREATE TABLE mine(x); INSERT INTO mine VALUES(1);");
  std::string before = bytes();
  EXPECT_EQ(refused(), Errc::kCorrupt);
  EXPECT_EQ(bytes(), before);
  sql("PRAGMA application_id=77");
  before = bytes();
  EXPECT_EQ(refused(), Errc::kCorrupt);
  EXPECT_EQ(bytes(), before);
}

TEST_F(SqliteLogTest, ANewerFormatIsRefusedAsSuch) {
  open().reset();
  sql("PRAGMA user_version=3");
  EXPECT_EQ(refused(), Errc::kUnsupported);
}

TEST_F(SqliteLogTest, ForeignTablesAndGapsAreRefused) {
  {
    const auto log = open();
    for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_TRUE(append_to(*log, {entry(i)}, {}).ok());
  }
  const std::string good = bytes();
  sql("CREATE TABLE extra(x)");
  EXPECT_EQ(refused(), Errc::kCorrupt);
  write_file(good);
  sql("DELETE FROM entries WHERE number = 3");
  EXPECT_EQ(refused(), Errc::kCorrupt);
  write_file(good);
  sql("DELETE FROM entries WHERE number = 1");
  EXPECT_EQ(refused(), Errc::kCorrupt);
  write_file(good);
  sql("INSERT INTO facts VALUES('snapshot', 9)");
  EXPECT_EQ(refused(), Errc::kCorrupt);
  write_file(good);
  sql("UPDATE entries SET bytes = 'entry X' WHERE number = 3");
  EXPECT_EQ(open()->read(1, 10).error().code, Errc::kCorrupt);
}

TEST_F(SqliteLogTest, ATruncatedOrScribbledFileIsNeverTakenForWhole) {
  {
    const auto log = open();
    for (std::uint64_t i = 1; i <= 200; ++i) {
      LogEntry e = entry(i);
      e.bytes += std::string(500, 'p');
      ASSERT_TRUE(append_to(*log, {e}, {}).ok());
    }
  }
  const std::string good = bytes();
  for (std::size_t cut = 1; cut < good.size(); cut += 4096 + 977) {
    write_file(std::string_view(good).substr(0, cut));
    auto log = open_sqlite_log(path(), {.reserve_bytes = 0});
    const bool whole = log.ok() && (*log)->read(1, 1000).ok() && (*log)->read(1, 1000)->size() == 200;
    EXPECT_FALSE(whole) << cut;
    if (!log.ok()) {
      EXPECT_EQ(log.error().code, Errc::kCorrupt) << log.error().message;
    }
  }
  for (std::size_t at = 4096; at < good.size(); at += 3001) {
    std::string bad = good;
    for (std::size_t i = at; i < std::min(at + 200, bad.size()); ++i) bad[i] = static_cast<char>(bad[i] ^ 0x5a);
    write_file(bad);
    auto log = open_sqlite_log(path(), {.reserve_bytes = 0});
    if (!log.ok())
      continue;
    const auto entries = (*log)->read(1, 1000);
    if (!entries.ok())
      continue;
    for (const auto& e : *entries)  // nothing of ours was hit
      EXPECT_EQ(e.bytes, format("entry {}", e.index) + std::string(500, 'p'));
  }
}

// Row 24: a flipped bit in the last frames of the write-ahead log ended the log there without a word.
class DamagedWal : public SqliteLogTest {
 protected:
  // What a killed controller leaves behind: `count` entries in the write-ahead log, copied while it is open.
  void make(std::uint64_t count) {
    TempDir source;
    const auto log = open_sqlite_log(source.file("log.db"), {.reserve_bytes = 0});
    ASSERT_TRUE(log.ok()) << log.error().message;
    for (std::uint64_t i = 1; i <= count; ++i) ASSERT_TRUE(append_to(**log, {entry(i)}, {}).ok());
    for (const char* name : {"log.db", "log.db-wal", "log.tip"}) copy(source.file(name), dir_.file(name));
  }
  static void copy(const std::string& from, const std::string& to) {
    std::ifstream in(from, std::ios::binary);
    ASSERT_TRUE(in) << from;
    std::ofstream(to, std::ios::binary) << in.rdbuf();
  }
  std::string wal() const { return dir_.file("log.db-wal"); }
  std::string content(const std::string& path) const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void flip(std::size_t from_end) {
    std::string bytes = content(wal());
    bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 0x10);
    std::ofstream(wal(), std::ios::binary) << bytes;
  }

  TempDir aside_;
};

TEST_F(DamagedWal, AFlippedBitInTheLastFrameIsNoticed) {
  make(5);
  EXPECT_EQ(*open()->last_index(), 5u) << "without damage it opens";
  make(5);
  flip(100);
  const std::string before = content(wal()), db_before = bytes();
  for (int again = 0; again < 2; ++again) {
    const auto refused = open_sqlite_log(path(), {.reserve_bytes = 0});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Errc::kCorrupt);
    EXPECT_NE(refused.error().message.find("ends at entry 4, but entries up to 5 were acknowledged: 1 are lost"),
              std::string::npos)
        << refused.error().message;
    EXPECT_NE(refused.error().message.find(dir_.file("log.accept-loss")), std::string::npos);
  }
  EXPECT_EQ(content(wal()), before) << "what is left of it may help somebody";
  EXPECT_EQ(bytes(), db_before);
}

TEST_F(DamagedWal, WhoAcceptsTheLossGoesOnBehindIt) {
  make(6);
  flip(3 * 4200);  // some frames back: several entries are gone
  ASSERT_EQ(refused(), Errc::kCorrupt);
  std::ofstream(dir_.file("log.accept-loss")) << "";
  {
    const auto log = open();
    ASSERT_TRUE(log);
    EXPECT_EQ(*log->last_index(), 6u) << "no number is given out twice";
    const auto entries = log->read(1, 100);
    ASSERT_TRUE(entries.ok()) << entries.error().message;
    ASSERT_EQ(entries->size(), 6u);
    EXPECT_EQ(entries->front().bytes, "entry 1");
    EXPECT_EQ(entries->back().bytes, "");
    EXPECT_TRUE(entries->back().closing);
    EXPECT_TRUE(append_to(*log, {entry(7)}, {}).ok());
  }
  EXPECT_NE(::access(dir_.file("log.accept-loss").c_str(), F_OK), 0) << "once accepted, not for ever";
  EXPECT_EQ(*open()->last_index(), 7u);
}

TEST_F(DamagedWal, AnOlderCopyOfTheLogIsNoticed) {
  make(3);
  const std::string old_db = bytes(), old_wal = content(wal());
  {
    const auto log = open();
    for (std::uint64_t i = 4; i <= 9; ++i) ASSERT_TRUE(append_to(*log, {entry(i)}, {}).ok());
  }
  write_file(old_db);
  std::ofstream(wal(), std::ios::binary) << old_wal;
  EXPECT_EQ(refused(), Errc::kCorrupt);
}

TEST_F(DamagedWal, AnotherLogUnderTheSameTipIsNoticed) {
  make(3);
  copy(dir_.file("log.tip"), aside_.file("kept.tip"));
  for (const char* name : {"log.db", "log.db-wal", "log.tip"}) ::unlink(dir_.file(name).c_str());
  {
    const auto log = open();
    for (std::uint64_t i = 1; i <= 3; ++i)
      ASSERT_TRUE(append_to(*log, {{.index = i, .last_seq = i * 10, .bytes = "other"}}, {}).ok());
  }
  copy(aside_.file("kept.tip"), dir_.file("log.tip"));
  EXPECT_EQ(refused(), Errc::kCorrupt);
}

// After a power cut the tip may be older than the log, torn, or not there: the log is taken, and what cannot be known
// is said.
TEST_F(DamagedWal, AnOlderTipIsHarmless) {
  make(3);
  copy(dir_.file("log.tip"), aside_.file("kept.tip"));
  ASSERT_TRUE(append_to(*open(), {entry(4)}, {}).ok());
  copy(aside_.file("kept.tip"), dir_.file("log.tip"));
  EXPECT_EQ(*open()->last_index(), 4u);
  EXPECT_TRUE(open()->notices().empty());
  std::string flipped = content(aside_.file("kept.tip"));
  flipped[9] = static_cast<char>(flipped[9] ^ 1);
  for (const std::string& bad :
       {content(aside_.file("kept.tip")).substr(0, 20), flipped, std::string(), std::string(99, 'x')}) {
    std::ofstream(dir_.file("log.tip"), std::ios::binary) << bad;
    const auto log = open();
    EXPECT_EQ(*log->last_index(), 4u);
    EXPECT_FALSE(log->is_known_whole());
    ASSERT_EQ(log->notices().size(), 1u);
    EXPECT_NE(log->notices()[0].find("log.tip is damaged"), std::string::npos);
  }
  ::unlink(dir_.file("log.tip").c_str());
  {
    const auto log = open();
    EXPECT_EQ(*log->last_index(), 4u);
    ASSERT_EQ(log->notices().size(), 1u);
    EXPECT_NE(log->notices()[0].find("log.tip is missing"), std::string::npos);
    EXPECT_NE(::access(dir_.file("log.tip").c_str(), F_OK), 0) << "not before something is acknowledged";
    ASSERT_TRUE(append_to(*log, {entry(5)}, {}).ok());
  }
  EXPECT_TRUE(open()->notices().empty()) << "it has a tip again";
  EXPECT_TRUE(open()->is_known_whole());
}

TEST_F(DamagedWal, WithoutATipTheLogIsReadWhole) {
  {
    const auto log = open();
    for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_TRUE(append_to(*log, {entry(i)}, {}).ok());
  }
  ::unlink(dir_.file("log.tip").c_str());
  std::string db = bytes();
  const auto at = db.find("entry 3");
  ASSERT_NE(at, std::string::npos);
  db[at + 6] = '8';
  write_file(db);
  EXPECT_EQ(refused(), Errc::kCorrupt) << "a value that nobody would read yet";
  EXPECT_NE(::access(dir_.file("log.tip").c_str(), F_OK), 0) << "no tip vouches for it";
}

TEST_F(DamagedWal, IdsThatWereGivenOutAreKnownAfterALoss) {
  {
    const auto log = open();
    for (std::uint64_t i = 1; i <= 3; ++i) {
      LogEntry one = entry(i);
      one.next_job = 10 * i;
      ASSERT_TRUE(append_to(*log, {one}, {}).ok());
    }
  }
  copy(dir_.file("log.tip"), aside_.file("kept.tip"));
  for (const char* name : {"log.db", "log.db-wal"}) ::unlink(dir_.file(name).c_str());
  EXPECT_EQ(refused(), Errc::kCorrupt) << "a new file is no log of three entries";
  std::ofstream(dir_.file("log.accept-loss")) << "";
  {
    const auto log = open();
    EXPECT_EQ(log->jobs_given(), 30u);
    EXPECT_EQ(*log->last_index(), 3u);
    ASSERT_EQ(log->notices().size(), 1u);
    EXPECT_NE(log->notices()[0].find("3 are lost, which was accepted"), std::string::npos) << log->notices()[0];
    ASSERT_TRUE(append_to(*log, {entry(4)}, {}).ok());
  }
  EXPECT_EQ(open()->jobs_given(), 30u) << "also when nothing new was given out";
}

TEST_F(DamagedWal, WhatSomebodyElseHasSeenIsMissedWithoutATip) {
  make(3);
  ::unlink(dir_.file("log.tip").c_str());
  {
    const auto log = open();
    EXPECT_TRUE(log->seen_elsewhere(3, "accounting").ok());
    const auto missed = log->seen_elsewhere(8, "accounting");
    ASSERT_FALSE(missed.ok());
    EXPECT_NE(missed.error().message.find("accounting has seen entries up to 8: 5 are lost"), std::string::npos);
    EXPECT_NE(missed.error().message.find("log.accept-loss"), std::string::npos);
    std::ofstream(dir_.file("log.accept-loss")) << "";
    EXPECT_TRUE(log->seen_elsewhere(8, "accounting").ok());
    EXPECT_EQ(*log->last_index(), 8u);
  }
  EXPECT_EQ(*open()->last_index(), 8u);
}

// Two processes on one file, as when its lock was replaced: the one that leads later writes, the other not once more.
TEST_F(SqliteLogTest, ANewLeaderFencesTheOneBefore) {
  const auto one = open();
  const Term term = *one->lead();
  ASSERT_TRUE(append_to(*one, {entry(1), entry(2)}, {make_blob("of the first")}).ok());
  const Term first = *one->lead();
  EXPECT_GT(first, term);
  const auto other = std::move(*open_sqlite_log(path(), {.reserve_bytes = kSmallReserve, .take_lock = false}));
  const Term second = *other->lead();
  EXPECT_GT(second, first);

  const std::vector<LogEntry> third{entry(3)};
  const Blob blob = make_blob("never");
  Log::End end;
  one->put(std::span(&blob, 1));
  one->append(first, third, [&](const Log::End& how) { end = how; });
  EXPECT_EQ(end.stored, Stored::kDeposed) << end.why;
  EXPECT_EQ(*other->last_index(), 2u);
  EXPECT_FALSE(*other->has_blob(blob.id));
  EXPECT_FALSE(one->write_whole_snapshot(first, 2, {"x"}).ok());
  other->append(second, third, [&](const Log::End& how) { end = how; });
  EXPECT_EQ(end.stored, Stored::kYes) << end.why;
  ASSERT_TRUE(other->write_whole_snapshot(second, 3, {"all"}).ok());
  EXPECT_FALSE(one->trim(first, 2).ok());
  EXPECT_FALSE(one->sweep_blobs(first, "", [](const BlobId&) { return false; }).ok());
  ASSERT_TRUE(other->trim(second, 2).ok());
  EXPECT_EQ(other->read(1, 9)->front().index, 3u);
}

TEST_F(SqliteLogTest, WhatNoLogTakesIsRefusedAsAnErrorAndNothingIsWritten) {
  const auto log = open();
  LogEntry large = entry(1);
  large.bytes.assign(kEntryBytesMax + 1, 'x');
  const auto oversize = append_to(*log, {large}, {});
  ASSERT_FALSE(oversize.ok());
  EXPECT_NE(oversize.error().message.find("1048577 bytes; 1048576 are allowed"), std::string::npos);
  EXPECT_FALSE(append_to(*log, {entry(1)}, {{"no-sha", "bytes"}}).ok());
  EXPECT_FALSE(append_to(*log, {entry(2)}, {}).ok());
  EXPECT_EQ(*log->last_index(), 0u);
  EXPECT_FALSE(log->low_space()) << "none of them says anything of the disk";
  large.bytes.pop_back();
  EXPECT_TRUE(append_to(*log, {large}, {}).ok());
  EXPECT_FALSE(log->write_whole_snapshot(*log->lead(), 1, {std::string(kEntryBytesMax + 1, 'x')}).ok());
  EXPECT_TRUE(log->write_whole_snapshot(*log->lead(), 1, {std::string(kEntryBytesMax, 'x')}).ok());
}

TEST_F(SqliteLogTest, OneReadHandsOutABoundedNumberOfBytes) {
  const auto log = open();
  for (std::uint64_t i = 1; i <= 20; ++i) {
    LogEntry large = entry(i);
    large.bytes.assign(kEntryBytesMax, 'x');
    ASSERT_TRUE(append_to(*log, {large}, {}).ok());
  }
  const auto page = log->read(1, 100);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->size(), kReadBytesAtOnce / kEntryBytesMax);
  EXPECT_EQ(log->read(page->back().index + 1, 100)->back().index, 20u);
}

TEST_F(SqliteLogTest, AnEmptyFileIsANewOne) {
  write_file("");
  EXPECT_EQ(*open()->last_index(), 0u);
}

TEST_F(SqliteLogTest, TheReserveIsThere) {
  const auto log = open();
  struct stat reserve {};
  ASSERT_EQ(stat(dir_.file("reserve").c_str(), &reserve), 0);
  EXPECT_GE(reserve.st_blocks * 512, kSmallReserve);
  EXPECT_FALSE(log->low_space());
}

// Log and tip were put back from a backup, beside an accounting that went on.
TEST_F(DamagedWal, WhatWasPutBackGoesOnBehindWhatOthersHaveSeen) {
  make(3);
  {
    const auto log = open();
    ASSERT_TRUE(log->is_known_whole());
    ASSERT_TRUE(log->put_back(8, "accounting").ok());
    EXPECT_EQ(*log->last_index(), 8u);
    ASSERT_EQ(log->notices().size(), 1u);
    EXPECT_NE(log->notices()[0].find("put back from a backup"), std::string::npos);
    ASSERT_TRUE(append_to(*log, {entry(9)}, {}).ok());
  }
  EXPECT_EQ(*open()->last_index(), 9u);
  EXPECT_TRUE(open()->notices().empty());
}

}  // namespace
}  // namespace lockstep
