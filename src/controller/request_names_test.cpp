// A submission that is sent again is the same one: to the same controller, to one that died after it committed, and
// while the first is still on its way.
#include "controller/request_names.h"

#include <gtest/gtest.h>

#include <set>

#include "controller/routes.h"
#include "controller/test_server.h"
#include "routes/query_values.h"

namespace lockstep {
namespace {

constexpr const char* kName = "0123456789abcdef0123456789abcdef";
constexpr const char* kBody = R"({"spec":{"name":"a","groups":[{"launch":"script"}]},"script":"#!/bin/sh\ntrue\n"})";
const auto local = TestServer::local;

std::string target(const std::string& name = kName, const std::string& more = "") {
  return "/v1/jobs?request=" + name + more;
}

TEST(RequestNames, TheSameRequestIsOneJob) {
  TestServer server;
  EXPECT_EQ(server.call("POST", target(), kBody, local(1)).body, R"({"job_id":1})");
  EXPECT_EQ(server.call("POST", target(), kBody, local(1)).body, R"({"job_id":1})");
  EXPECT_EQ(server.call("POST", target(), kBody, local(2)).body, R"({"job_id":2})") << "another user's name";
  EXPECT_EQ(server.call("POST", "/v1/jobs", kBody, local(1)).body, R"({"job_id":3})");
  const std::string array =
      R"({"spec":{"groups":[{"launch":"script"}]},"script":"#!/bin/sh\n","array":{"indices":"0-9"}})";
  EXPECT_EQ(server.call("POST", target("array-0123456789"), array, local(1)).body, R"({"job_id":4})");
  EXPECT_EQ(server.call("POST", "/v1/jobs/4_3/cancel", "{}", local(1)).status, 200);
  EXPECT_EQ(server.call("POST", target("array-0123456789"), array, local(1)).body, R"({"job_id":4})");
}

TEST(RequestNames, WhatADyingControllerCommittedIsKnownToTheNext) {
  TestServer server;
  server.call("GET", "/v1/status", {}, local(1));
  const auto unanswered = server.send("POST", target(), kBody, local(1));
  server.restart();  // stops with what it has committed, and with nothing answered
  EXPECT_FALSE(unanswered->response && unanswered->response->status == 200);
  EXPECT_EQ(server.call("POST", target(), kBody, local(1)).body, R"({"job_id":1})");
  EXPECT_EQ(server.call("POST", "/v1/jobs", kBody, local(1)).body, R"({"job_id":2})");
  const std::string jobs = server.call("GET", "/v1/jobs", {}, local(1)).body;
  EXPECT_EQ(jobs.find("lockstep.request"), std::string::npos) << "it is no label of the job: " << jobs;
}

TEST(RequestNames, WhileTheFirstIsOnItsWayTheSecondWaitsForItsAnswer) {
  TestServer server;
  server.call("GET", "/v1/status", {}, local(1));
  const auto first = server.send("POST", target(), kBody, local(1));
  const auto second = server.send("POST", target(), kBody, local(1));
  server.loop.until([&] { return first->done() && second->done(); });
  EXPECT_EQ(first->response->body, R"({"job_id":1})");
  EXPECT_EQ(second->response->body, R"({"job_id":1})");
  const auto bad = server.send("POST", target("bad-0123456789abc"), R"({"spec":{"groups":[]}})", local(1));
  const auto worse = server.send("POST", target("bad-0123456789abc"), R"({"spec":{"groups":[]}})", local(1));
  server.loop.until([&] { return bad->done() && worse->done(); });
  EXPECT_EQ(bad->response->status, 400);
  EXPECT_EQ(worse->response->status, 400);
}

TEST(RequestNames, AnotherBodyUnderAKnownNameIsRefused) {
  TestServer server;
  const std::string other = R"({"spec":{"name":"b","groups":[{"launch":"script"}]},"script":"#!/bin/sh\ntrue\n"})";
  server.call("GET", "/v1/status", {}, local(1));
  const auto first = server.send("POST", target(), kBody, local(1));
  const auto second = server.send("POST", target(), other, local(1));  // while the first is on its way
  server.loop.until([&] { return first->done() && second->done(); });
  EXPECT_EQ(first->response->body, R"({"job_id":1})");
  const auto refused = [](const HttpResponse& reply) {
    EXPECT_EQ(reply.status, 409) << reply.body;
    EXPECT_NE(reply.body.find("made job 1"), std::string::npos) << reply.body;
  };
  refused(*second->response);
  refused(server.call("POST", target(), other, local(1)));
  server.restart();
  refused(server.call("POST", target(), other, local(1)));
  EXPECT_EQ(server.call("POST", target(), kBody, local(1)).body, R"({"job_id":1})");
  EXPECT_EQ(server.call("POST", target("fedcba9876543210"), other, local(1)).body, R"({"job_id":2})");
}

TEST(RequestNames, EveryByteOfABodyCounts) {
  const std::string body(29, 'x');
  std::set<std::string> digests{body_digest(body), body_digest(body + "x"), body_digest("")};
  for (std::size_t i = 0; i < body.size(); ++i)
    for (const char c : {'y', '\xf8'}) {
      std::string other = body;
      other[i] = c;
      digests.insert(body_digest(other));
    }
  EXPECT_EQ(digests.size(), 3 + 2 * body.size());
}

TEST(RequestNames, OnlyOneSubmissionIsNamedAndOnlyByAName) {
  TestServer server;
  for (const std::string name : {"", "short", "0123456789abcdef%20", "0123456789abcdef%2f"})
    EXPECT_EQ(server.call("POST", target(name), kBody, local(1)).status, 400) << name;
  EXPECT_EQ(server.call("POST", target(std::string(65, 'a')), kBody, local(1)).status, 400);
  EXPECT_EQ(server.call("GET", "/v1/jobs?request=0123456789abcdef", {}, local(1)).status, 400);
}

TEST(RequestNames, AListIsMadeOnceAndAnythingNewInItIsMade) {
  TestServer server;
  server.call("GET", "/v1/status", {}, local(1));
  const std::string two = format("[{},{}]", kBody, kBody), three = format("[{},{},{}]", kBody, kBody, kBody);
  const std::string made = R"({"jobs":[{"job_id":1},{"job_id":2}]})";
  const auto first = server.send("POST", target(), two, local(1));
  const auto second = server.send("POST", target(), two, local(1));  // while the first is on its way
  server.loop.until([&] { return first->done() && second->done(); });
  EXPECT_EQ(first->response->body, made);
  EXPECT_EQ(second->response->body, made);
  const auto unanswered = server.send("POST", target("list-0123456789ab"), two, local(1));
  server.restart();
  EXPECT_FALSE(unanswered->response && unanswered->response->status == 200);
  EXPECT_EQ(server.call("POST", target("list-0123456789ab"), three, local(1)).body,
            R"({"jobs":[{"job_id":3},{"job_id":4},{"job_id":5}]})");
  EXPECT_EQ(server.call("POST", target(), two, local(1)).body, made);
  const std::string other = R"({"spec":{"name":"b","groups":[{"launch":"script"}]},"script":"#!/bin/sh\ntrue\n"})";
  const std::string mixed = server.call("POST", target(), format("[{},{}]", kBody, other), local(1)).body;
  EXPECT_NE(mixed.find(R"({"job_id":1})"), std::string::npos) << mixed;
  EXPECT_NE(mixed.find("made job 2"), std::string::npos) << mixed;
  EXPECT_EQ(server.call("POST", target("list-0123456789ab"), kBody, local(1)).body, R"({"job_id":6})")
      << "a submission of its own has no place in a list";
}

// A job with a node, and steps in it.
struct WithJob : TestServer {
  WithJob() {
    join("n1");
    call("POST", "/v1/jobs", R"({"spec":{"name":"a","groups":[{"launch":"nothing"}]}})", local(1));
    loop.until([&] { return call("GET", "/v1/jobs/1").body.find("\"starting\"") != std::string::npos; });
  }
  static std::string body() {
    StepRequest ask;
    ask.job = JobId{1};
    ask.spec.argv = {"true"};
    ask.spec.tasks = 1;
    ask.spec.options = {{"lockstep.request", "forged-0123456789"}};
    return encode(ask);
  }
  std::shared_ptr<TestCall> step(const std::string& query, const Peer& peer = local(1)) {
    return send("POST", "/v1/jobs/1/steps?" + query, body(), peer);
  }
  std::string made(const std::string& query, const Peer& peer = local(1)) {
    const auto sent = step(query, peer);
    loop.until([&] { return sent->done(); });
    return sent->response->body;
  }
  std::string state(int number) {
    const std::string text = call("GET", format("/v1/steps/1.{}", number)).body;
    for (const char* word : {"pending", "starting", "running", "ended"})
      if (text.find(format("\"state\":\"{}\"", word)) != std::string::npos)
        return word;
    return text;
  }
  void becomes(int number, const std::string& wanted) {
    loop.until([&] { return state(number) == wanted; });
    EXPECT_EQ(state(number), wanted);
  }
  void time_passes() {
    for (int i = 0; i < Presence::kSlices; ++i) loop.fire(seconds(20) / Presence::kSlices);
  }
};

TEST(RequestNames, AStepIsMadeOnce) {
  WithJob server;
  const std::string name = "request=0123456789abcdef";
  EXPECT_EQ(server.made(name), R"({"step":0})");
  EXPECT_EQ(server.made(name), R"({"step":0})");
  EXPECT_EQ(server.made(name, local(0)), R"({"step":1})") << "another user's name";
  EXPECT_EQ(server.made("presence=0"), R"({"step":2})");
  EXPECT_EQ(server.made("request=forged-0123456789"), R"({"step":3})") << "nobody names a step by its words";
  const auto first = server.step("request=fedcba9876543210"), second = server.step("request=fedcba9876543210");
  server.loop.until([&] { return first->done() && second->done(); });
  EXPECT_EQ(first->response->body, R"({"step":4})");
  EXPECT_EQ(second->response->body, R"({"step":4})");
  const auto unanswered = server.step("request=abcdefabcdefabcdef");
  server.restart();
  EXPECT_FALSE(unanswered->response && unanswered->response->status == 200);
  EXPECT_EQ(server.made("request=abcdefabcdefabcdef"), R"({"step":5})");
  EXPECT_EQ(server.made("presence=0"), R"({"step":6})");
  EXPECT_NE(server.made("request=short").find("16 to 64"), std::string::npos);
}

TEST(StepClients, AStepEndsWhenItsClientHasBeenAwayForItsPatience) {
  WithJob server;
  ASSERT_EQ(server.made("presence=1"), R"({"step":0})");
  ASSERT_EQ(server.made("presence=0"), R"({"step":1})");  // of somebody who does not stay
  EXPECT_EQ(server.state(1), "pending");
  auto client = server.send("GET", "/v1/steps/1.0/io", {}, local(1), "lockstep-stepio/1");
  ASSERT_NE(client->wire, nullptr);
  server.time_passes();
  server.time_passes();
  EXPECT_EQ(server.call("GET", "/v1/steps/1.0").body.find("\"cancelled\":true"), std::string::npos);
  client->wire->closed();
  server.time_passes();
  server.loop.until(
      [&] { return server.call("GET", "/v1/steps/1.0").body.find("\"cancelled\":true") != std::string::npos; });
  EXPECT_EQ(server.state(1), "pending");
}

TEST(StepClients, AStepThatWaitsIsKnownToTheNextControllerWithItsClient) {
  WithJob server;
  ASSERT_EQ(server.made("presence=1&wait=started").find("refused"), std::string::npos);  // has the only node
  const std::string left = "presence=1&wait=started&request=0123456789abcdef";
  const std::string kept = "presence=1&wait=started&request=fedcba9876543210";
  (void)server.step(left);
  server.becomes(1, "pending");
  (void)server.step(kept);
  server.becomes(2, "pending");
  server.restart();
  const auto again = server.step(kept);  // one client asks again, the other was killed meanwhile
  server.loop.until([&] { return static_cast<bool>(again->gone); });  // it is waited for
  EXPECT_FALSE(again->done());
  server.time_passes();
  server.becomes(1, "ended");
  EXPECT_EQ(server.state(2), "pending");
  EXPECT_EQ(server.call("GET", "/v1/steps/1.3").status, 404);
  again->gone();  // who is connected to us directly and leaves is gone at once
  server.becomes(2, "ended");
}

TEST(RequestNames, AreKeptForTenMinutesAndSoManyOfEachUser) {
  RequestNames names;
  auto spec = std::make_shared<JobSpec>();
  spec->user = UserId(1);
  Job job;
  job.spec = spec;
  const Instant begin{1'000'000'000};
  for (std::uint64_t i = 1; i <= RequestNames::kEachMax + 5; ++i) {
    job.id = JobId(i);
    job.meta.name = std::to_string(i);
    job.submitted = begin;
    names.note(job, begin);
  }
  EXPECT_EQ(names.of(UserId(1)), RequestNames::kEachMax);
  EXPECT_EQ(names.find(UserId(1), "5"), JobId{});
  EXPECT_EQ(names.find(UserId(1), "6"), JobId(6));
  EXPECT_EQ(names.find(UserId(2), "6"), JobId{});
  job.meta.name = "old";
  names.note(job, begin + RequestNames::kKept + seconds(1));
  EXPECT_EQ(names.find(UserId(1), "old"), JobId{});
  job.meta.name = "new";
  job.submitted = begin + RequestNames::kKept + seconds(1);
  names.note(job, job.submitted);
  EXPECT_EQ(names.of(UserId(1)), 1u);
}

TEST(UnknownNames, AreRefusedWithAHint) {
  TestServer server;
  const auto refused = [&](const std::string& method, const std::string& target, const std::string& body = {}) {
    const auto reply = server.call(method, target, body);
    EXPECT_EQ(reply.status, 400) << target << " " << reply.body;
    return decode_error(reply.body, 400).message;
  };
  EXPECT_EQ(refused("GET", "/v1/jobs?stat=pending"), "GET /v1/jobs knows no \"stat\": did you mean \"state\"?");
  EXPECT_EQ(refused("GET", "/v1/jobs?colour=red"),
            "GET /v1/jobs knows no \"colour\"; known are: id, user, state, partition, name");
  EXPECT_EQ(refused("GET", "/v1/ping?x=1"), "GET /v1/ping knows no \"x\"; there are none");
  EXPECT_NE(
      refused("POST", "/v1/jobs", R"({"spec":{"timelimit_us":5,"groups":[{"launch":"script"}]},"script":"#!/bin/sh"})")
          .find("spec.timelimit_us is not known: did you mean \"time_limit_us\"?"),
      std::string::npos);
  EXPECT_NE(refused("POST", "/v1/jobs", R"({"spec":{"groups":[{"launch":"script","node":2}]},"script":"#!/bin/sh"})")
                .find("did you mean \"nodes\"?"),
            std::string::npos);
  EXPECT_NE(refused("PUT", "/v1/qos/gold", R"({"prio":5})").find("prio is not known"), std::string::npos);
  EXPECT_NE(refused("POST", "/v1/tokens", R"({"nodes":"n1"})").find("did you mean \"node\"?"), std::string::npos);
  EXPECT_NE(refused("POST", "/v1/jobs/cancel", R"({"target":["1"]})").find("did you mean \"targets\"?"),
            std::string::npos);
  // In a list the others are taken.
  const auto list = server.call("POST", "/v1/jobs", format("[{},{}]", kBody, R"({"scrip":"x"})"));
  EXPECT_NE(list.body.find(R"({"job_id":1})"), std::string::npos) << list.body;
  EXPECT_NE(list.body.find("did you mean"), std::string::npos) << list.body;
}

TEST(UnknownNames, EveryRowRefusesThem) {
  const Routes routes;
  for (const Route* at : routes.rows()) {
    const Route& row = *at;
    HttpRequest request;
    request.query["no_such_name_at_all_zzz"] = "1";
    EXPECT_FALSE(check_query(row, request).ok()) << row.path;
  }
}

// What is no value of each kind, and what is one.
std::vector<std::string> no_values_of(std::string_view kind) {
  if (kind == "number")
    return {"-1", "bogus", "", "1.5", "99999999999999999999"};
  if (kind == "integer")
    return {"bogus", "", "1e6", "99999999999999999999"};
  if (kind == "flag")
    return {"2", "yes", "true", ""};
  return {"bogus", "", std::string(kind) + "x", "|"};
}
std::string value_of(std::string_view kind) {
  return kind == "number" || kind == "flag" ? "1"
         : kind == "integer"                ? "-1"
                                            : std::string(kind.substr(0, kind.find('|')));
}

TEST(QueryValues, EveryRowRefusesWhatCannotBeMeantByName) {
  std::size_t judged = 0;
  const Routes routes;
  for (const Route* at : routes.rows()) {
    const Route& row = *at;
    each_query_name(row.query, [&](std::string_view name, std::string_view kind) {
      HttpRequest request;
      request.query[std::string(name)] = value_of(kind);
      EXPECT_TRUE(check_query(row, request).ok()) << row.path << "?" << name;
      if (kind.empty())
        return;
      for (const std::string& value : no_values_of(kind)) {
        request.query[std::string(name)] = value;
        const auto checked = check_query(row, request);
        ASSERT_FALSE(checked.ok()) << row.path << "?" << name << "=" << value;
        EXPECT_EQ(checked.error().field, name);
        EXPECT_NE(checked.error().message.find(format("{}={}: ", name, value)), std::string::npos);
        ++judged;
      }
    });
  }
  EXPECT_GT(judged, 100u);
}

TEST(QueryValues, AreJudgedBeforeAnythingIsDone) {
  TestServer server;
  const auto refused = [&](const std::string& method, const std::string& target, const std::string& body = {}) {
    const auto reply = server.call(method, target, body);
    EXPECT_EQ(reply.status, 400) << target << " " << reply.body;
    return decode_error(reply.body, 400).message;
  };
  EXPECT_EQ(refused("POST", "/v1/jobs?wait=bogus", kBody), "POST /v1/jobs: wait=bogus: started is meant");
  EXPECT_EQ(refused("GET", "/v1/watch?from=-1"), "GET /v1/watch: from=-1: a whole number of 0 or more is meant");
  EXPECT_EQ(refused("GET", "/v1/history?steps=no"), "GET /v1/history: steps=no: 1 or 0 is meant");
  EXPECT_EQ(refused("GET", "/v1/jobs/1/wait?for=bogus"),
            "GET /v1/jobs/*/wait: for=bogus: allocated, started, ended or change is meant");
  EXPECT_EQ(server.call("GET", "/v1/jobs").body.find("\"id\""), std::string::npos) << "nothing was submitted";
}

TEST(UnknownNames, AreRefusedByPagesOfFrontEnds) {
  const auto page = [](const ReadContext&, const PageRequest&) { return PageReply{200, "text/plain", "rows", {}}; };
  ControllerSettings settings;
  settings.api.routes = std::make_shared<const Routes>(
      std::vector{page_row("/slurm/v1/list", PageKind::kLive, page, "columns,jobs,me=flag"),
                  page_row("/slurm/v1/tables", PageKind::kTables, page, "columns,jobs,me=flag")});
  TestServer server(settings);
  for (const std::string path : {"/slurm/v1/list", "/slurm/v1/tables"}) {
    EXPECT_EQ(server.call("GET", path + "?columns=a&jobs=1&me=0").body, "rows");
    const auto unclear = server.call("GET", path + "?me=maybe");
    EXPECT_EQ(unclear.status, 400);
    EXPECT_EQ(decode_error(unclear.body, 400).message, format("GET {}: me=maybe: 1 or 0 is meant", path));
    const auto reply = server.call("GET", path + "?column=a");
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(decode_error(reply.body, 400).message,
              format("GET {} knows no \"column\": did you mean \"columns\"?", path));
  }
}

}  // namespace
}  // namespace lockstep
