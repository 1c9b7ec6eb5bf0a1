#include "io/dialer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <thread>

#include "base/text.h"
#include "io/event_loop.h"
#include "io/http_server.h"
#include "io/https_client.h"
#include "io/pki.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

// A controller's TLS port on a loop that the test runs until something happens.
class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    ca_ = std::move(ClusterCa::open_or_make(dir_.file("pki"), "demo").value());
    serve("controller", kControllerRole);
  }
  ~TlsTest() override {
    streams_.clear();
    server_.reset();
  }

  void serve(const std::string& stem, const std::string& role, Duration valid = hours(1)) {
    server_ = make_http_server(
        *loop_, [this](const auto& exchange) { handle(exchange); }, {.header_timeout = seconds(5)},
        [this](const std::string& line) { notices_ += line + "\n"; });
    const auto files = ca_->issue(stem, {.name = stem, .role = role, .hosts = {"controller.example"}, .valid = valid});
    const auto port = server_->listen_tls("127.0.0.1", 0, *files);
    ASSERT_TRUE(port.ok()) << port.error().message;
    port_ = *port;
  }

  void handle(const std::shared_ptr<HttpExchange>& exchange) {
    peer_ = exchange->request().peer;
    if (exchange->request().path == "/v1/link" && peer_.how == Peer::How::kCertificate) {
      streams_.push_back(exchange->upgrade("lockstep-link/1"));
      Stream* stream = streams_.back().get();
      stream->write("welcome ");
      stream->on_data([stream](std::string_view bytes) { stream->write(std::string(bytes)); });
    } else if (exchange->request().path == "/v1/link") {
      exchange->respond({.status = 403, .body = "no certificate"});
    } else {
      exchange->respond({.body = exchange->request().method + " " + exchange->request().body});
    }
  }

  TlsFiles agent(const CertificateAsk& ask) { return ca_->issue(ask.name, ask).value(); }

  Result<std::unique_ptr<Stream>> dial(const TlsFiles& files, const std::string& target = "/v1/link",
                                       Duration timeout = seconds(10)) {
    std::optional<Result<std::unique_ptr<Stream>>> out;
    dial_tls(*loop_,
             {.host = "127.0.0.1",
              .port = port_,
              .tls = files,
              .target = target,
              .protocol = "lockstep-link/1",
              .timeout = timeout},
             [&](Result<std::unique_ptr<Stream>> result) {
               out.emplace(std::move(result));
               loop_->stop();
             });
    loop_->run();
    return std::move(*out);
  }

  Result<ApiClient::Reply> post(const HttpsServer& server, const std::string& body = "hello") {
    std::optional<Result<ApiClient::Reply>> out;
    std::thread client([&] {
      out.emplace(https_call(server, "/v1/join", body));
      loop_->stop();
    });
    loop_->run();
    client.join();
    return std::move(*out);
  }

  TempDir dir_;
  std::unique_ptr<EventLoop> loop_ = make_event_loop();
  std::unique_ptr<ClusterCa> ca_;
  std::unique_ptr<HttpServer> server_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::uint16_t port_ = 0;
  std::string notices_;
  Peer peer_;
};

TEST_F(TlsTest, AnAgentDialsInAndGetsARawStream) {
  auto stream = dial(agent({.name = "node:n1", .role = "compute"}));
  ASSERT_TRUE(stream.ok()) << stream.error().message;
  EXPECT_EQ(peer_.how, Peer::How::kCertificate);
  EXPECT_EQ(peer_.certificate_name, "node:n1");
  EXPECT_EQ(peer_.certificate_role, "compute");
  EXPECT_EQ(peer_.address, "127.0.0.1");
  EXPECT_EQ(peer_.certificate_serial.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_GE(peer_.certificate_serial.size(), 16u);
  // More than any buffer on the way, both ways.
  std::string sent;
  for (int i = 0; sent.size() < 3'000'000; ++i) sent += format("line {}\n", i);
  std::string seen;
  (*stream)->on_data([&](std::string_view bytes) {
    seen.append(bytes);
    if (seen.size() >= sent.size() + 8)
      loop_->stop();
  });
  (*stream)->write(sent);
  EXPECT_EQ((*stream)->unsent(), sent.size());
  bool drained = false;
  (*stream)->on_drained([&] { drained = true; });
  loop_->run();
  EXPECT_TRUE(seen == "welcome " + sent);
  EXPECT_TRUE(drained);
  EXPECT_EQ((*stream)->unsent(), 0u);
}

TEST_F(TlsTest, ByAFingerprintOneMayAskWhateverTheClocksSay) {
  server_.reset();
  serve("old", kControllerRole, Duration{} - hours(1));
  HttpsServer ask{.host = "127.0.0.1", .port = port_, .ca_file = {}, .ca_sha256 = ca_->fingerprint()};
  const auto strict = post(ask);
  ASSERT_FALSE(strict.ok());
  EXPECT_EQ(strict.error().code, Errc::kDenied);
  EXPECT_NE(strict.error().message.find("expired"), std::string::npos) << strict.error().message;
  ask.ignores_time = true;
  EXPECT_TRUE(post(ask).ok());
  ask.ca_sha256.back() = ask.ca_sha256.back() == '0' ? '1' : '0';
  const auto other = post(ask);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("another CA"), std::string::npos) << other.error().message;
}

TEST_F(TlsTest, ARenewedCertificateIsShownToWhoComesNext) {
  server_.reset();
  serve("old", kControllerRole, Duration{} - hours(1));
  const HttpsServer ask{.host = "127.0.0.1", .port = port_, .ca_file = {}, .ca_sha256 = ca_->fingerprint()};
  EXPECT_FALSE(post(ask).ok());
  const auto fresh = ca_->issue("controller", {.name = "controller", .role = kControllerRole, .valid = hours(1)});
  ASSERT_TRUE(server_->renew_tls(*fresh).ok());
  EXPECT_TRUE(post(ask).ok());
  EXPECT_FALSE(server_->renew_tls({"/nowhere", "/nowhere", "/nowhere"}).ok());
  EXPECT_TRUE(post(ask).ok()) << "the last good one goes on";
}

TEST_F(TlsTest, APausedStreamHoldsItsBytesBack) {
  auto stream = dial(agent({.name = "node:n1", .role = "compute"}));
  ASSERT_TRUE(stream.ok());
  (*stream)->pause(true);
  std::string seen;
  (*stream)->on_data([&](std::string_view bytes) { seen.append(bytes); });
  loop_->after(millis(5), [&] {
    EXPECT_EQ(seen, "");
    (*stream)->pause(false);
    loop_->after(millis(5), [&] { loop_->stop(); });
  });
  loop_->run();
  EXPECT_EQ(seen, "welcome ");
}

TEST_F(TlsTest, TheOtherSidesEndIsTold) {
  auto stream = dial(agent({.name = "node:n1", .role = "compute"}));
  ASSERT_TRUE(stream.ok());
  std::string seen;
  (*stream)->on_data([&](std::string_view bytes) { seen.append(bytes); });
  (*stream)->on_close([&] { loop_->stop(); });
  streams_.front()->write("last words");
  streams_.front()->close();
  streams_.clear();  // what was queued before close() still leaves
  loop_->run();
  EXPECT_EQ(seen, "welcome last words");
}

TEST_F(TlsTest, AnExpiredCertificateIsRefusedAndTheLogSaysSo) {
  const auto stream = dial(agent({.name = "node:old", .role = "compute", .valid = hours(-1)}));
  ASSERT_FALSE(stream.ok());
  EXPECT_EQ(stream.error().code, Errc::kDenied);
  EXPECT_NE(stream.error().message.find("expired"), std::string::npos) << stream.error().message;
  EXPECT_NE(notices_.find("refused a TLS connection from 127.0.0.1:"), std::string::npos) << notices_;
  EXPECT_NE(notices_.find("certificate \"node:old\" expired on"), std::string::npos) << notices_;
  EXPECT_TRUE(streams_.empty());
}

TEST_F(TlsTest, AnotherClustersCertificateIsRefused) {
  TempDir other_dir;
  const auto other = ClusterCa::open_or_make(other_dir.path(), "other");
  TlsFiles files = (*other)->issue("n1", {.name = "node:n1", .role = "compute"}).value();
  files.ca = ca_->certificate_path();  // it trusts us, but we did not sign it
  const auto stream = dial(files);
  ASSERT_FALSE(stream.ok());
  EXPECT_NE(notices_.find("refused"), std::string::npos) << notices_;
  EXPECT_TRUE(streams_.empty());
}

TEST_F(TlsTest, WithoutACertificateOneIsNobody) {
  const auto stream = dial({.ca = ca_->certificate_path()});
  ASSERT_FALSE(stream.ok());
  EXPECT_EQ(stream.error().code, Errc::kDenied);
  EXPECT_NE(stream.error().message.find("no certificate"), std::string::npos) << stream.error().message;
  EXPECT_EQ(peer_.how, Peer::How::kNobody);
}

TEST_F(TlsTest, OnlyAControllerIsTalkedTo) {
  server_.reset();
  serve("impostor", "compute");  // a node's certificate is signed by the same CA
  const auto stream = dial(agent({.name = "node:n1", .role = "compute"}));
  ASSERT_FALSE(stream.ok());
  EXPECT_EQ(stream.error().code, Errc::kDenied);
  EXPECT_NE(stream.error().message.find("not a controller"), std::string::npos);
}

TEST_F(TlsTest, FailuresToDialSayWhy) {
  const auto refused = dial(agent({.name = "node:n1", .role = "compute"}), "/v1/other");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("200 OK"), std::string::npos);
  TlsFiles missing = agent({.name = "node:n1", .role = "compute"});
  missing.key = dir_.file("absent");
  EXPECT_NE(dial(missing).error().message.find("absent"), std::string::npos);
  server_.reset();
  const auto gone = dial(agent({.name = "node:n1", .role = "compute"}));
  EXPECT_EQ(gone.error().code, Errc::kNotFound);
  EXPECT_NE(gone.error().message.find("cannot reach 127.0.0.1"), std::string::npos);
}

TEST_F(TlsTest, ASilentServerIsGivenUp) {
  server_.reset();
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  EXPECT_EQ(dial(agent({.name = "node:n1", .role = "compute"}), "/v1/link", millis(20)).error().code, Errc::kTimeout);
  ::close(fd);
}

TEST_F(TlsTest, PlainTextOnTheTlsPortIsRefusedWithALine) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port_);
  ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::send(fd, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  loop_->watch(fd, [&] { loop_->stop(); });
  loop_->run();
  loop_->unwatch(fd);
  ::close(fd);
  EXPECT_NE(notices_.find("refused a TLS connection"), std::string::npos);
}

TEST_F(TlsTest, JoiningTrustsTheFingerprintInTheToken) {
  const auto reply = post({.host = "127.0.0.1", .port = port_, .ca_sha256 = ca_->fingerprint()});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "POST hello");
  EXPECT_EQ(peer_.how, Peer::How::kNobody);
  const std::string big(16'000, 'b');
  EXPECT_EQ(post({.host = "localhost", .port = port_, .ca_file = ca_->certificate_path()}, big)->body, "POST " + big);
  // Whoever has no certificate sends no more than a joining node needs.
  const std::string bigger(1'000'000, 'b');
  EXPECT_EQ(post({.host = "localhost", .port = port_, .ca_file = ca_->certificate_path()}, bigger)->status, 413);
}

// Strangers that say nothing hold what is theirs to hold; a node gets in beside them.
TEST_F(TlsTest, ANodeGetsInBesideSilentStrangers) {
  std::vector<int> strangers;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port_);
  for (int i = 0; i < 600; ++i) {
    strangers.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ::connect(strangers.back(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  EXPECT_TRUE(dial(agent({.name = "node:n1", .role = "compute"})).ok());
  for (const int fd : strangers) ::close(fd);
}

TEST_F(TlsTest, JoiningRefusesAnybodyElse) {
  const auto wrong = post({.host = "127.0.0.1", .port = port_, .ca_sha256 = std::string(64, '0')});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, Errc::kDenied);
  EXPECT_FALSE(post({.host = "127.0.0.1", .port = port_}).ok());
  const auto impostor_port = port_;
  serve("impostor", "compute");
  EXPECT_NE(port_, impostor_port);
  const auto refused = post({.host = "127.0.0.1", .port = port_, .ca_sha256 = ca_->fingerprint()});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kDenied);
}

TEST_F(TlsTest, ATakenPortIsSaidToBeTaken) {
  const auto files = ca_->issue("controller", {.name = "controller", .role = kControllerRole});
  const auto second = server_->listen_tls("127.0.0.1", port_, *files);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::kConflict);
  EXPECT_NE(second.error().message.find(format("port {}", port_)), std::string::npos);
  EXPECT_FALSE(server_->listen_tls("no-address", 0, *files).ok());
}

}  // namespace
}  // namespace lockstep
