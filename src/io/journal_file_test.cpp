#include "io/journal_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

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

TEST(JournalFile, FolderThatIsNotThere) { EXPECT_FALSE(JournalFile::open("/no/such/folder/journal", "b").ok()); }

}  // namespace
}  // namespace lockstep
