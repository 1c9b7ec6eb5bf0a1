// A job's places, made and removed for real; what needs root says so where it is not.
#include "shim/job_place.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "base/text.h"
#include "model/own_tmp.h"
#include "shim/job_place_files.h"
#include "shim/remove_tree.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kStranger = 77'123;  // whom no database of a machine knows

std::string contents_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

class JobPlaceTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-place-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    ::chmod(name, 0755);
    for (const char* part : {"/places", "/scratch", "/work"}) ASSERT_EQ(::mkdir((dir_ + part).c_str(), 0755), 0);
    if (::geteuid() == 0) {
      ASSERT_EQ(::mount((dir_ + "/places").c_str(), (dir_ + "/places").c_str(), nullptr, MS_BIND, nullptr), 0);
      ASSERT_EQ(::mount(nullptr, (dir_ + "/places").c_str(), nullptr, MS_PRIVATE, nullptr), 0);
    }
  }
  void TearDown() override {
    if (::geteuid() == 0)
      ::umount2((dir_ + "/places").c_str(), MNT_DETACH);
    ASSERT_EQ(::system(("rm -rf " + dir_).c_str()), 0);
  }

  std::string folder() const { return dir_ + "/places/12-1"; }
  std::string scratch() const { return dir_ + "/scratch/12-1"; }
  JobPlace place() const {
    JobPlace place;
    place.uid = place.gid = ::geteuid() == 0 ? kStranger : ::geteuid();
    if (::geteuid() != 0)
      place.gid = ::getegid();
    place.scratch = scratch();
    place.apart = place.private_tmp = ::geteuid() == 0;
    place.memory_mb = 16;
    place.work_dir = dir_ + "/work";
    place.user_name = "stranger";
    place.user_home = "/home/stranger";
    return place;
  }
  OpenPlace open(const JobPlace& place) {
    EXPECT_TRUE(note_job_place(folder(), place).ok());
    auto opened = open_job_place(folder());
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return opened.ok() ? *opened : OpenPlace{};
  }
  // What runs inside as the user; its exit code.
  static int inside(const OpenPlace& opened, const std::function<int()>& body, std::uint32_t uid = kStranger) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setns(opened.mounts, CLONE_NEWNS) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0)
        ::_exit(99);
      ::_exit(body());
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
  static void close(const OpenPlace& opened) {
    for (const int fd : {opened.mounts, opened.ipc, opened.outside})
      if (fd >= 0)
        ::close(fd);
  }
  bool is_there(const std::string& path) const { return ::access(path.c_str(), F_OK) == 0; }

  std::string dir_;
};

#define NEEDS_ROOT()    \
  if (::geteuid() != 0) \
  GTEST_SKIP() << "mount namespaces of jobs are made by root"

TEST(JobPlaceNote, ComesBackAsItWas) {
  JobPlace place;
  place.uid = 4'000'000'000;
  place.gid = 7;
  place.groups = {7, 8};
  place.scratch = "/s/12-1";
  place.scratch_mb = 100;
  place.apart = place.private_tmp = true;
  place.tmpfs_mb = 5;
  place.memory_mb = 6;
  place.work_dir = "/home/a b=c";
  place.shown = {"/tmp/x"};
  place.user_name = "ann";
  place.user_home = "/home/ann";
  place.user_shell = "/bin/zsh";
  const auto read = decode_job_place(encode_job_place(place));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, place);
  EXPECT_FALSE(decode_job_place("").ok());
  EXPECT_FALSE(decode_job_place("scratch=/etc").ok());
  EXPECT_EQ(place_name(JobId{12}, 1), "12-1");
  EXPECT_EQ(parse_place_name("12-1"), std::pair(JobId{12}, AttemptNo{1}));
  for (const char* name : {"", "12", "12-1-batch", "../12-1", "x-1", "12-1/"})
    EXPECT_FALSE(parse_place_name(name)) << name;
}

TEST(JobPlaceNote, TasksAreTold) {
  std::vector<std::string> env{"A=b", std::string(kTmpfsVariable) + "=5"};
  tell_place({.scratch = "/s/12-1/scratch"}, env);
  EXPECT_EQ(env, (std::vector<std::string>{"A=b", "LOCKSTEP_SCRATCH=/s/12-1/scratch", "SLURM_TMPDIR=/s/12-1/scratch"}));
}

TEST_F(JobPlaceTest, WithoutANoteThereIsNone) {
  const auto opened = open_job_place(folder());
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->mounts, -1);
  EXPECT_EQ(opened->scratch, "");
}

TEST_F(JobPlaceTest, ScratchIsTheUsersAndClosed) {
  JobPlace plain = place();
  plain.apart = plain.private_tmp = false;
  const OpenPlace opened = open(plain);
  EXPECT_EQ(opened.mounts, -1);
  struct stat stat {};
  ASSERT_EQ(::stat(opened.scratch.c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777, 0700u);
  EXPECT_EQ(stat.st_uid, plain.uid);
  EXPECT_TRUE(remove_job_place(folder(), scratch()).ok());
  EXPECT_FALSE(is_there(folder()) || is_there(scratch()));
}

TEST_F(JobPlaceTest, TmpAndSharedMemoryAreItsOwn) {
  NEEDS_ROOT();
  const OpenPlace opened = open(place());
  std::ofstream(dir_ + "/work/input") << "words";
  ASSERT_EQ(::mkdir((dir_ + "/scratch/13-1").c_str(), 0700), 0);  // another job's
  const std::string mine = format("/lockstep-{}-mine", ::getpid());
  EXPECT_EQ(inside(opened,
                   [&] {
                     struct statvfs memory {};
                     std::ofstream("/tmp" + mine) << "x";
                     std::ofstream("/var/tmp" + mine) << "y";
                     std::ofstream("/dev/shm" + mine) << "z";
                     return !is_there("/tmp" + mine) || !is_there("/var/tmp" + mine)                               ? 1
                            : contents_of(dir_ + "/work/input") != "words"                                         ? 2
                            : !is_there(scratch() + "/scratch") || is_there(dir_ + "/scratch/13-1")                ? 3
                            : ::statvfs("/dev/shm", &memory) != 0 || memory.f_blocks * memory.f_frsize != 16 << 20 ? 4
                                                                                                                   : 0;
                   }),
            0);
  for (const std::string& path : {"/tmp" + mine, "/var/tmp" + mine, "/dev/shm" + mine})
    EXPECT_FALSE(is_there(path)) << path;
  // The next to come finds the same, and another user finds nothing by its name on the node.
  const OpenPlace again = open(place());
  EXPECT_EQ(
      inside(again, [&] { return contents_of("/tmp" + mine) == "x" && contents_of("/dev/shm" + mine) == "z" ? 0 : 1; }),
      0);
  const pid_t other = ::fork();
  if (other == 0)
    ::_exit(::setuid(kStranger + 1) == 0 && ::access((scratch() + "/private").c_str(), R_OK | X_OK) != 0 &&
                    ::access((scratch() + "/scratch").c_str(), R_OK | X_OK) != 0
                ? 0
                : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
  close(opened);
  close(again);
  EXPECT_TRUE(remove_job_place(folder(), scratch()).ok());
  EXPECT_FALSE(is_there(folder()) || is_there(scratch()));
  EXPECT_EQ(contents_of("/proc/self/mountinfo").find("places/12-1"), std::string::npos);
}

TEST_F(JobPlaceTest, TmpInMemoryIsBounded) {
  NEEDS_ROOT();
  JobPlace wanted = place();
  wanted.private_tmp = false;
  wanted.tmpfs_mb = 2;
  const OpenPlace opened = open(wanted);
  EXPECT_EQ(inside(opened,
                   [] {
                     const int fd = ::open("/tmp/big", O_WRONLY | O_CREAT, 0600);
                     const std::string block(1 << 20, 'x');
                     int written = 0;
                     while (::write(fd, block.data(), block.size()) == static_cast<ssize_t>(block.size())) ++written;
                     return errno == ENOSPC ? written : 50;
                   }),
            2);
  close(opened);
  EXPECT_TRUE(remove_job_place(folder(), scratch()).ok());
}

TEST_F(JobPlaceTest, AWorkingDirectoryIsShownWithItsUsersRightsOnly) {
  NEEDS_ROOT();
  ASSERT_EQ(::mkdir((dir_ + "/closed").c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((dir_ + "/closed/inner").c_str(), 0755), 0);
  JobPlace wanted = place();
  wanted.work_dir = dir_ + "/closed/inner";
  const OpenPlace opened = open(wanted);
  EXPECT_EQ(inside(
                opened, [&] { return is_there(dir_ + "/closed") ? 1 : 0; }, 0),
            0);
  close(opened);
  EXPECT_TRUE(remove_job_place(folder(), scratch()).ok());
}

TEST_F(JobPlaceTest, ProcessesOfOthersAreNotSeen) {
  NEEDS_ROOT();
  const OpenPlace opened = open(place());
  const std::string ours = format("/proc/{}", ::getpid());
  EXPECT_TRUE(is_there(ours));
  EXPECT_EQ(inside(opened, [&] { return is_there("/proc/1") || is_there(ours) || !is_there("/proc/self/stat"); }), 0);
  EXPECT_EQ(inside(
                opened, [&] { return is_there(ours) ? 0 : 1; }, 0),
            0);
  close(opened);
  EXPECT_TRUE(remove_job_place(folder(), scratch()).ok());
}

TEST_F(JobPlaceTest, AnUnknownUserHasAName) {
  NEEDS_ROOT();
  JobPlace wanted = place();
  wanted.groups = {kStranger, kStranger + 5};
  const std::string before = contents_of("/etc/passwd");
  const OpenPlace opened = open(wanted);
  EXPECT_EQ(
      inside(opened,
             [] {
               return ::system(
                          "test \"$(id -un) $(id -gn) $(whoami)\" = 'stranger stranger stranger' && "
                          "test \"$(getent group 77128)\" = group77128:x:77128: && "
                          "test \"$(getent passwd stranger)\" = stranger:x:77123:77123::/home/stranger:/bin/sh && "
                          "getent passwd root > /dev/null") == 0
                          ? 0
                          : 1;
             }),
      0);
  EXPECT_EQ(inside(
                opened, [] { return ::open("/etc/passwd", O_WRONLY) < 0 && errno == EROFS ? 0 : 1; }, 0),
            0);
  EXPECT_EQ(contents_of("/etc/passwd"), before);
  close(opened);
  EXPECT_TRUE(remove_job_place(folder(), scratch()).ok());
}

TEST_F(JobPlaceTest, AKnownUserKeepsTheNodesFiles) {
  NEEDS_ROOT();
  JobPlace wanted = place();
  wanted.uid = wanted.gid = 0;
  const OpenPlace opened = open(wanted);
  EXPECT_FALSE(is_there(folder() + "/passwd"));
  close(opened);
  EXPECT_TRUE(remove_job_place(folder(), scratch()).ok());
}

class SomeNames final : public NameSource {
 public:
  explicit SomeNames(std::vector<std::string> known) : known_(std::move(known)) {}
  bool knows(const char* database, const std::string& key) const override {
    return std::find(known_.begin(), known_.end(), std::string(database) + " " + key) != known_.end();
  }

 private:
  std::vector<std::string> known_;
};

TEST(JobPlaceFiles, NamesOfOthersAreNotTaken) {
  JobPlace place;
  place.uid = 5000;
  place.gid = 6000;
  place.groups = {27};
  place.user_name = "admin";
  place.user_home = "/home/admin";
  place.user_shell = "/bin/bash";
  EXPECT_EQ(missing_passwd_line(place, SomeNames({})), "admin:x:5000:6000::/home/admin:/bin/bash\n");
  EXPECT_EQ(missing_passwd_line(place, SomeNames({"passwd 5000"})), "");
  EXPECT_EQ(missing_passwd_line(place, SomeNames({"passwd admin"})), "user5000:x:5000:6000::/home/admin:/bin/bash\n");
  EXPECT_EQ(missing_group_lines(place, SomeNames({"group 27", "group admin"})), "group6000:x:6000:\n");
  EXPECT_EQ(missing_group_lines(place, SomeNames({})), "group27:x:27:\nadmin:x:6000:\n");
}

TEST(JobPlaceFiles, WordsThatWouldBreakALineAreLeftOut) {
  JobPlace place;
  place.uid = 5000;
  place.gid = 6000;
  for (const char* name :
       {"", "a:0:0", "a\nroot:x:0:0", "-x", "1234", "a b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    place.user_name = name;
    place.user_home = "/h:x";
    place.user_shell = "/bin/sh\nroot::0:0";
    EXPECT_EQ(missing_passwd_line(place, SomeNames({})), "user5000:x:5000:6000::/:/bin/sh\n") << name;
  }
}

TEST_F(JobPlaceTest, ATreeIsRemovedAndNothingElse) {
  const std::string outside = dir_ + "/work/kept";
  std::ofstream(outside) << "kept";
  // Deeper than a path or the descriptors of a process go, with links that lead out.
  ASSERT_EQ(
      ::system(("mkdir " + scratch() + " && cd " + scratch() + " && ln -s " + dir_ + "/work out && ln " + outside +
                " hard && mkfifo pipe && mkdir closed && touch closed/x && chmod 0 closed && "
                "d=a/b/c/d/e/f/g/h/i/j && for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; "
                "do mkdir -p $d && cd -P $d && ln -s .. up && touch file; done")
                   .c_str()),
      0);
  const int above = ::open((dir_ + "/scratch").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const auto removed = remove_tree(above, "12-1");
  EXPECT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_TRUE(remove_tree(above, "12-1").ok());
  ::close(above);
  EXPECT_FALSE(is_there(scratch()));
  EXPECT_EQ(contents_of(outside), "kept");
}

TEST_F(JobPlaceTest, WhatIsMountedInATreeIsNotEntered) {
  NEEDS_ROOT();
  ASSERT_EQ(::system(("mkdir -p " + scratch() + "/mnt && touch " + dir_ + "/work/kept").c_str()), 0);
  ASSERT_EQ(::mount((dir_ + "/work").c_str(), (scratch() + "/mnt").c_str(), nullptr, MS_BIND, nullptr), 0);
  const int above = ::open((dir_ + "/scratch").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_FALSE(remove_tree(above, "12-1").ok());
  ASSERT_EQ(::umount((scratch() + "/mnt").c_str()), 0);
  EXPECT_TRUE(is_there(dir_ + "/work/kept"));
  EXPECT_TRUE(remove_tree(above, "12-1").ok());
  ::close(above);
}

}  // namespace
}  // namespace lockstep
