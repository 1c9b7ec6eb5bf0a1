#include "io/journal_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "io/temp_dir.h"

namespace lockstep {
namespace {

using Lines = std::vector<std::string>;
using State = JournalFile::State;

std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class JournalFileTest : public testing::Test {
 protected:
  Result<JournalFile> try_open(const std::string& boot = "b1") {
    return JournalFile::open(path_, dir_.file("journal.tip"), boot);
  }
  JournalFile open(const std::string& boot = "b1") {
    auto journal = try_open(boot);
    EXPECT_TRUE(journal.ok());
    return std::move(*journal);
  }
  void write(const Lines& lines) {
    auto journal = open();
    for (const auto& line : lines) ASSERT_TRUE(journal.append({line}).ok());
  }
  void put(const std::string& bytes) { std::ofstream(path_, std::ios::trunc) << bytes; }

  const TempDir dir_;
  const std::string path_ = dir_.path() + "/journal";
};

TEST_F(JournalFileTest, LinesOfThisBootComeBack) {
  {
    auto journal = open();
    EXPECT_EQ(journal.state(), State::kNewBoot);
    ASSERT_TRUE(journal.append({"one", "two"}).ok());
    ASSERT_TRUE(journal.append({"three"}).ok());
  }
  {
    auto journal = open();
    EXPECT_EQ(journal.state(), State::kWhole) << journal.damage();
    EXPECT_EQ(journal.lines(), (Lines{"one", "two", "three"}));
    ASSERT_TRUE(journal.replace({"all of it"}).ok());
    ASSERT_TRUE(journal.append({"more"}).ok());
  }
  EXPECT_EQ(open().lines(), (Lines{"all of it", "more"}));
  {
    const auto journal = open("b2");
    EXPECT_EQ(journal.state(), State::kNewBoot);
    EXPECT_TRUE(journal.lines().empty());
    ASSERT_EQ(journal.older().size(), 3u) << "what another boot has left, its head first";
    EXPECT_EQ(journal.older()[1], "all of it");
    EXPECT_EQ(journal.older()[2], "more");
  }
  EXPECT_TRUE(open("b2").lines().empty());
}

TEST_F(JournalFileTest, ATornLineIsAnOrdinaryEnd) {
  write({"one"});
  const std::string whole = contents(path_);
  for (const char* torn : {"2", "2 0123", "2 01234567 half of a long line", "\xff\xfe"}) {
    put(whole + torn);
    auto journal = open();
    EXPECT_EQ(journal.state(), State::kWhole) << journal.damage();
    EXPECT_EQ(journal.lines(), Lines{"one"});
  }
  {
    auto journal = open();
    ASSERT_TRUE(journal.append({"2"}).ok());
  }
  EXPECT_EQ(open().lines(), (Lines{"one", "2"}));
}

TEST_F(JournalFileTest, EveryFlippedBitIsNoticedAndCostsOneLine) {
  write({"one", "two", "three"});
  const std::string whole = contents(path_);
  const std::size_t header = whole.find('\n');
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    put(bad);
    const auto journal = open();
    EXPECT_NE(journal.state(), State::kNewBoot) << at;
    EXPECT_EQ(journal.state(), State::kDamaged) << at;
    EXPECT_NE(journal.damage().find(path_), std::string::npos);
    EXPECT_GE(journal.lines().size(), at < header ? 3u : 1u) << at << ": the others are still good";
    EXPECT_EQ(contents(path_), bad) << "left alone until it is replaced";
  }
}

TEST_F(JournalFileTest, WhatIsMissingIsNoticed) {
  write({"one", "two", "three"});
  const std::string whole = contents(path_);
  // Cut off anywhere, also between two lines; emptied; a line taken out.
  for (std::size_t size = 0; size + 1 < whole.size(); ++size) {
    put(whole.substr(0, size));
    EXPECT_EQ(open().state(), State::kDamaged) << size;
  }
  const std::size_t two = whole.find("\n2 ") + 1, three = whole.find("\n3 ") + 1;
  put(whole.substr(0, two) + whole.substr(three));
  EXPECT_EQ(open().state(), State::kDamaged);
  EXPECT_EQ(open().lines(), (Lines{"one", "three"}));
  ::unlink(path_.c_str());
  const auto journal = open();
  EXPECT_EQ(journal.state(), State::kDamaged);
  EXPECT_NE(journal.damage().find("is missing"), std::string::npos);
}

TEST_F(JournalFileTest, AnOlderCopyIsNoTruth) {
  write({"one"});
  const std::string older = contents(path_);
  {
    auto journal = open();
    ASSERT_TRUE(journal.append({"two"}).ok());
    ASSERT_TRUE(journal.replace({"instead"}).ok());
  }
  const std::string newer = contents(path_);
  put(older);
  EXPECT_EQ(open().state(), State::kDamaged);
  put(newer);
  EXPECT_EQ(open().state(), State::kWhole);
  put("17 01234567 lockstep-journal 2 another-boot\n");
  const auto of_other_boot = open();
  EXPECT_EQ(of_other_boot.state(), State::kDamaged) << "an agent has been here in this boot";
  EXPECT_NE(of_other_boot.damage().find("older boot"), std::string::npos);
}

TEST_F(JournalFileTest, DamageIsMendedByReplacing) {
  write({"one", "two"});
  put(contents(path_).substr(0, 50));
  {
    auto journal = open();
    ASSERT_EQ(journal.state(), State::kDamaged);
    EXPECT_FALSE(journal.stands());
    ASSERT_TRUE(journal.replace({"found again"}).ok());
    EXPECT_TRUE(journal.stands());
  }
  const auto journal = open();
  EXPECT_EQ(journal.state(), State::kWhole) << journal.damage();
  EXPECT_EQ(journal.lines(), Lines{"found again"});
}

TEST_F(JournalFileTest, WhatHappensToItMeanwhileIsSeen) {
  auto journal = open();
  ASSERT_TRUE(journal.append({"one"}).ok());
  EXPECT_TRUE(journal.stands());
  ::unlink(path_.c_str());
  EXPECT_FALSE(journal.stands());
  put("somebody's");
  EXPECT_FALSE(journal.stands());
  ASSERT_TRUE(journal.replace({"one"}).ok());
  EXPECT_TRUE(journal.stands());
  ASSERT_EQ(::truncate(path_.c_str(), 20), 0);
  EXPECT_FALSE(journal.stands());
}

TEST_F(JournalFileTest, WithoutATipTheLinesSpeakForThemselves) {
  write({"one", "two"});
  ::unlink(dir_.file("journal.tip").c_str());
  EXPECT_EQ(open().state(), State::kWhole);
  ::unlink(dir_.file("journal.tip").c_str());
  ::unlink(path_.c_str());
  EXPECT_EQ(open().state(), State::kNewBoot);
}

TEST_F(JournalFileTest, AJournalOfAnOlderAgentIsTakenOver) {
  put("boot b1\none\ntwo-and-a-long-half");
  {
    const auto journal = open();
    EXPECT_EQ(journal.state(), State::kWhole);
    EXPECT_EQ(journal.lines(), Lines{"one"});
  }
  EXPECT_EQ(contents(path_).find("boot b1\n"), std::string::npos) << "written anew, with checks";
  EXPECT_EQ(open().lines(), Lines{"one"});
}

TEST_F(JournalFileTest, GrowthAsksForReplacement) {
  auto journal = open();
  ASSERT_TRUE(journal.append({std::string(1 << 20, 'x')}).ok());
  ASSERT_TRUE(journal.append({std::string(100, 'x')}).ok());
  EXPECT_TRUE(journal.is_long());
  ASSERT_TRUE(journal.replace({}).ok());
  EXPECT_FALSE(journal.is_long());
  EXPECT_TRUE(journal.has_room());
}

TEST_F(JournalFileTest, NothingIsReadOrWrittenThroughWhatOthersPutThere) {
  const std::string precious = dir_.file("precious");
  std::ofstream(precious) << "precious\n";
  ASSERT_EQ(::symlink("precious", path_.c_str()), 0);
  EXPECT_FALSE(try_open().ok());
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(try_open().ok()) << "and nobody waits for a writer";
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  ASSERT_EQ(::symlink("precious", (path_ + ".new").c_str()), 0);
  ASSERT_EQ(::mkfifo(dir_.file("journal.tip").c_str(), 0600), 0);
  auto journal = open();
  ASSERT_TRUE(journal.append({"ours"}).ok());
  EXPECT_EQ(contents(precious), "precious\n");
  struct stat made {};
  ASSERT_EQ(::stat(path_.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0600u);
}

TEST(JournalFile, FolderThatIsNotThere) {
  EXPECT_FALSE(JournalFile::open("/no/such/folder/journal", "/no/such/folder/tip", "b").ok());
}

}  // namespace
}  // namespace lockstep
