// The API and the links of a whole controller, threads included; only the log, the network and time are the test's.
#include "controller/server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/text.h"
#include "controller/test_world.h"
#include "wire/api.h"
#include "wire/api_call.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace lockstep {
namespace {

constexpr const char* kJob = R"({"spec":{"name":"a","groups":[{"launch":"script"}]},"script":"#!/bin/sh\ntrue\n"})";

class ServerTest : public ::testing::Test {
 public:
  void SetUp() override {
    ApiPowers powers;
    powers.sha256_hex = [](std::string_view text) { return format("{:064x}", std::hash<std::string_view>{}(text)); };
    powers.hmac_sha256_hex = [](std::string_view key, std::string_view text) {
      return format("{:016x}", std::hash<std::string>{}(std::string(key).append(text)));
    };
    powers.random_hex = [this](std::size_t) { return format("{:012x}", ++random); };
    powers.sign = [this](const std::string& csr, const std::string& name,
                         const std::string& role) -> Result<SignedCertificate> {
      if (csr != "good")
        return invalid("is no request", "csr");
      ++signatures;
      return SignedCertificate{format("certificate of {} as {}", name, role), format("serial{}", signatures)};
    };
    powers.ca_fingerprint = "cafe";
    ControllerSettings settings;
    settings.api.script_bytes_max = 1000;
    settings.api.only_uid = only_uid;
    controller =
        std::move(*ControllerLoop::open({loop, log, log, history, clock}, settings, std::move(powers), {}, nullptr));
    controller->start();
  }
  void TearDown() override { controller->stop(); }

  std::optional<std::uint32_t> only_uid;

  static Peer local(std::uint32_t uid) {
    Peer peer;
    peer.how = Peer::How::kUnixSocket;
    peer.uid = peer.gid = uid;
    peer.realm = "local";
    return peer;
  }
  static Peer agent(const std::string& node, const std::string& serial = "none", const std::string& role = "compute") {
    Peer peer;
    peer.how = Peer::How::kCertificate;
    peer.certificate_name = "node:" + node;
    peer.certificate_role = role;
    peer.certificate_serial = serial;
    return peer;
  }
  static Peer stranger(const std::string& address = "10.0.0.1") {
    Peer peer;
    peer.address = address;
    return peer;
  }
  std::string token(const std::string& ask) {
    const auto made = call("POST", "/v1/tokens", ask);
    EXPECT_EQ(made.status, 200) << made.body;
    return made.body.size() < 12 ? "" : made.body.substr(10, made.body.size() - 12);
  }
  HttpResponse redeem(const std::string& with, const std::string& node, const Peer& from = stranger(),
                      const std::string& csr = "good") {
    return call("POST", "/v1/join", format(R"({{"token":"{}","node":"{}","csr":"{}"}})", with, node, csr), from);
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

  // An agent's end of a link.
  struct Agent {
    std::shared_ptr<TestWire> wire;
    FrameReader reader;
    std::vector<Frame> frames;
    std::size_t seen = 0;

    void say(const FromAgent& message) { frame(LinkFrame::kMessage, 0, encode(message)); }
    void frame(LinkFrame type, std::uint64_t stream, const std::string& payload) {
      wire->data(encode_frame(static_cast<std::uint8_t>(type), stream, payload));
    }
    void read() {
      const std::string fresh = wire->sent.substr(seen);
      seen = wire->sent.size();
      EXPECT_TRUE(reader.feed(fresh, [this](Frame f) { frames.push_back(std::move(f)); }).ok());
    }
    template <class T>
    const T* told() {
      read();
      for (auto& f : frames)
        if (f.type == static_cast<std::uint8_t>(LinkFrame::kMessage)) {
          parsed.push_back(*decode_to_agent(f.payload));
          f.type = 0;
        }
      for (const auto& message : parsed)
        if (const auto* m = std::get_if<T>(&message))
          return m;
      return nullptr;
    }
    const Frame* framed(LinkFrame type, std::uint64_t stream) {
      read();
      for (const auto& f : frames)
        if (f.type == static_cast<std::uint8_t>(type) && (stream == 0 || f.stream == stream))
          return &f;
      return nullptr;
    }
    std::deque<ToAgent> parsed;
  };
  // A link under a certificate that was issued before, which says hello.
  Agent open_link(const std::string& name, const std::string& serial) {
    const auto opened = send("GET", "/v1/link", {}, agent(name, serial), "lockstep-link/1");
    EXPECT_NE(opened->wire, nullptr);
    Agent out{opened->wire};
    Hello hello;
    hello.facts.meta.name = name;
    hello.facts.boot_id = "boot";
    hello.facts.cores = 4;
    hello.facts.memory_mb = 4096;
    out.say(hello);
    return out;
  }
  Agent join(const std::string& name, const std::string& more = {}) {
    const std::string with = token(format(R"({{"node":"{}","replace":true{}}})", name, more));
    EXPECT_EQ(redeem(with, name).status, 200);
    Agent out = open_link(name, format("serial{}", signatures));
    loop.until([&] { return out.told<Welcome>() != nullptr; });
    return out;
  }
  // Job 1 holds the node and runs nothing: what is asked for is a step in it.
  StepRequest step_in_a_job_on(Agent& node) {
    const std::string job = R"({"spec":{"name":"a","groups":[{"launch":"nothing"}]}})";
    EXPECT_EQ(call("POST", "/v1/jobs", job).status, 200);
    loop.until([&] { return node.told<LaunchAttempt>() != nullptr; });
    StepRequest ask;
    ask.job = JobId{1};
    ask.spec.argv = {"true"};
    ask.spec.tasks = 1;
    return ask;
  }

  TestLoop loop;
  TestLog log;
  TestHistory history;
  TestClock clock;
  std::uint64_t random = 0, signatures = 0;
  std::unique_ptr<ControllerLoop> controller;
};

TEST_F(ServerTest, AJobIsDurableWhenItsIdIsAnswered) {
  const auto answer = call("POST", "/v1/jobs", kJob);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, R"({"job_id":1})");
  EXPECT_FALSE(log.entries.empty());
  EXPECT_EQ(log.blobs.size(), 1u);
  EXPECT_EQ(call("GET", "/v1/jobs/1").status, 200);
  EXPECT_NE(call("GET", "/v1/jobs/1/script").body.find("#!/bin/sh"), std::string::npos);
}

class RootlessTest : public ServerTest {
 protected:
  RootlessTest() { only_uid = 1001; }
};

TEST_F(RootlessTest, RunsTheWorkOfItsOwnerOnly) {
  EXPECT_EQ(call("POST", "/v1/jobs", kJob, local(1001)).status, 200);
  for (const Peer& peer : {local(0), local(1002)}) {
    const auto refused = call("POST", "/v1/jobs", kJob, peer);
    EXPECT_EQ(refused.status, 403) << peer.uid;
    EXPECT_NE(refused.body.find("that user's jobs only"), std::string::npos) << refused.body;
    EXPECT_EQ(call("POST", "/v1/jobs", format("[{}]", kJob), peer).body.find("job_id"), std::string::npos);
  }
  EXPECT_EQ(call("GET", "/v1/jobs").status, 200) << "root may look";
}

TEST_F(ServerTest, AListIsOneBatchAndEachIsRefusedOnItsOwn) {
  (void)call("GET", "/v1/users");
  const int before = log.appends;
  const auto answer = call("POST", "/v1/jobs", format(R"([{0},{{"spec":{{}}}},{0}])", kJob));
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find(R"({"job_id":1},{"error")"), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find(R"({"job_id":2})"), std::string::npos);
  EXPECT_GE(log.appends, before + 1);
}

// The test's accounting knows of every job that it failed.
TEST_F(ServerTest, WhatEndedLongAgoIsLookedUpInAccounting) {
  const auto body = [](const char* type) {
    return format(R"({{"spec":{{"name":"a","groups":[{{"launch":"script"}}],"kill_on_invalid_dependency":false,)"
                  R"("dependencies":[{{"type":"{}","job":4711}}]}},"script":"#!/bin/sh\ntrue\n"}})",
                  type);
  };
  ASSERT_EQ(call("POST", "/v1/jobs", body("after_any")).status, 200);
  EXPECT_EQ(call("GET", "/v1/jobs/1").body.find("4711"), std::string::npos) << call("GET", "/v1/jobs/1").body;
  ASSERT_EQ(call("POST", "/v1/jobs", body("after_ok")).status, 200);
  EXPECT_NE(call("GET", "/v1/jobs/2").body.find("dependency_never"), std::string::npos)
      << call("GET", "/v1/jobs/2").body;
  const auto several = call("POST", "/v1/jobs", format("[{},{}]", body("after_not_ok"), body("after_ok")));
  EXPECT_EQ(several.body, R"({"jobs":[{"job_id":3},{"job_id":4}]})");
  EXPECT_EQ(call("GET", "/v1/jobs/3").body.find("4711"), std::string::npos);
}

TEST_F(ServerTest, ScriptsAreChecked) {
  const auto with = [&](const std::string& script) {
    return call("POST", "/v1/jobs",
                format(R"({{"spec":{{"name":"a","groups":[{{"launch":"script"}}]}},"script":"{}"}})", script));
  };
  EXPECT_EQ(with("#!/bin/sh\\n" + std::string(2000, 'x')).status, 413);
  const auto plain = with("echo hello");
  EXPECT_EQ(plain.status, 400);
  EXPECT_NE(plain.body.find("does not look like a batch script"), std::string::npos);
  EXPECT_NE(with("#!/bin/sh\\r\\ntrue\\r\\n").body.find("DOS line breaks"), std::string::npos);
  EXPECT_NE(with("#!/bin/sh\\n\\u0000").body.find("binary"), std::string::npos);
  EXPECT_EQ(with("").status, 400);
}

TEST_F(ServerTest, NonsenseIsRefusedInWords) {
  EXPECT_EQ(call("GET", "/v1/nothing").status, 404);
  EXPECT_EQ(call("DELETE", "/v1/jobs").status, 405);
  EXPECT_EQ(call("GET", "/v1/jobs/banana").status, 400);
  EXPECT_EQ(call("GET", "/v1/jobs/77").status, 404);
  EXPECT_EQ(call("POST", "/v1/jobs", "{").status, 400);
  EXPECT_EQ(call("POST", "/v1/jobs", "").status, 400);
  EXPECT_EQ(call("GET", "/v1/jobs?state=sleepy").status, 400);
  EXPECT_EQ(call("GET", "/v1/steps/1.0").status, 404);
  EXPECT_EQ(call("GET", "/v1/steps/x").status, 400);
  EXPECT_EQ(call("GET", "/v1/nodes/n1").status, 404);
  EXPECT_EQ(call("GET", "/v1/link", {}, local(0)).status, 401);
  EXPECT_EQ(call("GET", "/v1/link", {}, agent("n1")).status, 426);
}

TEST_F(ServerTest, WithoutProofNobodySpeaks) {
  const Peer nobody;
  EXPECT_EQ(call("GET", "/v1/jobs", {}, nobody).status, 401);
  EXPECT_EQ(call("GET", "/v1/ping", {}, nobody).status, 200);
  EXPECT_EQ(call("GET", "/v1/jobs", {}, agent("n1")).status, 403);
}

TEST_F(ServerTest, AnotherUsersJobIsSafe) {
  ASSERT_EQ(call("POST", "/v1/jobs", kJob, local(54321)).body, R"({"job_id":1})");
  EXPECT_EQ(call("POST", "/v1/jobs/1/cancel", "{}", local(54322)).status, 403);
  EXPECT_EQ(call("GET", "/v1/jobs/1/script", {}, local(54322)).status, 403);
  EXPECT_EQ(call("GET", "/v1/jobs/1", {}, local(54322)).status, 200);
  EXPECT_EQ(call("POST", "/v1/tokens", "{}", local(54322)).status, 403);
  EXPECT_EQ(call("POST", "/v1/jobs/1/cancel", "{}", local(54321)).status, 200);
}

TEST_F(ServerTest, ManyJobsAreCancelledInOneRequestAndEachIsRefusedOnItsOwn) {
  std::string list = "[";
  for (int i = 0; i < 3000; ++i) list += (i ? "," : "") + std::string(kJob);
  ASSERT_EQ(call("POST", "/v1/jobs", list + "]", local(54321)).status, 200);
  ASSERT_EQ(call("POST", "/v1/jobs", kJob, local(54322)).body, R"({"job_id":3001})");
  const auto cancel = [&](const std::string& body, std::uint32_t uid) {
    return call("POST", "/v1/jobs/cancel", body, local(uid));
  };
  EXPECT_EQ(cancel("{}", 54321).status, 400);  // never everything by accident
  EXPECT_EQ(cancel(R"({"targets":["x"]})", 54321).status, 400);
  EXPECT_EQ(cancel(R"({"states":["sleepy"]})", 54321).status, 400);
  EXPECT_EQ(cancel(R"({"nodes":"n99"})", 54321).status, 404);
  EXPECT_EQ(cancel(R"({"users":["nobody-here"]})", 54321).status, 400);

  const auto mixed = decode_cancelled_many(cancel(R"({"targets":["1","3001","9999","2_[0-4]"]})", 54321).body);
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ(mixed->done, 1u);
  ASSERT_EQ(mixed->failed.size(), 3u);
  EXPECT_EQ(mixed->failed[0].target, "3001");
  EXPECT_EQ(mixed->failed[0].error.code, Errc::kDenied);
  EXPECT_EQ(mixed->failed[1].error.code, Errc::kNotFound);

  const int before = log.appends;
  EXPECT_EQ(cancel(R"({"users":["54321","54322"],"states":["pending"],"names":["a"]})", 54321).body.substr(0, 12),
            R"({"done":2999)");
  EXPECT_LT(log.appends, before + 100);
  EXPECT_EQ(call("GET", "/v1/jobs?state=pending").body.find("\"id\":1,"), std::string::npos);
  EXPECT_NE(call("GET", "/v1/jobs?state=pending").body.find("\"id\":3001"), std::string::npos);
}

TEST_F(ServerTest, AScriptCannotBeNamedByItsId) {
  const std::string stolen =
      R"({"spec":{"name":"a","groups":[{"launch":"nothing"}],"script":"abcd","environment":"ef"}})";
  ASSERT_EQ(call("POST", "/v1/jobs", stolen).status, 200);
  const auto job = call("GET", "/v1/jobs/1").body;
  EXPECT_EQ(job.find("abcd"), std::string::npos);
  EXPECT_EQ(job.find("\"ef\""), std::string::npos);
}

TEST_F(ServerTest, LongPollsAnswerWhenItHoldsOrTimeIsUp) {
  (void)call("POST", "/v1/jobs", kJob);
  const auto ended = send("GET", "/v1/jobs/1/wait?for=ended");
  const auto started = send("GET", "/v1/jobs/1/wait?for=started&timeout_s=7");
  EXPECT_FALSE(ended->done());
  loop.fire(seconds(7));
  EXPECT_EQ(started->response->status, 204);
  ASSERT_EQ(call("POST", "/v1/jobs/1/cancel", "{}").status, 200);
  loop.until([&] { return ended->done(); });
  EXPECT_EQ(ended->response->status, 200);
  EXPECT_NE(ended->response->body.find("cancelled"), std::string::npos);
  EXPECT_EQ(call("GET", "/v1/jobs/1/wait?for=ever").status, 400);
}

TEST_F(ServerTest, AnInteractiveJobEndsWithItsClient) {
  const std::string job = R"({"spec":{"name":"a","groups":[{"launch":"nothing"}],"interactive":true}})";
  const auto client = send("POST", "/v1/jobs?wait=started", job);
  loop.until([&] { return call("GET", "/v1/jobs/1").status == 200; });
  const auto minute_passes = [this] {
    for (int i = 0; i < Presence::kSlices; ++i) loop.fire(seconds(60) / Presence::kSlices);
  };
  minute_passes();
  EXPECT_NE(call("GET", "/v1/jobs/1").body.find("pending"), std::string::npos);
  client->gone();
  loop.fire(seconds(60) / Presence::kSlices);  // as many timers as are due after a pause of ours
  EXPECT_NE(call("GET", "/v1/jobs/1").body.find("pending"), std::string::npos);
  minute_passes();
  loop.until([&] { return call("GET", "/v1/jobs/1").body.find("pending") == std::string::npos; });
}

TEST_F(ServerTest, ATokenIsGoodOnce) {
  const std::string once = token(R"({"role":"compute","node":"n1","ttl_s":60})");
  EXPECT_EQ(redeem("x.y.z", "n1").status, 403);
  EXPECT_EQ(redeem(once, "../etc").status, 400);
  EXPECT_EQ(redeem(once, "n1", stranger(), "bad").status, 400);  // and the token is still good
  EXPECT_NE(redeem(once, "n2").status, 200);                     // it is for n1
  const auto joined = redeem(once, "n1");
  EXPECT_EQ(joined.status, 200) << joined.body;
  EXPECT_NE(joined.body.find("certificate of node:n1 as compute"), std::string::npos);
  EXPECT_NE(redeem(once, "n1").status, 200);
}

TEST_F(ServerTest, ATokenUsedTwiceAtOnceLetsOneIn) {
  const std::string once = token(R"({"node":"n[1-2]"})");
  std::vector<std::shared_ptr<TestCall>> calls;
  for (const char* name : {"n1", "n2"})
    calls.push_back(
        send("POST", "/v1/join", format(R"({{"token":"{}","node":"{}","csr":"good"}})", once, name), stranger()));
  loop.until([&] { return calls[0]->done() && calls[1]->done(); });
  EXPECT_EQ((calls[0]->response->status == 200) + (calls[1]->response->status == 200), 1);
}

TEST_F(ServerTest, ATokenSaysWhichNamesItGives) {
  EXPECT_EQ(call("POST", "/v1/tokens", "{}").status, 400);
  EXPECT_EQ(call("POST", "/v1/tokens", R"({"any_name":true,"replace":true})").status, 400);
  EXPECT_EQ(call("POST", "/v1/tokens", R"({"any_name":true,"node":"n1"})").status, 400);
  EXPECT_EQ(call("POST", "/v1/tokens", R"({"any_name":true,"role":"broker"})").status, 400);
  EXPECT_EQ(call("POST", "/v1/tokens", R"({"node":"n1","ttl_s":99999999})").status, 400);
  EXPECT_EQ(call("POST", "/v1/tokens", R"({"node":"n1","uses":100000})").status, 400);
  (void)join("n1");
  EXPECT_EQ(redeem(token(R"({"any_name":true})"), "n1").status, 409);
  EXPECT_EQ(redeem(token(R"({"node":"n1"})"), "n1").status, 409);  // it is up
}

TEST_F(ServerTest, AStrangerWhoGuessesWaitsAndCostsNoSignature) {
  const std::string good = token(R"({"node":"n1"})");
  const std::string almost = good.substr(0, good.find('.')) + ".00000000.cafe";
  for (std::uint32_t i = 0; i < TryGuard::kTries; ++i) EXPECT_EQ(redeem(almost, "n1").status, 403);
  EXPECT_EQ(redeem(almost, "n1").status, 429);
  EXPECT_EQ(signatures, 0u);
  EXPECT_EQ(redeem(almost, "n1", stranger("10.0.0.2")).status, 403);
  EXPECT_EQ(redeem(good, "n1").status, 200) << "who knows a secret waits for no guesser beside it";
}

TEST_F(ServerTest, ARevokedNodeIsCutAndTheOthersHearOfIt) {
  Agent first = join("n1"), second = join("n2");
  const std::string key = second.told<Welcome>()->ticket_key;
  ASSERT_EQ(call("POST", "/v1/nodes/n1", R"({"revoke":true})").status, 200);
  loop.until([&] { return second.told<Revoked>() != nullptr && first.told<Refused>() != nullptr; });
  EXPECT_TRUE(first.wire->gone);
  EXPECT_EQ(first.told<Revoked>(), nullptr);
  EXPECT_EQ(second.told<Revoked>()->node, "n1");
  EXPECT_NE(second.told<Revoked>()->ticket_key, key);  // what n1 has seen of tickets opens nothing any more
  EXPECT_FALSE(second.wire->gone);
  EXPECT_EQ(call("GET", "/v1/link", {}, agent("n1", "serial1")).status, 401);
  EXPECT_EQ(call("GET", "/v1/link", {}, agent("n2", "")).status, 401);
  ASSERT_EQ(call("DELETE", "/v1/nodes/n1").status, 200);
  Agent removed = open_link("n1", "serial1");
  loop.until([&] { return removed.told<Refused>() != nullptr; });
  EXPECT_EQ(call("GET", "/v1/nodes/n1").status, 404);
}

TEST_F(ServerTest, ANodeRenewsItsCertificateAndNobodyElseDoes) {
  Agent first = join("n1"), second = join("n2");
  const std::string key = second.told<Welcome>()->ticket_key;
  const std::string ask = R"({"csr":"good"})";
  EXPECT_EQ(call("POST", "/v1/renew", ask).status, 401);
  EXPECT_EQ(call("POST", "/v1/renew", ask, stranger()).status, 401);
  EXPECT_EQ(call("POST", "/v1/renew", ask, agent("n1", "serial2")).status, 401) << "another's";
  EXPECT_EQ(call("POST", "/v1/renew", ask, agent("n9", "serial9")).status, 404);
  EXPECT_EQ(call("POST", "/v1/renew", R"({"csr":"bad"})", agent("n1", "serial1")).status, 400);
  const auto renewed = call("POST", "/v1/renew", ask, agent("n1", "serial1"));
  ASSERT_EQ(renewed.status, 200) << renewed.body;
  EXPECT_NE(renewed.body.find("certificate of node:n1 as compute"), std::string::npos);
  const std::string serial = format("serial{}", signatures);
  EXPECT_FALSE(first.wire->gone) << "the old one counts still";
  EXPECT_EQ(second.told<Revoked>(), nullptr);
  Agent again = open_link("n1", serial);
  loop.until([&] { return again.told<Welcome>() != nullptr && second.told<Revoked>() != nullptr; });
  EXPECT_EQ(second.told<Revoked>()->certificate, serial);
  EXPECT_EQ(second.told<Revoked>()->ticket_key, key) << "tickets that the same holder has seen stay good";
  EXPECT_EQ(call("GET", "/v1/link", {}, agent("n1", "serial1")).status, 401);
  EXPECT_EQ(call("POST", "/v1/renew", ask, agent("n1", "serial1")).status, 401);
}

TEST_F(ServerTest, ANodeThatRenewsAgainAndAgainWaits) {
  (void)join("n1"), (void)join("n2");
  const std::string ask = R"({"csr":"good"})";
  for (std::uint32_t i = 0; i < TryGuard::kTries; ++i)
    ASSERT_EQ(call("POST", "/v1/renew", ask, agent("n1", "serial1")).status, 200) << i;
  const auto before = signatures;
  EXPECT_EQ(call("POST", "/v1/renew", ask, agent("n1", "serial1")).status, 429);
  EXPECT_EQ(signatures, before);
  EXPECT_EQ(call("POST", "/v1/renew", ask, agent("n2", "serial2")).status, 200);
}

TEST_F(ServerTest, APingThroughAnAgentShowsItsOwnNode) {
  Agent node = join("n1");
  (void)join("n2");
  EXPECT_EQ(decode_ping(call("GET", "/v1/ping").body)->node, "");
  ApiCall forwarded;
  forwarded.method = "GET";
  forwarded.target = "/v1/ping";
  node.frame(LinkFrame::kApiCall, 1, encode(forwarded));
  loop.until([&] { return node.framed(LinkFrame::kApiReply, 1) != nullptr; });
  const auto reply = decode_api_reply(node.framed(LinkFrame::kApiReply, 1)->payload);
  ASSERT_EQ(reply->status, 200);
  const auto ping = decode_ping(reply->body);
  EXPECT_EQ(ping->node, "n1");
  EXPECT_EQ(ping->node_state, "idle");
  EXPECT_EQ(ping->cores, 4u);
  EXPECT_GT(ping->wall_us, 0);
  EXPECT_EQ(ping->protocol_max, kProtocolMax);
}

TEST_F(ServerTest, ATokenThatIsUsedUpOrTooOldSaysWhichItIs) {
  const std::string once = token(R"({"node":"n[1-2]"})"), old = token(R"({"node":"n3","ttl_s":60})");
  ASSERT_EQ(redeem(once, "n1").status, 200);
  EXPECT_NE(redeem(once, "n2").body.find("used as often as it may be"), std::string::npos) << redeem(once, "n2").body;
  const std::string almost = once.substr(0, once.find('.')) + ".00000000.cafe";
  EXPECT_NE(redeem(almost, "n2").body.find("unknown, used or expired"), std::string::npos) << "guessing tells nothing";
  clock.advance(minutes(2));
  EXPECT_NE(redeem(old, "n3").body.find("expired"), std::string::npos) << redeem(old, "n3").body;
}

TEST_F(ServerTest, NobodySpeaksThroughALinkBeforeItIsWelcome) {
  ASSERT_EQ(call("POST", "/v1/jobs", kJob, local(54321)).status, 200);
  Agent node = join("n1");
  loop.until([&] { return node.told<LaunchAttempt>() != nullptr; });
  Agent thief{send("GET", "/v1/link", {}, agent("n1", "serial1"), "lockstep-link/1")->wire};
  ApiCall forwarded;
  forwarded.method = "GET";
  forwarded.target = "/v1/jobs/1/script";
  forwarded.uid = forwarded.gid = 54321;
  thief.frame(LinkFrame::kApiCall, 1, encode(forwarded));
  loop.until([&] { return thief.framed(LinkFrame::kApiReply, 1) != nullptr; });
  EXPECT_EQ(decode_api_reply(thief.framed(LinkFrame::kApiReply, 1)->payload)->status, 403);
}

TEST_F(ServerTest, AJobGoesToItsNodeAndItsReportsComeBack) {
  Agent node = join("n1");
  ASSERT_EQ(call("POST", "/v1/jobs", kJob, local(54321)).body, R"({"job_id":1})");
  loop.until([&] { return node.told<LaunchAttempt>() != nullptr; });
  const LaunchAttempt* launch = node.told<LaunchAttempt>();
  EXPECT_TRUE(launch->has_script);
  EXPECT_EQ(launch->process.uid, 54321u);
  EXPECT_NE(launch->script.find("true"), std::string::npos);
  node.say(Report{1, JobId{1}, 1, AttemptStarted{}});
  node.say(Report{2, JobId{1}, 1, ScriptEnded{{3, 0, false}}});
  loop.until([&] { return node.told<StopWork>() != nullptr; });
  node.say(Report{3, JobId{1}, 1, MemberStopped{}});
  loop.until([&] { return call("GET", "/v1/jobs/1").body.find("\"failed\"") != std::string::npos; });
  EXPECT_NE(node.told<ReportAck>(), nullptr);
}

TEST_F(ServerTest, AStepNobodyWaitsForIsCancelled) {
  Agent node = join("n1");
  StepRequest ask = step_in_a_job_on(node);
  const auto first = send("POST", "/v1/jobs/1/steps?wait=started", encode(ask));
  loop.until([&] { return first->done(); });
  const auto second = send("POST", "/v1/jobs/1/steps?wait=started", encode(ask));
  loop.until([&] { return call("GET", "/v1/steps/1.1").body.find("\"pending\"") != std::string::npos; });
  EXPECT_FALSE(second->done());  // the first one has the only core
  second->gone();
  loop.until([&] { return call("GET", "/v1/steps/1.1").body.find("\"ended\"") != std::string::npos; });
  EXPECT_EQ(call("GET", "/v1/steps/1.0").body.find("\"ended\""), std::string::npos);
}

// Which client a step belongs to is the request's to say, not the words of its specification.
TEST_F(ServerTest, AFirstStepNamesNoRequestOfItsOwn) {
  const std::string job =
      R"({"spec":{"name":"a","groups":[{"launch":"nothing"}]},"first_step":{"argv":["true"],"tasks":1,"options":)"
      R"({"lockstep.request":"a long name","lockstep.client":"here","mine":"1"}}})";
  ASSERT_EQ(call("POST", "/v1/jobs", job).status, 200);
  const std::string detail = call("GET", "/v1/jobs/1").body;
  EXPECT_EQ(detail.find("lockstep.request"), std::string::npos) << detail;
  EXPECT_EQ(detail.find("lockstep.client"), std::string::npos);
  EXPECT_NE(detail.find("\"mine\""), std::string::npos);
}

TEST_F(ServerTest, AJobIsShownWithAllItsStepsHoweverLongTheyAre) {
  Agent node = join("n1");
  StepRequest ask = step_in_a_job_on(node);
  for (char c : {'a', 'b', 'c'}) {
    ask.spec.argv = {"true", std::string(300'000, c)};
    ASSERT_EQ(call("POST", "/v1/jobs/1/steps", encode(ask)).status, 200);
  }
  const auto detail = decode_job_detail(call("GET", "/v1/jobs/1").body);
  ASSERT_TRUE(detail.ok());
  EXPECT_EQ(detail->steps.size(), 3u);
}

// Each brings nothing new to keep; the second to arrive found no note of what was on the way, and the I/O thread spun.
TEST_F(ServerTest, StepsWithAnEnvironmentThatIsStoredAlreadyMayArriveTogether) {
  Agent node = join("n1");
  StepRequest ask = step_in_a_job_on(node);
  ask.environment = std::string("A=1\0", 4);
  ASSERT_EQ(call("POST", "/v1/jobs/1/steps", encode(ask)).status, 200);
  const auto one = send("POST", "/v1/jobs/1/steps", encode(ask));
  const auto two = send("POST", "/v1/jobs/1/steps", encode(ask));
  const auto three = send("POST", "/v1/jobs/1/steps", encode(ask));
  loop.until([&] { return one->done() && two->done() && three->done(); });
  for (const auto& step : {one, two, three}) EXPECT_EQ(step->response->status, 200);
}

// A local process's request that a node passes on.
struct Voice {
  ServerTest& test;
  ServerTest::Agent& node;
  std::uint64_t next = 1;

  ApiReply ask(std::uint32_t uid, const std::string& method, const std::string& target, const std::string& body = {}) {
    return as(next += 2, uid, method, target, body);
  }
  ApiReply as(std::uint64_t id, std::uint32_t uid, const std::string& method, const std::string& target,
              const std::string& body = {}) {
    ApiCall forwarded;
    forwarded.method = method;
    forwarded.target = target;
    forwarded.body = body;
    forwarded.uid = forwarded.gid = uid;
    node.frame(LinkFrame::kApiCall, id, encode(forwarded));
    test.loop.until([&] { return node.framed(LinkFrame::kApiReply, id) != nullptr; });
    return *decode_api_reply(node.framed(LinkFrame::kApiReply, id)->payload);
  }
};

TEST_F(ServerTest, FromAComputeNodeOnlyOwnersOfItsJobsSpeak) {
  Agent node = join("n1");
  ASSERT_EQ(call("POST", "/v1/jobs", kJob, local(54321)).status, 200);
  loop.until([&] { return node.told<LaunchAttempt>() != nullptr; });
  Voice voice{*this, node};
  EXPECT_EQ(voice.ask(54321, "GET", "/v1/jobs?id=1").status, 200);
  EXPECT_EQ(voice.ask(54322, "GET", "/v1/jobs").status, 403);
  EXPECT_EQ(voice.ask(0, "GET", "/v1/jobs").status, 403);        // root of a node is nobody here
  EXPECT_EQ(voice.as(2, 54321, "GET", "/v1/jobs").status, 429);  // even ids are ours
}

TEST_F(ServerTest, AnAdministratorsJobMakesItsNodeNoAdministrator) {
  ASSERT_EQ(call("POST", "/v1/jobs", kJob, local(54321)).status, 200);
  auto users = decode_records(Kind::kUser, call("GET", "/v1/users").body);
  ASSERT_TRUE(users.ok());
  for (const Record& record : *users)
    if (User user = *std::get<Ref<User>>(record); user.uid == 54321) {
      user.admin = true;
      const auto ref = std::make_shared<const User>(user);
      ASSERT_EQ(call("PUT", "/v1/users/" + user.meta.name, encode_whole(Ref<User>(ref))).status, 200);
    }
  ASSERT_EQ(call("POST", "/v1/tokens", R"({"node":"x"})", local(54321)).status, 200);
  Agent node = join("n1");
  loop.until([&] { return node.told<LaunchAttempt>() != nullptr; });
  Voice voice{*this, node};
  EXPECT_EQ(voice.ask(54321, "GET", "/v1/jobs/1/script").status, 200);
  EXPECT_EQ(voice.ask(54321, "POST", "/v1/tokens", R"({"node":"x"})").status, 403);
  EXPECT_EQ(voice.ask(54321, "POST", "/v1/nodes/n1", R"({"trust_administrators":true})").status, 403);
  EXPECT_EQ(voice.ask(54321, "PUT", "/v1/partitions/p", R"({"nodes":["ALL"]})").status, 403);
  ASSERT_EQ(call("POST", "/v1/nodes/n1", R"({"trust_administrators":true})").status, 200);
  EXPECT_EQ(voice.ask(54321, "POST", "/v1/tokens", R"({"node":"x"})").status, 200);
}

TEST_F(ServerTest, WhoseJobItIsIsNotTheSubmittersToSay) {
  ASSERT_EQ(call("GET", "/v1/jobs").status, 200);  // root is user 1
  const std::string as_root = R"({"spec":{"user":1,"name":"a","groups":[{"launch":"nothing"}]}})";
  ASSERT_EQ(call("POST", "/v1/jobs", as_root, local(54321)).status, 200);
  const auto job = decode_job_detail(call("GET", "/v1/jobs/1").body);
  ASSERT_TRUE(job.ok());
  EXPECT_NE(job->job->spec->user, UserId{1});
}

TEST_F(ServerTest, RootOfANodeReachesWhatIsThereAndNothingElse) {
  Agent first = join("n1");
  ASSERT_EQ(call("POST", "/v1/jobs", kJob).body, R"({"job_id":1})");
  loop.until([&] { return first.told<LaunchAttempt>() != nullptr; });
  ASSERT_EQ(call("POST", "/v1/nodes/n1", R"({"drain":true,"reason":"x"})").status, 200);
  Agent second = join("n2");
  ASSERT_EQ(call("POST", "/v1/jobs", kJob).body, R"({"job_id":2})");
  loop.until([&] { return second.told<LaunchAttempt>() != nullptr; });

  StepRequest step;
  step.spec.argv = {"true"};
  step.spec.tasks = 1;
  Voice voice{*this, first};
  EXPECT_EQ(voice.ask(0, "GET", "/v1/jobs").status, 200);
  EXPECT_EQ(voice.ask(0, "GET", "/v1/jobs/1/script").status, 200);
  EXPECT_EQ(voice.ask(0, "GET", "/v1/jobs/2/script").status, 403);
  EXPECT_EQ(voice.ask(0, "GET", "/v1/jobs/2/environment").status, 403);
  EXPECT_EQ(voice.ask(0, "GET", "/v1/steps/2.0/io").status, 403);
  EXPECT_EQ(voice.ask(0, "POST", "/v1/jobs/2/steps", encode(step)).status, 403);
  EXPECT_EQ(voice.ask(0, "POST", "/v1/jobs", kJob).status, 403);
  EXPECT_EQ(voice.ask(0, "POST", "/v1/jobs", format("[{}]", kJob)).status, 403);
  EXPECT_EQ(voice.ask(0, "POST", "/v1/jobs/1/steps", encode(step)).status, 200);
  EXPECT_EQ(voice.ask(0, "POST", "/v1/jobs/1/cancel", "{}").status, 200);
  ASSERT_EQ(call("POST", "/v1/nodes/n2", R"({"trust_administrators":true})").status, 200);
  Voice trusted{*this, second};
  EXPECT_EQ(trusted.ask(0, "POST", "/v1/jobs", kJob).status, 200);
}

TEST_F(ServerTest, ABrokenPeerLosesItsLinkAndNothingElse) {
  Agent node = join("n1");
  node.wire->data(std::string("\xff\xff\xff\xff\x01", 5) + std::string(20, 'x'));
  EXPECT_TRUE(node.wire->gone);
  Agent again = join("n1");
  again.frame(LinkFrame::kMessage, 0, "{\"nonsense\":");
  EXPECT_TRUE(again.wire->gone);
  EXPECT_EQ(call("GET", "/v1/ping").status, 200);
}

TEST_F(ServerTest, AWatchSeesEveryChange) {
  (void)call("GET", "/v1/users");
  const auto everything = call("GET", "/v1/watch");
  EXPECT_NE(everything.body.find("partition"), std::string::npos);
  const auto next = send("GET", "/v1/watch?from=1000000");
  EXPECT_FALSE(next->done());
  const std::string ping = call("GET", "/v1/ping").body;
  const auto seq = ping.substr(ping.find("\"seq\":") + 6);
  const auto since = send("GET", "/v1/watch?from=" + seq.substr(0, seq.find(',')));
  EXPECT_FALSE(since->done());
  (void)call("POST", "/v1/jobs", kJob);
  loop.until([&] { return since->done(); });
  EXPECT_NE(since->response->body.find("\"job\""), std::string::npos);
}

}  // namespace
}  // namespace lockstep
