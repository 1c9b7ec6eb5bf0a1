// A nursery in a process of its own, and this test as the agent whose shims it makes.
#include "shim/nursery.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "shim/process_tree.h"
#include "shim/protocol.h"

namespace lockstep {
namespace {

class NurseryTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-nursery-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    socket_ = ends[0];
    nursery_ = ::fork();
    if (nursery_ == 0) {
      // Words one behind the other, as main's are; the lowest numbers are free for what it is sent.
      static char words[] = "--nursery\0                                        ";
      static char* arguments[] = {words, words + strlen(words) + 1, nullptr};
      const int high = ::fcntl(ends[1], F_DUPFD, 100);
      for (int fd = 3; fd < 100; ++fd) ::close(fd);
      ::_exit(::chdir(dir_.c_str()) == 0 ? run_nursery(high, arguments) : 99);
    }
    ::close(ends[1]);
  }
  void TearDown() override {
    if (socket_ >= 0)
      ::close(socket_);
    if (nursery_ > 0) {
      ::kill(nursery_, SIGKILL);
      ::waitpid(nursery_, nullptr, 0);
    }
    EXPECT_EQ(::system(("rm -rf " + dir_).c_str()), 0);
  }

  // The test's end of a new shim's control channel; -1: the nursery could not be asked.
  int ask(const std::string& name, const std::string& shell = "true") {
    const std::string folder = dir_ + "/" + name;
    EXPECT_EQ(::mkdir(folder.c_str(), 0700), 0);
    ShimStart start;
    start.launch.ranks = {0};
    start.launch.to_client = false;
    start.launch.process.uid = ::geteuid();
    start.launch.process.gid = ::getegid();
    start.launch.process.argv = {"sh", "-c", shell};
    start.launch.process.env = {"PATH=/usr/bin:/bin"};
    const std::string bytes = encode_launch_record(start);
    const int record = ::open((folder + "/record").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(::write(record, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const bool asked = ask_nursery(socket_, name, record, ends[1]);
    ::close(record);
    ::close(ends[1]);
    if (asked)
      return ends[0];
    ::close(ends[0]);
    return -1;
  }
  static std::string line(int control) {
    std::string text;
    char c = 0;
    pollfd wait{control, POLLIN, 0};
    while (::poll(&wait, 1, 30'000) > 0 && ::recv(control, &c, 1, 0) == 1 && c != '\n') text.push_back(c);
    return text;
  }
  static pid_t pid_in(const std::string& line) {
    EXPECT_TRUE(line.starts_with(kNurseryPid)) << line;
    return static_cast<pid_t>(parse_uint(std::string_view(line).substr(kNurseryPid.size())).value_or(0));
  }
  int end_of(pid_t& pid) {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid) << "it is the agent's own child";
    pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string dir_;
  int socket_ = -1;
  pid_t nursery_ = 0;
};

TEST_F(NurseryTest, MakesShimsThatAreTheAgentsChildren) {
  for (const char* name : {"7-1-0", "7-1-1"}) {
    const int control = ask(name, "read line");
    ASSERT_GE(control, 0);
    // The nursery and the shim speak on one channel: whose words come first is open.
    std::string said = line(control);
    pid_t shim = 0;
    for (int i = 0; i < 6 && !said.empty(); ++i, said = line(control)) {
      if (said.starts_with(kNurseryPid))
        shim = pid_in(said);
      if (said.starts_with("ended"))
        EXPECT_TRUE(said.starts_with("ended 0:"));
    }
    ASSERT_GT(shim, 0);
    EXPECT_EQ(end_of(shim), 0);
    ::close(control);
  }
  ::close(std::exchange(socket_, -1));
  EXPECT_EQ(end_of(nursery_), 0) << "it goes with the agent's end of the socket";
}

TEST_F(NurseryTest, AShimIsCalledByItsFolder) {
  const int control = ask("7-1-batch", "exec sleep 1000");
  ASSERT_GE(control, 0);
  pid_t shim = 0;
  for (std::string said; !(said = line(control)).empty() && said != "started";)
    if (said.starts_with(kNurseryPid))
      shim = pid_in(said);
  if (shim == 0)
    shim = pid_in(line(control));
  EXPECT_EQ(read_proc_text(format("/proc/{}/comm", shim)), "lockstep-shim\n");
  ::send(control, "stop 0\n", 7, MSG_NOSIGNAL);
  EXPECT_EQ(end_of(shim), 0);
  ::close(control);
}

TEST_F(NurseryTest, WhatItWasAskedForIsMadeWithoutTheAgent) {
  const int control = ask("7-1-0", "exit 3");
  ASSERT_GE(control, 0);
  ::close(std::exchange(socket_, -1));
  EXPECT_EQ(end_of(nursery_), 0);
  pid_t shim = 0;
  bool ended = false;
  for (std::string said; !(said = line(control)).empty();) {
    if (said.starts_with(kNurseryPid))
      shim = pid_in(said);
    ended = ended || said == "ended 0:3:0:0";
  }
  EXPECT_TRUE(ended);
  ASSERT_GT(shim, 0);
  EXPECT_EQ(end_of(shim), 0);
  ::close(control);
}

TEST_F(NurseryTest, ALetterWithoutDescriptorsEndsIt) {
  ASSERT_EQ(::send(socket_, "7-1-0", 5, MSG_NOSIGNAL), 5);
  EXPECT_EQ(end_of(nursery_), 0);
}

TEST_F(NurseryTest, AFolderThatIsNotThereIsAShimThatFails) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ASSERT_TRUE(ask_nursery(socket_, "no-such-folder", socket_, ends[1]));
  ::close(ends[1]);
  pid_t shim = pid_in(line(ends[0]));
  ASSERT_GT(shim, 0);
  EXPECT_EQ(end_of(shim), 1);
  EXPECT_EQ(line(ends[0]), "");
  ::close(ends[0]);
}

TEST_F(NurseryTest, ANameThatDoesNotFitIsNotSent) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  EXPECT_FALSE(ask_nursery(socket_, std::string(256, 'x'), ends[0], ends[1]));
  for (const int fd : ends) ::close(fd);
}

}  // namespace
}  // namespace lockstep
