#include "shim/pmi_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/text.h"

namespace lockstep {
namespace {

// A shell script in the place of lockstep-pmi, with the socket at descriptor 3.
struct PmiLinkTest : ::testing::Test {
  std::string dir;
  ShimStart start;

  void SetUp() override {
    char name[] = "/tmp/lockstep-pmi-link-XXXXXX";
    dir = ::mkdtemp(name);
    ::chmod(dir.c_str(), 0755);
    start.launch.ranks = {2, 3};
    start.launch.node_index = 1;
    start.launch.pmi = Pmi::kPmi2;
    start.launch.world = {{"n1", {0, 1}}, {"n2", {2, 3}}};
    start.launch.process.uid = start.launch.process.gid = ::geteuid() == 0 ? 4711 : ::geteuid();
    start.launch.process.env = {"PATH=/usr/bin:/bin"};
  }
  void TearDown() override {
    ::unlink((dir + "/pmi").c_str());
    ::rmdir(dir.c_str());
  }
  std::unique_ptr<PmiLink> run(const std::string& script) {
    std::ofstream(dir + "/pmi") << "#!/bin/bash\n" << script << "\n";
    ::chmod((dir + "/pmi").c_str(), 0755);
    auto link = PmiLink::start(start, dir + "/pmi", "12.0");
    EXPECT_TRUE(link.ok()) << (link.ok() ? "" : link.error().message);
    return link.ok() ? std::move(*link) : nullptr;
  }
  // Until the process has ended, or `enough`.
  template <class F>
  static void serve(PmiLink& link, F enough) {
    for (int turn = 0; turn < 2000 && !enough(); ++turn) {
      ::pollfd wait{link.fd(), static_cast<short>(POLLIN | (link.wants_to_write() ? POLLOUT : 0)), 0};
      ::poll(&wait, 1, 10);
      link.write();
      if (link.fd() >= 0 && link.wants_to_read())
        link.read();
      int status = 0;
      if (link.pid() > 0 && ::waitpid(link.pid(), &status, WNOHANG) == link.pid())
        link.exited(status);
    }
  }
  static void serve_to_end(PmiLink& link) {
    serve(link, [&] { return link.pid() == 0; });
  }
  static std::string message(PmiControl kind, std::string_view payload) {
    std::string out = "printf '";
    for (const char c : encode_pmi_control(kind, payload)) out += format("\\x{:02x}", static_cast<unsigned char>(c));
    return out + "' >&3\n";
  }
};

TEST_F(PmiLinkTest, ItIsTheUsersAndSaysTheVariables) {
  const std::string variables = encode_pmi_variables({{"A=1"}, {{"R=2"}, {"R=3"}}});
  const auto link = run("exec 4<&- 5<&-\n[ $(id -u) = " + std::to_string(start.launch.process.uid) + " ] || exit 9\n" +
                        message(PmiControl::kReady, variables) + "sleep 10 3>&- & wait");
  std::optional<PmiVariables> told;
  serve(*link, [&] {
    if (!told)
      told = link->take_variables();
    return told.has_value();
  });
  ASSERT_TRUE(told);
  EXPECT_EQ(told->common, (std::vector<std::string>{"A=1"}));
  EXPECT_EQ(told->by_local[1], (std::vector<std::string>{"R=3"}));
  EXPECT_FALSE(link->take_failure());
  const int end = link->take_task_end(1);
  EXPECT_GE(end, 0);
  EXPECT_EQ(link->take_task_end(1), -1);
  EXPECT_EQ(link->take_task_end(2), -1);
  ::close(end);
  ::kill(link->pid(), SIGKILL);
  serve_to_end(*link);
  EXPECT_EQ(link->take_failure(), "lockstep-pmi, by which the tasks find each other, was ended by signal 9");
}

TEST_F(PmiLinkTest, WhatItSaysBadlyEndsIt) {
  const auto why = [&](const std::string& script) {
    const auto link = run(script);
    serve_to_end(*link);
    EXPECT_EQ(link->pid(), 0);
    return link->take_failure().value_or("nothing");
  };
  EXPECT_EQ(why("exit 7"), "lockstep-pmi, by which the tasks find each other, ended with exit code 7");
  EXPECT_EQ(why("exec 3>&-; sleep 100"), "lockstep-pmi, by which the tasks find each other, was ended by signal 9");
  EXPECT_EQ(why(message(PmiControl::kFailed, "no PMIx here")), "no PMIx here");
  EXPECT_EQ(why(message(PmiControl::kReady, "what") + "exit 0"),
            "lockstep-pmi gives 2003329396 variables for one task");
  EXPECT_EQ(why("printf '\\xff\\xff\\xff\\xff\\x41' >&3; sleep 100"),
            "lockstep-pmi, by which the tasks find each other, is not understood: a message of kind 65 with 4294967295 "
            "bytes");
  const auto missing = PmiLink::start(start, dir + "/none", "12.0");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message,
            dir + "/none cannot be run: No such file or directory. It belongs beside lockstep-shim");
}

TEST_F(PmiLinkTest, AWorldThatIsNoneStartsNothing) {
  start.launch.world[0].ranks = {0, 2};
  const auto link = PmiLink::start(start, "/bin/true", "12.0");
  ASSERT_FALSE(link.ok());
  EXPECT_EQ(link.error().message, "rank 2 is on two nodes of a world");
}

TEST_F(PmiLinkTest, ClientsGetWhatTheyLackAndSayEachByteOnce) {
  const auto link = run(message(PmiControl::kUp, "hello") + "sleep 100 3>&- & wait");
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  StepClient client(ends[0], StepClient::Kind::kFrames);
  client.attached = true;
  link->attach(client);
  FrameReader reader;
  std::vector<PmiUp> ups;
  std::vector<std::string> texts;
  const auto hear = [&] {
    link->pump(client);
    client.flush();
    char chunk[4096];
    const ssize_t n = ::recv(ends[1], chunk, sizeof chunk, MSG_DONTWAIT);
    if (n > 0)
      (void)reader.feed({chunk, static_cast<std::size_t>(n)}, [&](const Frame& frame) {
        EXPECT_EQ(frame.stream, 2u);  // the first rank here
        ups.push_back(*decode_pmi_up(frame.payload));
        texts.emplace_back(ups.back().bytes);
      });
    return texts.size() > 1;
  };
  serve(*link, hear);
  ASSERT_EQ(texts, (std::vector<std::string>{"", "hello"}));
  EXPECT_TRUE(ups[0].fresh);
  EXPECT_FALSE(ups[1].fresh);
  EXPECT_FALSE(link->all_acknowledged());

  const auto say = [&](std::uint64_t stream, const PmiDown& down) {
    return link->take({static_cast<std::uint8_t>(IoFrame::kPmi), stream, encode(down)});
  };
  EXPECT_TRUE(say(2, {false, 0, 5, "abc"}));
  EXPECT_TRUE(link->all_acknowledged());
  EXPECT_TRUE(say(2, {false, 1, 5, "bcd"}));  // one byte more
  EXPECT_TRUE(say(kAllRanks, {true, 0, 0, "to all"}));
  EXPECT_TRUE(say(2, {false, 100, 5, "xyz"}));  // something is missing before
  hear();
  EXPECT_EQ(ups.back().got_own, 4u);
  EXPECT_EQ(ups.back().got_all, 6u);
  EXPECT_FALSE(say(2, {false, 4, 6, ""}));  // more than was ever said
  EXPECT_FALSE(link->take({static_cast<std::uint8_t>(IoFrame::kPmi), 2, "short"}));
  ::close(ends[1]);
}

}  // namespace
}  // namespace lockstep
