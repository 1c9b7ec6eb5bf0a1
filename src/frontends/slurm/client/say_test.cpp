#include "frontends/slurm/client/say.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::slurm {
namespace {

// In a process of its own, whose standard output is `path`.
[[noreturn]] void speak_into(const char* path, int code, bool by_stdio) {
  const int fd = ::open(path, O_WRONLY);
  ::dup2(fd, STDOUT_FILENO);
  if (by_stdio)
    ::fputs("text", stdout);
  else
    say("text");
  ::_exit(finish("squeue", code));
}

TEST(Say, WhatCouldNotBeWrittenIsAFailure) {
  const char* const words = "squeue: error: standard output could not be written: No space left on device";
  EXPECT_EXIT(speak_into("/dev/full", 0, false), testing::ExitedWithCode(1), words);
  EXPECT_EXIT(speak_into("/dev/full", 0, true), testing::ExitedWithCode(1), words);
  EXPECT_EXIT(speak_into("/dev/full", 5, false), testing::ExitedWithCode(5), words);
  EXPECT_EXIT(speak_into("/dev/null", 0, true), testing::ExitedWithCode(0), "^$");
}

TEST(Say, AReaderThatHasSeenEnoughIsNone) {
  const auto into_a_closed_pipe = [] {
    ::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    if (::pipe(ends) != 0)
      ::_exit(9);
    ::close(ends[0]);
    ::dup2(ends[1], STDOUT_FILENO);
    say("text");
    ::_exit(finish("squeue", 0));
  };
  EXPECT_EXIT(into_a_closed_pipe(), testing::ExitedWithCode(0), "^$");
}

TEST(Say, AnImpatientDescriptorIsWaitedFor) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
  const int room = ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
  const ::pid_t reader = ::fork();
  if (reader == 0) {
    ::close(ends[1]);
    ::fcntl(ends[0], F_SETFL, 0);
    char chunk[1000];
    int got = 0;
    for (ssize_t n; (n = ::read(ends[0], chunk, sizeof chunk)) > 0;) got += static_cast<int>(n);
    ::_exit(got == 5 * 4096 ? 0 : 1);
  }
  EXPECT_TRUE(write_all(ends[1], std::string(5 * static_cast<std::size_t>(room), 'x')));
  ::close(ends[1]);
  int status = -1;
  ::waitpid(reader, &status, 0);
  EXPECT_EQ(status, 0);
  ::close(ends[0]);
}

}  // namespace
}  // namespace lockstep::slurm
