// What counts as a shim of a node: its name and its place are anybody's to choose, its user is not.
#include "io/local/node_init.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/temp_dir.h"

namespace lockstep {
namespace {

// A process that is called as shims are, in such a folder, by that user.
class FakeShim {
 public:
  FakeShim(const std::string& folder, uid_t user) {
    int ready[2];
    if (::pipe(ready) != 0)
      return;
    pid_ = ::fork();
    if (pid_ == 0) {
      const bool placed = ::chdir(folder.c_str()) == 0 && (user == ::geteuid() || ::setresuid(user, user, user) == 0);
      ::prctl(PR_SET_NAME, "lockstep-shim");
      if (placed)
        (void)!::write(ready[1], "x", 1);
      for (;;) ::pause();
    }
    char byte;
    ::close(ready[1]);
    is_ready_ = ::read(ready[0], &byte, 1) == 1;
    ::close(ready[0]);
  }
  ~FakeShim() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  bool is_ready() const { return is_ready_; }

 private:
  pid_t pid_ = -1;
  bool is_ready_ = false;
};

class WorkBelow : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
    ASSERT_EQ(::mkdir(folder_.c_str(), 0755), 0);
    ASSERT_EQ(::mkdir((folder_ + "/3-1-batch").c_str(), 0755), 0);
  }
  TempDir dir_;
  std::string folder_ = dir_.file("shims");
};

TEST_F(WorkBelow, AShimIsTheFoldersOwners) {
  const FakeShim shim(folder_ + "/3-1-batch", ::geteuid());
  ASSERT_TRUE(shim.is_ready());
  EXPECT_EQ(work_below(folder_ + "/"), std::vector<std::string>{"3-1-batch"});
}

TEST_F(WorkBelow, WhatAUserCallsSoIsNone) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can be two users";
  const FakeShim fake(folder_ + "/3-1-batch", 4711);
  ASSERT_TRUE(fake.is_ready());
  EXPECT_EQ(work_below(folder_ + "/"), std::vector<std::string>{});
}

}  // namespace
}  // namespace lockstep
