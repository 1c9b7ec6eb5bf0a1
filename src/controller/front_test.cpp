// What a front end can do with the rows it mounts: read, propose, answer, stream, take the connection.
#include <gtest/gtest.h>

#include "base/mutant.h"
#include "controller/test_server.h"
#include "wire/record_change.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kAnn = 54321;

FrontRoute row(std::string_view method, std::string_view path, Right right, Cost cost, FrontHandler handler) {
  return {{method, path, right, cost, kRecordBody, "*"}, std::move(handler)};
}

HttpResponse text(std::string body) { return {200, "text/plain", std::move(body), {}}; }

PutQos qos(const std::string& name) {
  PutQos put;
  put.qos.meta.name = name;
  return put;
}

JobSpec job_spec() {
  JobSpec spec;
  spec.name = "pod";
  GroupSpec group;
  group.launch = Launch::kScript;
  spec.groups = std::vector<GroupSpec>{group};
  return spec;
}

std::vector<FrontRoute> rows() {
  const auto say_request = [](const std::shared_ptr<FrontVisit>& visit) {
    const HttpRequest& asked = visit->request();
    HttpResponse said = text(format("{} {} {} {} nodes {} {}", asked.method, visit->names().front(),
                                    asked.headers.contains("accept") ? asked.headers.at("accept") : "-", asked.body,
                                    visit->read()->tables.nodes.size(), visit->caller().admin ? "admin" : "user"));
    said.status = 201;
    said.headers["X-Front"] = "yes";
    visit->answer(std::move(said));
  };
  const auto make_two = [](const std::shared_ptr<FrontVisit>& visit) {
    visit->commit({qos("one"), qos(visit->request().query.at("second"))}, [visit](const Result<Answer>& done) {
      if (!done.ok())
        return visit->refuse(done.error());
      visit->answer(text(format("{} {}", done->seq, done->also.size())));
    });
  };
  const auto follow_qos = [](const std::shared_ptr<FrontVisit>& visit) {
    auto said = std::make_shared<std::size_t>(0);
    visit->stream(
        {200, "text/x-names", {}, {}},
        [visit, said](std::string& out) {
          const auto read = visit->read();
          if (read->tables.qos.contains("last"))
            return Pulled::kEnd;
          if (*said == read->tables.qos.size())
            return Pulled::kNothing;
          *said = read->tables.qos.size();
          out = format("{} qos\n", *said);
          return Pulled::kMore;
        },
        hours(1));
  };
  const auto flood = [](const std::shared_ptr<FrontVisit>& visit) {
    visit->stream(
        {200, "text/plain", {}, {}},
        [](std::string& out) {
          out.assign(10'000, 'x');
          return Pulled::kMore;
        },
        hours(1));
  };
  // Two jobs at once: ?as=USER&script=mine|theirs&bytes=N
  const auto submit = [](const std::shared_ptr<FrontVisit>& visit) {
    const auto& query = visit->request().query;
    JobSpec spec = job_spec();
    spec.user = query.contains("as") ? UserId(999) : visit->caller().user;
    const std::size_t bytes = parse_uint(query.at("bytes")).value_or(0);
    spec.script = query.at("script") == "mine" ? visit->store("#!/bin/sh\n#" + std::string(bytes, 'x'))
                                               : BlobId(std::string(64, 'a'));
    const SubmitJob body{.spec = std::make_shared<const JobSpec>(std::move(spec))};
    visit->commit({body, body}, [visit](const Result<Answer>& done) {
      if (!done.ok())
        return visit->refuse(done.error());
      visit->answer(text(format("{} {}", done->job.value, done->also.front().job.value)));
    });
  };
  // Three mebibytes, one a piece, each of which takes a slice.
  const auto write_long = [](const std::shared_ptr<FrontVisit>& visit) {
    visit->commit({qos("long")}, [visit](const Result<Answer>&) {
      PageReply reply{200, "text/plain", {}, {}};
      reply.more = [left = 3](std::string& body) mutable {
        const std::int64_t end = steady_micros() + 5'000;
        while (steady_micros() < end) {}
        body.append(1 << 20, 'x');
        return --left > 0;
      };
      visit->write(std::move(reply));
    });
  };
  const auto take_over = [](const std::shared_ptr<FrontVisit>& visit) {
    if (const auto stream = visit->upgrade("front/1"))
      stream->write("hello");
  };
  return {
      row("*", "/front/things/**", Right::kUser, Cost::kRead, say_request),
      row("POST", "/front/two", Right::kUser, Cost::kChange, make_two),
      row("GET", "/front/qos", Right::kUser, Cost::kWait, follow_qos),
      row("GET", "/front/flood", Right::kUser, Cost::kWait, flood),
      row("POST", "/front/submit", Right::kUser, Cost::kChange, submit),
      row("POST", "/front/long", Right::kAdministrator, Cost::kChange, write_long),
      row("GET", "/front/io", Right::kAdministrator, Cost::kWait, take_over),
      row("GET", "/front/nothing", Right::kUser, Cost::kRead, [](const std::shared_ptr<FrontVisit>&) {}),
      page_row(
          "/front/page", PageKind::kLive,
          [](const ReadContext& read, const PageRequest& request) {
            return PageReply{200, "text/plain", format("{} {}", request.query.at("me"), read.tables.nodes.size()), {}};
          },
          "me=flag")};
}

ControllerSettings mounted(std::size_t waits_max = 100) {
  ControllerSettings settings;
  settings.api.limits.waits_max = waits_max;
  settings.api.routes = std::make_shared<const Routes>(rows());
  return settings;
}

class Front : public ::testing::Test {
 protected:
  TestServer server{mounted()};
  const Peer ann = TestServer::local(kAnn);
};

TEST_F(Front, AHandlerSeesTheWholeRequestAndAnswersAsItLikes) {
  const auto said = server.call("PATCH", "/front/things/a/b/c", "body", ann);
  EXPECT_EQ(said.status, 201);
  EXPECT_EQ(said.body, "PATCH a/b/c - body nodes 0 user");
  EXPECT_EQ(said.headers.at("X-Front"), "yes");
  EXPECT_EQ(server.call("GET", "/front/things/x", {}, TestServer::local(0)).body, "GET x -  nodes 0 admin");
  EXPECT_EQ(server.call("DELETE", "/front/two", {}, ann).status, 405);
  EXPECT_EQ(server.call("GET", "/front/page?me=1", {}, ann).body, "1 0");
  EXPECT_EQ(server.call("GET", "/front/page?me=2", {}, ann).status, 400);
}

TEST_F(Front, CommandsComeTogetherOrNotAtAll) {
  EXPECT_EQ(server.call("POST", "/front/two?second=two", {}, ann).status, 403) << "the caller's rights count";
  const auto refused = server.call("POST", "/front/two?second=" + std::string(300, 'x'), {});
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_EQ(decode_error(refused.body, 400).field.substr(0, 7), "also[0]");
  EXPECT_EQ(server.call("GET", "/v1/qos/one").status, 404) << "nothing was changed";
  const auto made = server.call("POST", "/front/two?second=two", {});
  EXPECT_EQ(made.status, 200) << made.body;
  EXPECT_EQ(made.body.back(), '1');
  EXPECT_EQ(server.call("GET", "/v1/qos/one").status, 200);
  EXPECT_EQ(server.call("GET", "/v1/qos/two").status, 200);
}

TEST_F(Front, WorkThatItSubmitsKeepsToWhatSubmissionsMay) {
  EXPECT_EQ(server.call("POST", "/front/submit?script=mine&bytes=10", {}, ann).body, "1 2");
  EXPECT_EQ(server.call("GET", "/v1/jobs/2/script", {}, ann).body, "#!/bin/sh\n#xxxxxxxxxx");
  EXPECT_EQ(server.call("POST", "/front/submit?script=theirs&bytes=0", {}, ann).status, 400) << "of somebody else";
  EXPECT_EQ(server.call("POST", "/front/submit?script=mine&bytes=1&as=1", {}, ann).status, 403);
  ControllerSettings tight = mounted();
  tight.api.limits.stored_bytes_max = 1'000;
  tight.api.limits.pending_jobs_max = 3;
  TestServer small(tight);
  EXPECT_EQ(small.call("POST", "/front/submit?script=mine&bytes=2000", {}, ann).status, 429);
  EXPECT_EQ(small.call("POST", "/front/submit?script=mine&bytes=1", {}, ann).status, 200);
  EXPECT_EQ(small.call("POST", "/front/submit?script=mine&bytes=1", {}, ann).status, 429) << "it would be four";
}

TEST_F(Front, AStreamSaysWhatChangesUntilItEnds) {
  const auto stream = server.send("GET", "/front/qos", {}, ann);
  server.loop.until([&] { return stream->done(); });
  ASSERT_TRUE(stream->wire);
  EXPECT_EQ(stream->head.content_type, "text/x-names");
  const std::string before = stream->wire->sent;
  ASSERT_EQ(server.call("PUT", "/v1/qos/more", "{}").status, 200);
  server.loop.until([&] { return stream->wire->sent.size() > before.size(); });
  EXPECT_TRUE(stream->wire->sent.ends_with(" qos\n"));
  EXPECT_FALSE(stream->wire->gone);
  ASSERT_EQ(server.call("PUT", "/v1/qos/last", "{}").status, 200);
  server.loop.until([&] { return stream->wire->gone; });
  EXPECT_FALSE(stream->wire->cut);
}

TEST_F(Front, WhoDoesNotReadIsAskedForNoMoreAndCutOffInTheEnd) {
  const auto stream = server.send("GET", "/front/flood", {}, ann);
  server.loop.until([&] { return stream->done(); });
  stream->wire->reads = false;
  const auto quiet = [&] {
    for (std::size_t before = 0; before != stream->wire->sent.size();) {
      before = stream->wire->sent.size();
      server.call("GET", "/v1/ping");
      server.call("GET", "/v1/ping");
    }
  };
  server.loop.until([&] { return stream->wire->unread > 0; });
  quiet();
  const std::size_t ahead = stream->wire->unread;
  EXPECT_LT(ahead, 128u << 10);
  stream->wire->unread = 0;  // it reads after all
  stream->wire->drained();
  server.loop.until([&] { return stream->wire->unread > 0; });
  quiet();
  EXPECT_FALSE(stream->wire->gone);
  stream->wire->unread -= 10;  // slowly
  server.loop.fire(seconds(30));
  EXPECT_FALSE(stream->wire->gone);
  server.loop.fire(seconds(30));
  EXPECT_TRUE(stream->wire->gone && stream->wire->cut);
}

TEST_F(Front, WhatComesOfACommitMayBeLong) {
  const auto written = server.call("POST", "/front/long", {});
  EXPECT_EQ(written.status, 200);
  EXPECT_EQ(written.body.size(), 3u << 20);
}

TEST_F(Front, ARequestThatIsDroppedIsAnswered) {
  EXPECT_EQ(server.call("GET", "/front/nothing", {}, ann).status, 500);
  const auto head = server.send("HEAD", "/front/things/x", {}, ann);
  server.loop.until([&] { return head->done(); });
  EXPECT_EQ(head->response->status, 201);
}

TEST_F(Front, AClientThatLeavesIsForgotten) {
  const auto count = [&] {
    const std::string metrics = server.call("GET", "/metrics").body;
    const auto at = metrics.find("\nlockstep_followed ");
    return metrics.substr(at + 19, metrics.find('\n', at + 19) - at - 19);
  };
  const auto stream = server.send("GET", "/front/qos", {}, ann);
  server.loop.until([&] { return stream->done(); });
  EXPECT_EQ(count(), "1");
  stream->wire->closed();
  server.loop.until([&] { return count() == "0"; });
}

TEST(FrontMutants, AWatchThatLeaksIsSeen) {
  TestServer server{mounted()};
  const auto stream = server.send("GET", "/front/qos", {}, TestServer::local(kAnn));
  server.loop.until([&] { return stream->done(); });
  planted = Mutant::kWatchLeak;
  stream->wire->closed();
  server.call("GET", "/v1/jobs");  // comes back through the loop
  EXPECT_NE(server.call("GET", "/metrics").body.find("\nlockstep_followed 1\n"), std::string::npos);
  planted = Mutant::kNone;
}

TEST(FrontLimits, StreamsOfOneCallerAreCounted) {
  TestServer server{mounted(2)};
  const Peer ann = TestServer::local(kAnn);
  for (int i = 0; i < 2; ++i) {
    const auto stream = server.send("GET", "/front/qos", {}, ann);
    server.loop.until([&] { return stream->done(); });
    EXPECT_TRUE(stream->wire);
  }
  EXPECT_EQ(server.call("GET", "/front/qos", {}, ann).status, 429);
}

TEST_F(Front, RightsAndBodiesAreThoseOfTheRow) {
  EXPECT_EQ(server.call("GET", "/front/io", {}, ann).status, 403);
  EXPECT_EQ(server.call("GET", "/front/io", {}, {}).status, 401);
  const auto taken = server.send("GET", "/front/io", {}, TestServer::local(0), "front/1");
  server.loop.until([&] { return taken->done(); });
  ASSERT_TRUE(taken->wire);
  EXPECT_EQ(taken->wire->sent, "hello");
  EXPECT_EQ(server.call("POST", "/front/two?second=x", std::string(kRecordBody + 1, ' ')).status, 413);
  const std::string table = Routes(rows()).rights_table();
  EXPECT_NE(table.find("| `GET /front/io` | administrators | no work | 4 MiB |"), std::string::npos) << table;
}

// --- the API's own rows that stand on the same ---

class Records : public ::testing::Test {
 protected:
  std::string refused(const std::string& body, int status = 400) {
    const auto reply = server.call("POST", "/v1/changes", body);
    EXPECT_EQ(reply.status, status) << reply.body;
    return decode_error(reply.body, status).message;
  }
  TestServer server;
};

TEST_F(Records, SeveralChangesAreOneOrNone) {
  const auto made = server.call("POST", "/v1/changes", R"({"changes":[{"account":{},"name":"physics"},
      {"association":{"account":"physics","user":"ann"}},{"qos":{"meta":{"name":"fast"},"priority":10}},
      {"licence":{"total":4},"name":"matlab"},{"partition":{"nodes":["ALL"]},"name":"debug"}]})");
  ASSERT_EQ(made.status, 200) << made.body;
  for (const char* path : {"/v1/accounts/physics", "/v1/associations/physics/ann", "/v1/qos/fast",
                           "/v1/licences/matlab", "/v1/partitions/debug", "/v1/policy"})
    EXPECT_EQ(server.call("GET", path).status, 200) << path;
  EXPECT_NE(refused(R"({"changes":[{"qos":{},"name":"slow"},{"remove":"qos","name":"never-was"}]})", 404)
                .find("changes[1]: there is no QOS never-was; nothing was changed"),
            std::string::npos);
  EXPECT_EQ(server.call("GET", "/v1/qos/slow").status, 404);
  ASSERT_EQ(server
                .call("POST", "/v1/changes", R"({"changes":[{"remove":"association","name":"physics/ann"},
      {"remove":"account","name":"physics"},{"remove":"qos","name":"fast"}]})")
                .status,
            200);
  EXPECT_EQ(server.call("GET", "/v1/accounts/physics").status, 404);
}

TEST_F(Records, WhatCannotBeMeantIsRefusedByName) {
  EXPECT_NE(refused(R"({"changes":[]})").find("changes"), std::string::npos);
  EXPECT_NE(refused("{}").find("changes"), std::string::npos);
  EXPECT_NE(refused(R"({"changes":[{}]})").find("must put one record or remove one"), std::string::npos);
  EXPECT_NE(refused(R"({"changes":[{"qos":{},"remove":"qos","name":"a"}]})").find("must put one"), std::string::npos);
  EXPECT_NE(refused(R"({"changes":[{"remove":"job","name":"1"}]})").find("nothing that is removed so"),
            std::string::npos);
  EXPECT_NE(refused(R"({"changes":[{"topology":{}}]})").find("without nodes"), std::string::npos);
  EXPECT_NE(refused(R"({"changes":[{"remove":"qos","name":"a","if_seq":3}]})").find("if_seq"), std::string::npos);
  EXPECT_NE(refused(R"({"changes":[{"remove":"association","name":"physics"}]})").find("ACCOUNT/USER"),
            std::string::npos);
  std::string many = R"({"changes":[)";
  for (std::size_t i = 0; i <= kTogetherMax; ++i) many += format(R"({}{{"qos":{{}},"name":"q{}"}})", i ? "," : "", i);
  refused(many + "]}");
  EXPECT_EQ(server.call("POST", "/v1/changes", "{}", TestServer::local(kAnn)).status, 403);
}

TEST_F(Records, EveryKindRefusesAnOlderVersion) {
  const std::pair<const char*, const char*> kPuts[] = {{"/v1/qos/a", "{}"},
                                                       {"/v1/accounts/a", "{}"},
                                                       {"/v1/licences/a", R"({"total":1})"},
                                                       {"/v1/partitions/a", "{}"},
                                                       {"/v1/policy", "{}"}};
  for (const auto& [path, body] : kPuts) {
    ASSERT_EQ(server.call("PUT", path, body).status, 200) << path;
    const auto late = server.call("PUT", std::string(path) + "?if_seq=1", body);
    EXPECT_EQ(late.status, 409) << path << " " << late.body;
    const std::string record = server.call("GET", path).body;
    const auto at = record.find("\"seq\":");
    ASSERT_NE(at, std::string::npos) << record;
    const std::string seq = record.substr(at + 6, record.find_first_not_of("0123456789", at + 6) - at - 6);
    EXPECT_EQ(server.call("PUT", std::string(path) + "?if_seq=" + seq, body).status, 200) << path << " " << record;
  }
}

TEST_F(Records, WhatIsToBeNewIsNotWrittenOverWhatSomebodyMade) {
  const std::string ask = R"({"changes":[{"qos":{"priority":1},"name":"a","is_new":true}]})";
  ASSERT_EQ(server.call("POST", "/v1/changes", ask).status, 200);
  const auto again = server.call("POST", "/v1/changes", ask);
  EXPECT_EQ(again.status, 409);
  EXPECT_NE(again.body.find("QOS a is there already"), std::string::npos) << again.body;
  EXPECT_NE(refused(R"({"changes":[{"qos":{},"name":"b","is_new":true,"if_seq":3}]})").find("is_new"),
            std::string::npos);
  EXPECT_NE(refused(R"({"changes":[{"remove":"qos","name":"a","is_new":true}]})").find("is_new"), std::string::npos);
}

TEST_F(Records, AWatchIsFollowed) {
  const auto stream = server.send("GET", "/v1/watch?follow=1&kinds=qos", {}, TestServer::local(kAnn));
  server.loop.until([&] { return stream->done() && stream->wire->sent.find("{\"seq\":") != std::string::npos; });
  EXPECT_EQ(stream->head.content_type, "application/x-ndjson");
  ASSERT_EQ(server.call("PUT", "/v1/qos/fast", "{}").status, 200);
  ASSERT_EQ(server.call("PUT", "/v1/accounts/a", "{}").status, 200);
  server.loop.until([&] { return stream->wire->sent.find("\"fast\"") != std::string::npos; });
  EXPECT_EQ(stream->wire->sent.find("account"), std::string::npos);
  const auto late = server.send("GET", "/v1/watch?follow=1&from=1&kinds=qos");
  server.loop.until([&] { return late->done(); });
  server.loop.until([&] { return !late->wire->sent.empty(); });
  server.loop.fire(hours(1));
  EXPECT_TRUE(stream->wire->gone);
}

}  // namespace
}  // namespace lockstep
