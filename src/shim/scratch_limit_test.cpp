// Limits of directories, on file systems in files.
#include "shim/scratch_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <string>

#include "base/text.h"
#include "shim/remove_tree.h"

namespace lockstep {
namespace {

class ScratchLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0)
      GTEST_SKIP() << "file systems are mounted by root";
    char name[] = "/tmp/lockstep-limit-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
  }
  void TearDown() override {
    if (dir_.empty())
      return;
    if (directory_ >= 0)
      ::close(directory_);
    ::umount2((dir_ + "/m").c_str(), MNT_DETACH);
    EXPECT_EQ(::system(("rm -rf " + dir_).c_str()), 0);
  }

  // False: this machine has none of it, and why was said.
  bool make(const std::string& format_it, const std::string& type, const std::string& options,
            const std::string& then) {
    const std::string command = "cd " + dir_ + " && truncate -s 400M f && mkdir m && " + format_it +
                                " f > log 2>&1 && mount -t " + type + " -o loop" + options + " f m >> log 2>&1" +
                                (then.empty() ? "" : " && " + then + " m >> log 2>&1");
    if (::system(command.c_str()) != 0)
      return false;
    directory_ = ::open((dir_ + "/m").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return directory_ >= 0;
  }
  // Megabytes that go into a file there, until none does or there are 60.
  int room(const std::string& folder) const {
    const int fd = ::open((dir_ + "/m/" + folder + "/big").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const std::string block(1 << 20, 'x');
    int written = 0;
    while (written < 60 && ::write(fd, block.data(), block.size()) == static_cast<ssize_t>(block.size()) &&
           ::fsync(fd) == 0)
      ++written;
    ::close(fd);
    return written;
  }
  void expect_held(ScratchLimit how) {
    const auto tried = try_scratch_limit(directory_);
    ASSERT_TRUE(tried.ok()) << tried.error().message;
    EXPECT_EQ(*tried, how);
    EXPECT_EQ(::access((dir_ + "/m/.trial").c_str(), F_OK), -1);
    for (const int round : {1, 2}) {
      const auto made = make_scratch(directory_, "12-1", 20);
      ASSERT_TRUE(made.ok()) << made.error().message;
      EXPECT_EQ(*made, how);
      EXPECT_FALSE(make_scratch(directory_, "12-1", 20).ok());
      EXPECT_GE(room("12-1"), 15) << round;
      EXPECT_LE(room("12-1"), 20) << round;
      ASSERT_TRUE(make_scratch(directory_, "13-1", 0).ok());
      EXPECT_EQ(room("13-1"), 60);
      for (const char* name : {"12-1", "13-1"})
        EXPECT_TRUE(drop_scratch(directory_, name) || remove_tree(directory_, name).ok()) << name;
      EXPECT_EQ(::access((dir_ + "/m/12-1").c_str(), F_OK), -1);
    }
  }

  std::string dir_;
  int directory_ = -1;
};

TEST_F(ScratchLimitTest, ASubvolumeOfBtrfs) {
  if (!make("mkfs.btrfs -q", "btrfs", "", "btrfs quota enable"))
    GTEST_SKIP() << "no btrfs in a file here (btrfs-progs, loop devices, the kernel's btrfs)";
  expect_held(ScratchLimit::kSubvolume);
}

TEST_F(ScratchLimitTest, AProjectOfExt4) {
  if (!make("mkfs.ext4 -q -O quota,project", "ext4", ",prjquota", ""))
    GTEST_SKIP() << "no ext4 with project quotas in a file here (e2fsprogs, loop devices, the kernel's quotas)";
  expect_held(ScratchLimit::kProject);
}

TEST_F(ScratchLimitTest, AProjectOfXfs) {
  if (!make("mkfs.xfs -q", "xfs", ",prjquota", ""))
    GTEST_SKIP() << "no XFS with project quotas in a file here (xfsprogs, loop devices, the kernel's quotas)";
  expect_held(ScratchLimit::kProject);
}

TEST_F(ScratchLimitTest, WithoutQuotasThereIsNoLimit) {
  if (!make("mkfs.btrfs -q", "btrfs", "", ""))
    GTEST_SKIP() << "no btrfs in a file here (btrfs-progs, loop devices, the kernel's btrfs)";
  const auto tried = try_scratch_limit(directory_);
  ASSERT_TRUE(tried.ok());
  EXPECT_EQ(*tried, ScratchLimit::kNone);
}

}  // namespace
}  // namespace lockstep
