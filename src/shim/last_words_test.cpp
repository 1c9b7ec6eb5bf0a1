// The process that writes last words keeps nothing of the shim's, and ends with it: however long a file takes to open.
#include "shim/last_words.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

namespace lockstep {
namespace {

// A shim of our making, in whose place the writer is forked, and that writer, held where it is about to open its file.
class LastWordsTest : public testing::Test {
 protected:
  void SetUp() override {
    shim_ = ::fork();
    if (shim_ == 0) {
      ::open("/dev/null", O_RDONLY | O_CLOEXEC);  // stands for the record, whose lock says that the shim lives
      ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      ::raise(SIGSTOP);
      ProcessSpec who;
      who.uid = who.gid = ::geteuid() == 0 ? 12345 : ::geteuid();
      who.work_dir = "/tmp";
      (void)append_as_user(who, "lockstep-last-words-test-without-such-a-file", "words\n");
      for (;;) ::pause();
    }
    int status = 0;
    ASSERT_EQ(::waitpid(shim_, &status, 0), shim_);
    ASSERT_TRUE(WIFSTOPPED(status));
    ASSERT_EQ(::ptrace(PTRACE_SETOPTIONS, shim_, nullptr, PTRACE_O_TRACEFORK | PTRACE_O_TRACESYSGOOD), 0);
    ASSERT_EQ(::ptrace(PTRACE_CONT, shim_, nullptr, nullptr), 0);
    ASSERT_EQ(::waitpid(shim_, &status, __WALL), shim_);
    ASSERT_EQ(status >> 8, SIGTRAP | (PTRACE_EVENT_FORK << 8));
    unsigned long forked = 0;
    ASSERT_EQ(::ptrace(PTRACE_GETEVENTMSG, shim_, nullptr, &forked), 0);
    writer_ = static_cast<pid_t>(forked);
    ASSERT_EQ(::waitpid(writer_, &status, __WALL), writer_);
    ASSERT_EQ(::ptrace(PTRACE_CONT, shim_, nullptr, nullptr), 0);
    hold_at_open();
  }
  void TearDown() override {
    for (const pid_t pid : {writer_, shim_})
      if (pid > 0 && ::kill(pid, SIGKILL) == 0)
        ::waitpid(pid, nullptr, __WALL);
  }

  void hold_at_open() {
    for (;;) {
      int status = 0;
      ASSERT_EQ(::ptrace(PTRACE_SYSCALL, writer_, nullptr, nullptr), 0);
      ASSERT_EQ(::waitpid(writer_, &status, __WALL), writer_);
      ASSERT_TRUE(WIFSTOPPED(status)) << "it ended before it opened the file";
      __ptrace_syscall_info info{};
      ASSERT_GT(::ptrace(PTRACE_GET_SYSCALL_INFO, writer_, sizeof info, &info), 0);
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_openat)
        return;
    }
  }

  pid_t shim_ = 0, writer_ = 0;
};

TEST_F(LastWordsTest, TheWriterHasNoneOfTheShimsDescriptors) {
  DIR* const dir = ::opendir(format("/proc/{}/fd", writer_).c_str());
  ASSERT_NE(dir, nullptr);
  while (const dirent* entry = ::readdir(dir))
    if (entry->d_name[0] != '.') {
      EXPECT_LT(::atoi(entry->d_name), 3);
    }
  ::closedir(dir);
}

TEST_F(LastWordsTest, TheWriterEndsWithTheShim) {
  ASSERT_EQ(::kill(shim_, SIGKILL), 0);
  ASSERT_EQ(::waitpid(shim_, nullptr, __WALL), shim_);
  shim_ = 0;
  (void)::ptrace(PTRACE_CONT, writer_, nullptr, nullptr);  // what was not killed goes on, and ends by itself
  int status = 0;
  ASSERT_EQ(::waitpid(writer_, &status, __WALL), writer_);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  writer_ = 0;
}

}  // namespace
}  // namespace lockstep
