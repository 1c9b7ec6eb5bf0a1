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
 protected:
  void SetUp() override {
    ApiPowers powers;
    powers.sha256_hex = [](std::string_view text) { return format("{:064x}", std::hash<std::string_view>{}(text)); };
    powers.hmac_sha256_hex = [](std::string_view key, std::string_view text) {
      return format("{:016x}", std::hash<std::string>{}(std::string(key).append(text)));
    };
    powers.random_hex = [this](std::size_t) { return format("{:012x}", ++random); };
    powers.sign = [](const std::string& csr, const std::string& name, const std::string& role) -> Result<std::string> {
      if (csr != "good")
        return invalid("is no request", "csr");
      return format("certificate of {} as {}", name, role);
    };
    powers.ca_fingerprint = "cafe";
    ControllerSettings settings;
    settings.api.script_bytes_max = 1000;
    settings.api.only_uid = only_uid;
    controller =
        std::move(*ControllerLoop::open({loop, log, history, clock}, settings, std::move(powers), {}, nullptr));
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
  static Peer agent(const std::string& node, const std::string& role = "compute") {
    Peer peer;
    peer.how = Peer::How::kCertificate;
    peer.certificate_name = "node:" + node;
    peer.certificate_role = role;
    return peer;
  }

  std::shared_ptr<TestCall> send(const std::string& method, const std::string& target, const std::string& body = {},
                                 const Peer& peer = local(0), const std::string& upgrade = {}) {
    HttpRequest request;
    request.method = method;
    const auto mark = target.find('?');
    request.path = target.substr(0, mark);
    if (mark != std::string::npos)
      for (const auto& part : split(target.substr(mark + 1), '&'))
        request.query[part.substr(0, part.find('='))] = part.substr(part.find('=') + 1);
    if (!upgrade.empty())
      request.headers["upgrade"] = upgrade;
    request.body = body;
    request.peer = peer;
    auto call = std::make_shared<TestCall>();
    controller->handle(std::make_shared<TestExchange>(std::move(request), call));
    return call;
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
  Agent join(const std::string& name) {
    const auto link = send("GET", "/v1/link", {}, agent(name), "lockstep-link/1");
    EXPECT_NE(link->wire, nullptr);
    Agent out{link->wire};
    Hello hello;
    hello.facts.meta.name = name;
    hello.facts.boot_id = "boot";
    hello.facts.cores = 4;
    hello.facts.memory_mb = 4096;
    out.say(hello);
    loop.until([&] { return out.told<Welcome>() != nullptr; });
    return out;
  }

  TestLoop loop;
  TestLog log;
  TestHistory history;
  TestClock clock;
  std::uint64_t random = 0;
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
  Peer forwarded = local(1002);
  forwarded.how = Peer::How::kForwarded;
  forwarded.certificate_name = "node:login";
  for (const Peer& peer : {local(0), local(1002), forwarded}) {
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
  EXPECT_EQ(cancel(R"({"users":["nobody-here"]})", 54321).body, R"({"done":0,"failed":[]})");

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
  loop.fire(seconds(60));
  EXPECT_NE(call("GET", "/v1/jobs/1").body.find("pending"), std::string::npos);
  client->gone();
  loop.fire(seconds(60));
  loop.until([&] { return call("GET", "/v1/jobs/1").body.find("pending") == std::string::npos; });
}

TEST_F(ServerTest, ATokenIsGoodOnce) {
  const auto made = call("POST", "/v1/tokens", R"({"role":"compute","node":"n1","ttl_s":60})");
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string token = made.body.substr(10, made.body.size() - 12);
  const auto ask = [&](const std::string& with, const std::string& node, const std::string& csr) {
    return call("POST", "/v1/join", format(R"({{"token":"{}","node":"{}","csr":"{}"}})", with, node, csr), Peer{});
  };
  EXPECT_EQ(ask("x.y.z", "n1", "good").status, 403);
  EXPECT_EQ(ask(token, "../etc", "good").status, 400);
  EXPECT_EQ(ask(token, "n1", "bad").status, 400);   // and the token is still good
  EXPECT_NE(ask(token, "n2", "good").status, 200);  // it is for n1
  const auto joined = ask(token, "n1", "good");
  EXPECT_EQ(joined.status, 200) << joined.body;
  EXPECT_NE(joined.body.find("certificate of node:n1 as compute"), std::string::npos);
  EXPECT_NE(ask(token, "n1", "good").status, 200);
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
  const std::string job = R"({"spec":{"name":"a","groups":[{"launch":"nothing"}]}})";
  ASSERT_EQ(call("POST", "/v1/jobs", job).status, 200);
  loop.until([&] { return node.told<LaunchAttempt>() != nullptr; });
  StepRequest ask;
  ask.job = JobId{1};
  ask.spec.argv = {"true"};
  ask.spec.tasks = 1;
  const auto first = send("POST", "/v1/jobs/1/steps?wait=started", encode(ask));
  loop.until([&] { return first->done(); });
  const auto second = send("POST", "/v1/jobs/1/steps?wait=started", encode(ask));
  loop.until([&] { return call("GET", "/v1/steps/1.1").body.find("\"pending\"") != std::string::npos; });
  EXPECT_FALSE(second->done());  // the first one has the only core
  second->gone();
  loop.until([&] { return call("GET", "/v1/steps/1.1").body.find("\"ended\"") != std::string::npos; });
  EXPECT_EQ(call("GET", "/v1/steps/1.0").body.find("\"ended\""), std::string::npos);
}

TEST_F(ServerTest, FromAComputeNodeOnlyOwnersOfItsJobsSpeak) {
  Agent node = join("n1");
  ASSERT_EQ(call("POST", "/v1/jobs", kJob, local(54321)).status, 200);
  loop.until([&] { return node.told<LaunchAttempt>() != nullptr; });
  const auto ask = [&](std::uint64_t id, std::uint32_t uid, const std::string& target) {
    ApiCall forwarded;
    forwarded.method = "GET";
    forwarded.target = target;
    forwarded.uid = forwarded.gid = uid;
    node.frame(LinkFrame::kApiCall, id, encode(forwarded));
    loop.until([&] { return node.framed(LinkFrame::kApiReply, id) != nullptr; });
    return *decode_api_reply(node.framed(LinkFrame::kApiReply, id)->payload);
  };
  EXPECT_EQ(ask(1, 54321, "/v1/jobs?id=1").status, 200);
  EXPECT_EQ(ask(3, 54322, "/v1/jobs").status, 403);
  EXPECT_EQ(ask(5, 0, "/v1/jobs").status, 403);      // root of a node is nobody here
  EXPECT_EQ(ask(6, 54321, "/v1/jobs").status, 429);  // even ids are ours
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
