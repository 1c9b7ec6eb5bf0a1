// Nothing of ours is read or written through what others could have put there.
#include "io/local/folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/local/process.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

unsigned mode_of(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
}

Errc refusal(const Result<Folder>& result) { return result.ok() ? Errc::kInternal : result.error().code; }

class FolderTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return dir_.file(name); }
  Folder made(const std::string& name) const { return std::move(*Folder::make(at(name), 0700)); }
  TempDir dir_;
};

TEST_F(FolderTest, ModesAreWhatWasAskedForWhateverTheUmask) {
  const mode_t before = ::umask(0);
  const auto folder = Folder::make(at("a/b/c"), 0711);
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  EXPECT_EQ(mode_of(at("a/b")), 0755u);
  EXPECT_EQ(mode_of(at("a/b/c")), 0711u);
  ASSERT_TRUE(folder->write("secret", "x", 0600).ok());
  EXPECT_EQ(mode_of(at("a/b/c/secret")), 0600u);
  ::umask(077);
  ASSERT_TRUE(folder->write("known", "x", 0644).ok());
  EXPECT_EQ(mode_of(at("a/b/c/known")), 0644u);
  ASSERT_TRUE(folder->folder("open", 0755).ok());
  EXPECT_EQ(mode_of(at("a/b/c/open")), 0755u);
  ::umask(before);
}

TEST_F(FolderTest, TheDirectoryItselfIsNoLink) {
  made("real");
  ASSERT_EQ(::symlink("real", at("link").c_str()), 0);
  EXPECT_EQ(refusal(Folder::open(at("link"))), Errc::kDenied);
  EXPECT_EQ(refusal(Folder::make(at("link"), 0700)), Errc::kDenied);
  // One on the way that we made ourselves leads where we meant.
  made("real/inside");
  EXPECT_TRUE(Folder::open(at("link/inside")).ok());
}

TEST_F(FolderTest, OthersCannotExchangeWhatIsOnTheWay) {
  made("a");
  made("a/b");
  ASSERT_EQ(::chmod(at("a").c_str(), 0777), 0);
  EXPECT_EQ(refusal(Folder::open(at("a/b"))), Errc::kDenied);
  EXPECT_EQ(refusal(Folder::make(at("a/b/c"), 0700)), Errc::kDenied);
  EXPECT_FALSE(Folder::open(at("a/b/c")).ok()) << "made in spite of it";
  ASSERT_EQ(::chmod(at("a").c_str(), 01777), 0);  // as /tmp: only owners rename there
  EXPECT_TRUE(Folder::open(at("a/b")).ok());
}

TEST_F(FolderTest, ForeignDirectoriesAndLinksAreRefused) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give files away";
  made("theirs");
  made("theirs/inside");
  ASSERT_EQ(::chown(at("theirs").c_str(), 12345, 12345), 0);
  EXPECT_EQ(refusal(Folder::open(at("theirs"))), Errc::kDenied);
  EXPECT_EQ(refusal(Folder::open(at("theirs/inside"))), Errc::kDenied);
  made("ours");
  made("ours/inside");
  ASSERT_EQ(::symlink("ours", at("link").c_str()), 0);
  ASSERT_EQ(::lchown(at("link").c_str(), 12345, 12345), 0);
  EXPECT_EQ(refusal(Folder::open(at("link/inside"))), Errc::kDenied);
}

TEST_F(FolderTest, FilesAreNotReadOrWrittenThroughLinks) {
  const Folder folder = made("a");
  ASSERT_TRUE(write_file(at("precious"), "precious", 0600).ok());
  for (const char* name : {"conf", "conf.new"})
    ASSERT_EQ(::symlink("../precious", at("a/" + std::string(name)).c_str()), 0);
  EXPECT_EQ(folder.read("conf").error().code, Errc::kDenied);
  ASSERT_TRUE(folder.write("conf", "ours", 0600).ok());
  EXPECT_EQ(*folder.read("conf"), "ours");
  EXPECT_EQ(*read_file(at("precious")), "precious");
  ASSERT_EQ(::symlink("../precious", at("a/pid").c_str()), 0);
  ASSERT_EQ(::symlink("../precious", at("a/pid.new").c_str()), 0);
  ASSERT_TRUE(write_file(at("a/pid"), "1 1\n").ok());
  EXPECT_EQ(*read_file(at("precious")), "precious");
  EXPECT_EQ(mode_of(at("a/pid")), 0600u);
}

TEST_F(FolderTest, NobodyWaitsForAFifo) {
  const Folder folder = made("a");
  ASSERT_EQ(::mkfifo(at("a/conf").c_str(), 0600), 0);
  EXPECT_EQ(folder.read("conf").error().code, Errc::kDenied);
  EXPECT_TRUE(folder.write("conf", "ours", 0600).ok());
}

TEST_F(FolderTest, WhatIsThereAlreadyIsKept) {
  const Folder folder = made("a");
  ASSERT_TRUE(folder.keep("conf", "text", 0644).ok());
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat(at("a/conf").c_str(), &before), 0);
  ASSERT_TRUE(folder.keep("conf", "text", 0600).ok());
  ASSERT_EQ(::stat(at("a/conf").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(mode_of(at("a/conf")), 0600u);
  ASSERT_TRUE(folder.keep("conf", "other", 0600).ok());
  EXPECT_EQ(*folder.read("conf"), "other");
}

}  // namespace
}  // namespace lockstep
