// Copies of a database that is written meanwhile.
#include "io/sqlite_copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include "base/text.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

class SqliteCopy : public ::testing::Test {
 protected:
  SqliteCopy() : db(std::move(*Sqlite::open(dir.file("a b?#%.db"), ""))) {
    EXPECT_TRUE(db.run("PRAGMA journal_mode=WAL"));
    EXPECT_TRUE(db.run("CREATE TABLE numbers(n INTEGER PRIMARY KEY, text TEXT)"));
    add(2000);
  }
  void add(int count) {
    for (int i = 0; i < count; ++i) EXPECT_TRUE(db.run("INSERT INTO numbers(text) VALUES(hex(randomblob(500)))"));
  }
  static std::int64_t count_in(const std::string& path) {
    auto copy = Sqlite::open(path, "");
    return copy ? *copy->number("SELECT count(*) FROM numbers") : -1;
  }
  bool there(const std::string& name) const { return ::access(dir.file(name).c_str(), F_OK) == 0; }

  TempDir dir;
  Sqlite db;
};

TEST_F(SqliteCopy, HoldsWhatWasThereWhenItWasTaken) {
  auto moment = SqliteMoment::take(dir.file("a b?#%.db"));
  ASSERT_TRUE(moment.ok()) << moment.error().message;
  add(10);
  int steps = 0;
  const auto copied = moment->copy_to(dir.file("copy.db"), [&](std::int64_t) {
    ++steps;
    add(1);  // a writer is not held up, and does not make it begin anew
    return Result<void>();
  });
  ASSERT_TRUE(copied.ok()) << copied.error().message;
  EXPECT_GT(steps, 3);
  EXPECT_EQ(*db.number("SELECT count(*) FROM numbers"), 2010 + steps);
  const auto checked = check_sqlite(dir.file("copy.db"));
  EXPECT_TRUE(checked.ok()) << checked.error().message;
  EXPECT_FALSE(there("copy.db-wal") || there("copy.db-shm") || there("copy.db-journal")) << "a check leaves nothing";
  EXPECT_EQ(count_in(dir.file("copy.db")), 2000);
}

TEST_F(SqliteCopy, ChangesNothingOfAFileThatNobodyHasOpen) {
  const std::string path = dir.file("a b?#%.db");
  { SqliteMoment kept = std::move(*SqliteMoment::take(path)); }  // the writer still has it
  ASSERT_EQ(sqlite3_db_config(db.native(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr), SQLITE_OK);
  db = Sqlite();
  const int before = ::open((path + "-wal").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(before, 0);
  const auto size = ::lseek(before, 0, SEEK_END);
  EXPECT_GT(size, 0);
  {
    auto moment = SqliteMoment::take(path);
    ASSERT_TRUE(moment.ok()) << moment.error().message;
    EXPECT_TRUE(moment->copy_to(dir.file("copy.db"), [](std::int64_t) { return Result<void>(); }).ok());
  }
  EXPECT_EQ(::lseek(before, 0, SEEK_END), size);
  EXPECT_EQ(::access((path + "-wal").c_str(), F_OK), 0);
  ::close(before);
  EXPECT_EQ(count_in(dir.file("copy.db")), 2000);
}

TEST_F(SqliteCopy, EndsWhereItIsTold) {
  auto moment = SqliteMoment::take(dir.file("a b?#%.db"));
  ASSERT_TRUE(moment.ok());
  const auto stopped = moment->copy_to(dir.file("copy.db"), [](std::int64_t) { return conflict("enough"); });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().message, "enough");
  EXPECT_FALSE(moment->copy_to(dir.file("copy.db"), [](std::int64_t) { return Result<void>(); }).ok())
      << "what is there is not written over";
  EXPECT_FALSE(SqliteMoment::take(dir.file("nothing.db")).ok());
  EXPECT_FALSE(there("nothing.db"));
}

TEST_F(SqliteCopy, DamageIsFound) {
  auto moment = SqliteMoment::take(dir.file("a b?#%.db"));
  ASSERT_TRUE(moment.ok());
  ASSERT_TRUE(moment->copy_to(dir.file("copy.db"), [](std::int64_t) { return Result<void>(); }).ok());
  const int fd = ::open(dir.file("copy.db").c_str(), O_RDWR | O_CLOEXEC);
  const std::string zeros(4096, '\0');
  for (int page = 3; page < 40; ++page) ASSERT_EQ(::pwrite(fd, zeros.data(), zeros.size(), page * 4096), 4096);
  ::close(fd);
  const auto checked = check_sqlite(dir.file("copy.db"));
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, Errc::kCorrupt);
}

}  // namespace
}  // namespace lockstep
