#include "io/journal_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "io/temp_dir.h"

namespace lockstep {
namespace {

std::vector<std::string> found(const std::string& path, const std::string& boot) {
  auto journal = JournalFile::open(path, boot);
  EXPECT_TRUE(journal.ok());
  return journal->lines();
}

TEST(JournalFile, LinesOfThisBootComeBack) {
  const TempDir dir;
  const std::string path = dir.path() + "/journal";
  {
    auto journal = JournalFile::open(path, "b1");
    ASSERT_TRUE(journal.ok());
    EXPECT_FALSE(journal->same_boot());
    ASSERT_TRUE(journal->append({"one", "two"}).ok());
    ASSERT_TRUE(journal->append({"three"}).ok());
  }
  {
    auto journal = JournalFile::open(path, "b1");
    EXPECT_TRUE(journal->same_boot());
    EXPECT_EQ(journal->lines(), (std::vector<std::string>{"one", "two", "three"}));
    ASSERT_TRUE(journal->replace({"all of it"}).ok());
    ASSERT_TRUE(journal->append({"more"}).ok());
  }
  EXPECT_EQ(found(path, "b1"), (std::vector<std::string>{"all of it", "more"}));
  EXPECT_TRUE(found(path, "b2").empty());
  EXPECT_TRUE(found(path, "b1").empty());
}

TEST(JournalFile, TornLineIsDroppedAndOverwritten) {
  const TempDir dir;
  const std::string path = dir.path() + "/journal";
  std::ofstream(path) << "boot b1\none\ntwo-and-a-long-half";
  {
    auto journal = JournalFile::open(path, "b1");
    EXPECT_EQ(journal->lines(), std::vector<std::string>{"one"});
    ASSERT_TRUE(journal->append({"2"}).ok());
  }
  EXPECT_EQ(found(path, "b1"), (std::vector<std::string>{"one", "2"}));
}

TEST(JournalFile, GrowthAsksForReplacement) {
  const TempDir dir;
  auto journal = JournalFile::open(dir.path() + "/journal", "b1");
  ASSERT_TRUE(journal->append({std::string(1 << 20, 'x')}).ok());
  ASSERT_TRUE(journal->append({std::string(100, 'x')}).ok());
  EXPECT_TRUE(journal->is_long());
  ASSERT_TRUE(journal->replace({}).ok());
  EXPECT_FALSE(journal->is_long());
}

TEST(JournalFile, NothingIsReadOrWrittenThroughWhatOthersPutThere) {
  const TempDir dir;
  const std::string path = dir.file("journal"), precious = dir.file("precious");
  std::ofstream(precious) << "boot b1\nprecious\n";
  ASSERT_EQ(::symlink("precious", path.c_str()), 0);
  EXPECT_FALSE(JournalFile::open(path, "b1").ok());
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(JournalFile::open(path, "b1").ok()) << "and nobody waits for a writer";
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_EQ(::symlink("precious", (path + ".new").c_str()), 0);
  auto journal = JournalFile::open(path, "b1");
  ASSERT_TRUE(journal.ok());
  ASSERT_TRUE(journal->append({"ours"}).ok());
  EXPECT_EQ(found(precious, "b1"), std::vector<std::string>{"precious"});
  struct stat made {};
  ASSERT_EQ(::stat(path.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0600u);
}

TEST(JournalFile, FolderThatIsNotThere) { EXPECT_FALSE(JournalFile::open("/no/such/folder/journal", "b").ok()); }

}  // namespace
}  // namespace lockstep
