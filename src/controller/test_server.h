// For tests of the API: a whole controller on a loop that the test turns by hand, asked as any kind of caller.
#pragma once

#include "base/text.h"
#include "controller/test_world.h"
#include "wire/api.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace lockstep {

class TestServer {
 public:
  // entries: what its log holds already.
  explicit TestServer(ControllerSettings settings = {}, std::vector<LogEntry> entries = {})
      : settings_(std::move(settings)) {
    log.entries = std::move(entries);
    start();
  }
  ~TestServer() { controller->stop(); }
  // Another controller over the same log; what was posted for the first one's callers never comes.
  void restart() {
    controller->stop();
    loop.forget();
    controller.reset();
    start();
  }

  void start() {
    ApiPowers powers;
    powers.sha256_hex = [](std::string_view text) { return format("{:064x}", std::hash<std::string_view>{}(text)); };
    powers.hmac_sha256_hex = [](std::string_view key, std::string_view text) {
      return format("{:016x}", std::hash<std::string>{}(std::string(key).append(text)));
    };
    powers.random_hex = [this](std::size_t) { return format("{:012x}", ++random_); };
    powers.sign = [](const std::string& csr, const std::string& name, const std::string&) -> Result<SignedCertificate> {
      if (csr != "good")
        return invalid("is no request", "csr");
      return SignedCertificate{"certificate of " + name, serial_of(name)};
    };
    powers.free_bytes = [this] { return free_bytes; };
    controller =
        std::move(*ControllerLoop::open({loop, log, log, history, clock}, settings_, std::move(powers), {}, nullptr));
    controller->start();
  }

  static Peer local(std::uint32_t uid) {
    Peer peer;
    peer.how = Peer::How::kUnixSocket;
    peer.uid = peer.gid = uid;
    peer.realm = "local";
    return peer;
  }
  static std::string serial_of(const std::string& certificate_name) { return "serial of " + certificate_name; }
  static Peer node(const std::string& name) {
    Peer peer;
    peer.how = Peer::How::kCertificate;
    peer.certificate_name = "node:" + name;
    peer.certificate_serial = serial_of(peer.certificate_name);
    peer.certificate_role = "compute";
    return peer;
  }
  // As the agent of a compute node forwards its users.
  static Peer forwarded(const std::string& from, std::uint32_t uid) {
    Peer peer = node(from);
    peer.how = Peer::How::kForwarded;
    peer.uid = peer.gid = uid;
    return peer;
  }

  std::shared_ptr<TestCall> send(const std::string& method, const std::string& target, const std::string& body = {},
                                 const Peer& peer = local(0), const std::string& upgrade = {}) {
    return send_request(*controller, method, target, body, peer, upgrade);
  }
  HttpResponse call(const std::string& method, const std::string& target, const std::string& body = {},
                    const Peer& peer = local(0)) {
    const auto sent = send(method, target, body, peer);
    loop.until([&] { return sent->done(); });
    return sent->response.value_or(HttpResponse{});
  }

  // A node that has joined, and takes what it is told without doing it.
  void join(const std::string& name) {
    const std::string answer = call("POST", "/v1/tokens", format(R"({{"node":"{}"}})", name)).body;
    constexpr std::string_view kBefore = R"({"token":")";
    ASSERT_TRUE(answer.starts_with(kBefore)) << answer;
    const std::string token = answer.substr(kBefore.size(), answer.rfind('"') - kBefore.size());
    ASSERT_EQ(call("POST", "/v1/join", encode(JoinRequest{token, name, "good"}), Peer{}).status, 200);
    const auto link = send("GET", "/v1/link", {}, node(name), "lockstep-link/1");
    ASSERT_NE(link->wire, nullptr);
    links_.push_back(link);
    Hello hello;
    hello.facts.meta.name = name;
    hello.facts.boot_id = "boot";
    hello.facts.cores = 4;
    hello.facts.memory_mb = 4096;
    say(name, hello);
    loop.until([&] { return call("GET", "/v1/nodes/" + name).body.find("\"up\"") != std::string::npos; });
  }
  void say(const std::string& name, const FromAgent& message) {
    (void)name;
    links_.back()->wire->data(encode_frame(static_cast<std::uint8_t>(LinkFrame::kMessage), 0, encode(message)));
  }

  TestLoop loop;
  TestLog log;
  TestHistory history;
  TestClock clock;
  std::uint64_t free_bytes = UINT64_MAX;  // of the disk
  std::unique_ptr<ControllerLoop> controller;

 private:
  ControllerSettings settings_;
  std::uint64_t random_ = 0;
  std::vector<std::shared_ptr<TestCall>> links_;
};

}  // namespace lockstep
