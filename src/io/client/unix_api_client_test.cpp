#include "io/client/unix_api_client.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "io/client/reply_reader.h"

namespace lockstep {
namespace {

// Answers each connection with the next of some canned texts, then closes it.
class Canned {
 public:
  enum class Ends { kAtOnce, kWhenAskedAgain };  // a connection, after its answer
  explicit Canned(std::vector<std::string> answers, Ends ends = Ends::kAtOnce)
      : path_("/tmp/lockstep-canned-" + std::to_string(getpid())) {
    ::unlink(path_.c_str());
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, path_.size());
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    thread_ = std::thread([this, ends, answers = std::move(answers)] {
      int kept = -1;
      for (const auto& answer : answers) {
        const int client = kept >= 0 ? std::exchange(kept, -1) : ::accept(fd_, nullptr, nullptr);
        char buffer[4096];
        const ssize_t n = ::recv(client, buffer, sizeof buffer, 0);
        if (n > 0)
          seen_.append(buffer, static_cast<std::size_t>(n));
        (void)!::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
        if (ends == Ends::kWhenAskedAgain && !answer.empty()) {
          kept = client;
          continue;
        }
        if (answer.empty() && ends == Ends::kAtOnce)
          (void)!::recv(client, buffer, sizeof buffer, 0);  // says nothing until the client leaves
        ::close(client);
      }
      if (kept >= 0)
        ::close(kept);
    });
  }
  ~Canned() {
    if (thread_.joinable())
      thread_.join();
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }
  std::size_t count(std::string_view word) {  // of what was asked, once all answers are given
    thread_.join();
    std::size_t found = 0;
    for (auto at = seen_.find(word); at != std::string::npos; at = seen_.find(word, at + 1)) ++found;
    return found;
  }

 private:
  std::string path_;
  int fd_;
  std::string seen_;
  std::thread thread_;
};

TEST(UnixApiClient, ReconnectsWhenAKeptConnectionHasEnded) {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  Canned server({answer, answer});
  const auto client = connect_unix(server.path());
  ASSERT_TRUE(client.ok());
  for (int i = 0; i < 2; ++i) {
    const auto reply = (*client)->call("GET", "/");
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_EQ(reply->body, "ok");
  }
}

TEST(UnixApiClient, ATimeoutIsOne) {
  Canned server({""});
  auto client = connect_unix(server.path());
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->call("GET", "/", {}, millis(5)).error().code, Errc::kTimeout);
}

TEST(UnixApiClient, BrokenAnswersAreErrors) {
  Canned server({"rubbish\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"});
  auto client = connect_unix(server.path());
  EXPECT_EQ((*client)->call("GET", "/").error().code, Errc::kCorrupt);
  EXPECT_EQ((*client)->call("GET", "/").error().code, Errc::kUnavailable);
}

TEST(UnixApiClient, WithoutAClusterTheMessageSaysWhatToDo) {
  const auto client = connect_unix("/tmp/lockstep-no-such-socket");
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code, Errc::kUnavailable);
  EXPECT_NE(client.error().message.find("/tmp/lockstep-no-such-socket"), std::string::npos);
  // What that is depends on which programs lie beside this one.
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const bool makes_one =
      std::filesystem::exists(here / "lockstepd") || std::filesystem::exists(here / "lockstep-agent");
  EXPECT_NE(client.error().message.find(makes_one ? "lockstep up" : "LOCKSTEP_SOCKET"), std::string::npos)
      << client.error().message;
  EXPECT_EQ(connect_unix(std::string(300, 'x')).error().code, Errc::kInvalid);
  EXPECT_EQ(connect_unix("").error().code, Errc::kInvalid);
}

TEST(UnixApiClient, WhatMayHaveArrivedIsNotSentAgain) {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  Canned server({answer, "", answer}, Canned::Ends::kWhenAskedAgain);
  const auto client = connect_unix(server.path());
  ASSERT_TRUE((*client)->call("GET", "/").ok());
  // The controller takes the submission and dies before it answers.
  EXPECT_EQ((*client)->call("POST", "/v1/jobs", "{}").error().code, Errc::kUnavailable);
  ASSERT_TRUE((*client)->call("GET", "/").ok());
  EXPECT_EQ(server.count("POST"), 1u);
}

TEST(UnixApiClient, SilenceIsToldOnce) {
  Canned server({""});
  auto client = connect_unix(server.path());
  ASSERT_TRUE(client.ok());
  int told = 0;
  (*client)->on_silence(millis(2), [&] { ++told; });
  const auto reply = (*client)->call("GET", "/", {}, millis(20));
  EXPECT_EQ(reply.error().code, Errc::kTimeout);
  EXPECT_NE(reply.error().message.find("overloaded or stopped"), std::string::npos);
  EXPECT_EQ(told, 1);
}

TEST(UnixApiClient, AControllerThatComesBackIsWaitedFor) {
  const std::string path = "/tmp/lockstep-back-" + std::to_string(getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  ::unlink(path.c_str());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  // Nobody listens: without patience that is an error at once, with it one is told, and goes on when somebody does.
  EXPECT_EQ(connect_unix(path).error().code, Errc::kUnavailable);
  std::string told;
  const auto client = connect_patiently({path}, Patience{hours(1), Duration{}, [&](std::string_view text) {
                                                           told += text;
                                                           ASSERT_EQ(::listen(fd, 1), 0);
                                                         }});
  EXPECT_TRUE(client.ok());
  EXPECT_EQ(told, "waiting for the controller at " + path + " (nobody listens)");
  ::close(fd);
  const auto never = connect_patiently({path}, Patience{millis(1), Duration{}, {}});
  EXPECT_EQ(never.error().code, Errc::kUnavailable);
  ::unlink(path.c_str());
}

TEST(UnixApiClient, WithoutADescriptorItIsNotTheCluster) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 3;
  ::setrlimit(RLIMIT_NOFILE, &none);
  const auto client = connect_unix("/tmp/lockstep-no-such-socket");
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code, Errc::kExhausted);
  EXPECT_EQ(client.error().message.find("lockstep up"), std::string::npos);
}

TEST(UnixApiClient, FindsTheSocketByTheEnvironment) {
  setenv("LOCKSTEP_SOCKET", "/x/y.sock", 1);
  EXPECT_EQ(find_socket(), "/x/y.sock");
  unsetenv("LOCKSTEP_SOCKET");
  setenv("LOCKSTEP_DIR", "/no/such/dir", 1);
  setenv("HOME", "/no/such/home", 1);
  EXPECT_EQ(find_socket(), "/no/such/dir/api.sock");
  unsetenv("LOCKSTEP_DIR");
  for (const char* path : kSocketsOfTheMachine)
    if (access(path, F_OK) == 0)
      GTEST_SKIP() << "this machine has a cluster of its own";
  EXPECT_EQ(find_socket(), "/no/such/home/.lockstep/default/api.sock");
}

ApiClient::Reply read_in_pieces(std::string_view text, std::size_t piece, std::string* error = nullptr) {
  ReplyReader reader;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const auto fed = reader.feed(text.substr(at, piece));
    if (!fed.ok()) {
      if (error != nullptr)
        *error = fed.error().message;
      return {};
    }
    if (*fed)
      return reader.take();
  }
  const auto ended = reader.end();
  if (!ended.ok() && error != nullptr)
    *error = ended.error().message;
  return ended.ok() ? reader.take() : ApiClient::Reply{};
}

TEST(ReplyReader, ReadsEveryFramingInPiecesOfAnySize) {
  const std::string_view replies[] = {
      "HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nhello world",
      "HTTP/1.1 201 Created\r\ncontent-type:text/plain \r\nTransfer-Encoding: Chunked\r\n\r\n"
      "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: z\r\n\r\n",
      "HTTP/1.0 201 Created\r\nContent-Type: text/plain\r\n\r\nhello world",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: "
      "11\r\n\r\nhello world",
  };
  for (const auto text : replies)
    for (std::size_t piece = 1; piece <= text.size(); ++piece) {
      const auto reply = read_in_pieces(text, piece);
      EXPECT_EQ(reply.status, 201) << text << piece;
      EXPECT_EQ(reply.content_type, "text/plain");
      EXPECT_EQ(reply.body, "hello world");
    }
}

TEST(ReplyReader, RefusesWhatIsNoReply) {
  for (const std::string_view text :
       {"HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 xyz\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "HTTP/1.1 200"})
    for (std::size_t piece = 1; piece <= text.size(); ++piece) {
      std::string error;
      read_in_pieces(text, piece, &error);
      EXPECT_NE(error, "") << text;
    }
  std::string error;
  read_in_pieces("HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x'), 4096, &error);
  EXPECT_NE(error, "");
}

}  // namespace
}  // namespace lockstep
