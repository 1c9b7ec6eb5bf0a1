#include "shim/tree_copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "shim/stage_program.h"

namespace lockstep {
namespace {

std::string in_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class TreeCopyTest : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/tree-copy-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    top_ = path;
    for (const char* name : {"/from", "/from/a", "/scratch"}) ::mkdir((top_ + name).c_str(), 0755);
  }
  void TearDown() override { std::system(("chmod -R u+rwx " + top_ + "; rm -rf " + top_).c_str()); }

  void write(const std::string& name, const std::string& text, mode_t mode = 0644) const {
    std::ofstream(top_ + name, std::ios::binary) << text;
    ::chmod((top_ + name).c_str(), mode);
  }
  // Into the scratch, as a stage-in does.
  Result<void> in(const std::string& from, const std::string& to) {
    return copy_.copy({.from = top_ + from, .to = to, .from_below = {}, .to_below = top_ + "/scratch"}, false);
  }
  Result<void> out(const std::string& from, const std::string& to) {
    return copy_.copy({.from = from, .to = top_ + to, .from_below = top_ + "/scratch", .to_below = {}}, false);
  }
  struct stat facts(const std::string& name) const {
    struct stat got {};
    EXPECT_EQ(::lstat((top_ + name).c_str(), &got), 0) << name;
    return got;
  }

  std::string top_;
  TreeCopy copy_{CopyFault::kEnds, [](const CopyCount&) {}};
};

TEST_F(TreeCopyTest, FilesKeepModesTimesAndLinks) {
  write("/from/a/run", "#!/bin/sh\n", 0750);
  const timespec times[2] = {{1000, 5}, {2000, 123456789}};
  ::utimensat(AT_FDCWD, (top_ + "/from/a/run").c_str(), times, 0);
  ASSERT_EQ(::symlink("/etc/shadow", (top_ + "/from/a/secret").c_str()), 0);
  ASSERT_EQ(::mkfifo((top_ + "/from/a/pipe").c_str(), 0600), 0);
  ::chmod((top_ + "/from/a").c_str(), 0555);
  ASSERT_TRUE(in("/from", "data").ok());
  EXPECT_EQ(in_file(top_ + "/scratch/data/a/run"), "#!/bin/sh\n");
  EXPECT_EQ(facts("/scratch/data/a/run").st_mode & 07777, 0750u);
  EXPECT_EQ(facts("/scratch/data/a/run").st_mtim.tv_nsec, 123456789);
  EXPECT_EQ(facts("/scratch/data/a").st_mode & 07777, 0555u);
  EXPECT_TRUE(S_ISLNK(facts("/scratch/data/a/secret").st_mode));
  EXPECT_NE(::access((top_ + "/scratch/data/a/pipe").c_str(), F_OK), 0);
  EXPECT_EQ(copy_.passed_over(), 1);
  EXPECT_EQ(copy_.done().files, 2);
  const auto counted = copy_.measure({.from = top_ + "/from", .to = "x", .from_below = {}, .to_below = top_});
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(counted->files, 2);
  EXPECT_EQ(counted->bytes, 10);
}

TEST_F(TreeCopyTest, HolesStayHoles) {
  const int fd = ::open((top_ + "/from/sparse").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(::pwrite(fd, "middle", 6, 100 << 20), 6);
  ASSERT_EQ(::ftruncate(fd, 200 << 20), 0);
  ::close(fd);
  if (facts("/from/sparse").st_blocks > 1 << 14)
    GTEST_SKIP() << "this file system keeps no holes";
  ASSERT_TRUE(in("/from/sparse", "sparse").ok());
  EXPECT_EQ(facts("/scratch/sparse").st_size, 200 << 20);
  EXPECT_LT(facts("/scratch/sparse").st_blocks, 1 << 14);
  EXPECT_EQ(in_file(top_ + "/scratch/sparse").substr(100 << 20, 6), "middle");
  EXPECT_EQ(copy_.done().bytes, 200 << 20);
}

TEST_F(TreeCopyTest, WhatIsThereIsNotCopiedAgainAndWhatWasBegunGoesOn) {
  write("/from/a/one", std::string(5 << 20, 'x'));
  ASSERT_TRUE(in("/from", "d").ok());
  const ino_t before = facts("/scratch/d/a/one").st_ino;
  ASSERT_TRUE(in("/from", "d").ok());
  EXPECT_EQ(facts("/scratch/d/a/one").st_ino, before);
  write("/from/a/one", std::string(5 << 20, 'y'));
  ASSERT_TRUE(in("/from", "d").ok());
  EXPECT_EQ(in_file(top_ + "/scratch/d/a/one"), std::string(5 << 20, 'y'));
  EXPECT_EQ(std::system(("test -z \"$(find " + top_ + " -name '.lockstep-part*')\"").c_str()), 0) << "no part is left";
}

TEST_F(TreeCopyTest, AFileBecomesTheNameOrLiesInADirectory) {
  write("/from/f", "1");
  ASSERT_TRUE(in("/from/f", "new/name").ok());
  EXPECT_EQ(in_file(top_ + "/scratch/new/name"), "1");
  ASSERT_TRUE(in("/from/f", "new").ok());
  EXPECT_EQ(in_file(top_ + "/scratch/new/f"), "1");
  ASSERT_TRUE(in("/from/f", "other/").ok());
  EXPECT_EQ(in_file(top_ + "/scratch/other/f"), "1");
  ASSERT_TRUE(in("/from/f", ".").ok());
  EXPECT_EQ(in_file(top_ + "/scratch/f"), "1");
  ASSERT_TRUE(out("new", "/kept/deep").ok());
  EXPECT_EQ(in_file(top_ + "/kept/deep/name"), "1");
}

TEST_F(TreeCopyTest, PipesAndDevicesAreNotReplaced) {
  write("/scratch/f", "1");
  ASSERT_EQ(::symlink("f", (top_ + "/scratch/link").c_str()), 0);
  ASSERT_EQ(::mkfifo((top_ + "/pipe").c_str(), 0600), 0);
  for (const char* name : {"f", "link"}) {
    const auto copied = out(name, "/pipe");
    ASSERT_FALSE(copied.ok());
    EXPECT_NE(copied.error().message.find("a device, a pipe or a socket is there"), std::string::npos)
        << copied.error().message;
  }
  struct stat facts {};
  ASSERT_EQ(::stat((top_ + "/pipe").c_str(), &facts), 0);
  EXPECT_TRUE(S_ISFIFO(facts.st_mode));
}

TEST_F(TreeCopyTest, ADirectoryIsNotCopiedIntoItself) {
  write("/from/a/x", "1");
  for (const char* name : {"", "/scratch"}) {
    const auto copied = in(name, "copy");
    ASSERT_FALSE(copied.ok()) << name;
    EXPECT_NE(copied.error().message.find("a directory cannot be copied into itself"), std::string::npos)
        << copied.error().message;
    EXPECT_LT(copied.error().message.size(), 200u);
    EXPECT_NE(::access((top_ + "/scratch/copy/copy/copy").c_str(), F_OK), 0);
    EXPECT_NE(::access((top_ + "/scratch/copy/scratch/copy/scratch").c_str(), F_OK), 0);
  }
}

TEST_F(TreeCopyTest, NoLinkLeadsOutOfTheScratch) {
  write("/from/f", "1");
  ASSERT_EQ(::symlink((top_ + "/from").c_str(), (top_ + "/scratch/link").c_str()), 0);
  EXPECT_FALSE(in("/from/f", "link/x").ok());
  EXPECT_NE(::access((top_ + "/from/x").c_str(), F_OK), 0);
  EXPECT_FALSE(out("link/f", "/got").ok());
  EXPECT_NE(::access((top_ + "/got").c_str(), F_OK), 0);
  ASSERT_TRUE(out("link", "/as-link").ok()) << "the link itself is what lies there";
  EXPECT_TRUE(S_ISLNK(facts("/as-link").st_mode));
  // What is in the way is replaced, and not written through.
  write("/victim", "keep");
  ASSERT_EQ(::symlink((top_ + "/victim").c_str(), (top_ + "/scratch/g").c_str()), 0);
  ASSERT_TRUE(in("/from/f", "g").ok());
  EXPECT_EQ(in_file(top_ + "/victim"), "keep");
  EXPECT_TRUE(S_ISREG(facts("/scratch/g").st_mode));
}

TEST_F(TreeCopyTest, ErrorsSayWhetherAnotherTryMayHelp) {
  const auto gone = in("/from/none", "x");
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().code, Errc::kUnavailable);
  EXPECT_EQ(gone.error().message, top_ + "/from/none: No such file or directory");
  EXPECT_EQ(out("none", "/x").error().code, Errc::kNotFound) << "nobody else makes it";
  const auto device = in("/../../dev/null", "x");
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().message.find("neither a file nor a directory"), std::string::npos) << device.error().message;
  write("/scratch/file", "");
  EXPECT_FALSE(in("/from", "file").ok());
}

TEST_F(TreeCopyTest, WhatCannotBeCopiedIsPassedByWhereTheRestWouldGo) {
  ::mkdir((top_ + "/scratch/o").c_str(), 0755);
  for (const char* name : {"/scratch/o/a", "/scratch/o/b", "/scratch/o/c"}) write(name, "x");
  ::mkdir((top_ + "/to").c_str(), 0755);
  ::mkdir((top_ + "/to/b").c_str(), 0755);
  TreeCopy copy(CopyFault::kPassedBy, [](const CopyCount&) {});
  const auto out = [&](const std::string& from, const std::string& to) {
    return copy.copy({.from = from, .to = top_ + to, .from_below = top_ + "/scratch", .to_below = {}}, false);
  };
  EXPECT_TRUE(out("none", "/none").ok());
  EXPECT_TRUE(out("o", "/to").ok());
  EXPECT_EQ(in_file(top_ + "/to/a") + in_file(top_ + "/to/c"), "xx");
  EXPECT_EQ(copy.left_behind(), 2);
  EXPECT_EQ(copy.first_left(), top_ + "/scratch/none: there is no such file or directory");
}

TEST_F(TreeCopyTest, AFileThatAnotherHasBegunIsNotGoneOnWith) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root gives files away";
  write("/from/key", "secret");
  struct stat facts {};
  ASSERT_EQ(::stat((top_ + "/from/key").c_str(), &facts), 0);
  const std::string part = part_name("key", facts);
  write("/scratch/" + part, "", 0666);
  ::chown((top_ + "/scratch/" + part).c_str(), 2001, 2001);
  const auto copied = in("/from/key", "key");
  ASSERT_FALSE(copied.ok());
  EXPECT_NE(copied.error().message.find(part + " is in the way"), std::string::npos) << copied.error().message;
  EXPECT_EQ(in_file(top_ + "/scratch/" + part), "");
}

TEST_F(TreeCopyTest, AnotherFileSystemWithinIsNamed) {
  if (::geteuid() != 0 || ::mount("none", (top_ + "/from/a").c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "only root mounts file systems";
  const auto copied = in("/from", "x");
  ::umount2((top_ + "/from/a").c_str(), MNT_DETACH);
  ASSERT_FALSE(copied.ok());
  EXPECT_EQ(copied.error().code, Errc::kInvalid);
  EXPECT_EQ(copied.error().message.find(top_ + "/from/a: another file system"), 0u) << copied.error().message;
}

TEST(StageWords, AreReadAsTheyWereWritten) {
  const auto word = decode_stage_word(encode_stage_word({1, 2, 3, 4, {}}));
  ASSERT_TRUE(word);
  EXPECT_EQ(word->bytes_total, 2);
  EXPECT_EQ(word->files_done, 3);
  EXPECT_EQ(decode_stage_word("failed /x: no")->failure, "/x: no");
  for (const char* bad :
       {"", "failed ", "progress 1 2 3", "progress 1 2 3 -4", "progress a b c d", "progress 1 2 3 4 5"})
    EXPECT_FALSE(decode_stage_word(bad)) << bad;
}

TEST(StageWords, SizesAreForPeople) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{10} << 30), "10.0 GiB");
}

}  // namespace
}  // namespace lockstep
