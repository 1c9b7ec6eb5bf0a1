// The API's small bodies, as docs/api.md writes them.
#include "wire/api.h"

#include <gtest/gtest.h>

#include "model/job.h"
#include "wire/api_call.h"
#include "wire/json_text.h"
#include "wire/whole_answers.h"

namespace lockstep {
namespace {

TEST(Api, EmptyBodiesAreDefaults) {
  for (const std::string_view body : {"", " \n", "{}"}) {
    ASSERT_TRUE(decode_cancel(body).ok());
    EXPECT_EQ(decode_cancel(body)->signal, 0);
    EXPECT_EQ(decode_cancel(body)->reach, SignalReach::kSteps);
    EXPECT_FALSE(decode_hold(body)->by_admin);
    EXPECT_FALSE(decode_requeue(body)->hold);
    EXPECT_EQ(decode_signal_step(body)->signal, 0);
    EXPECT_FALSE(decode_end(body)->client_lost);
    EXPECT_EQ(decode_token_request(body)->ttl_s, 3600);
  }
}

TEST(Api, SmallRequestsAreAsDocumented) {
  const auto cancel = decode_cancel(R"({"signal":10,"reach":"everything"})");
  ASSERT_TRUE(cancel.ok());
  EXPECT_EQ(cancel->signal, 10);
  EXPECT_EQ(cancel->reach, SignalReach::kEverything);
  EXPECT_EQ(decode_cancel(R"({"signal":99})").error().field, "signal");
  EXPECT_EQ(decode_cancel(R"({"reach":"all"})").error().field, "reach");
  EXPECT_TRUE(decode_hold(R"({"by_admin":true})")->by_admin);
  const auto end = decode_end(R"({"code":3,"signal":9,"client_lost":true})");
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->exit, (ExitStatus{3, 9, false}));
  EXPECT_TRUE(end->client_lost);
  EXPECT_EQ(encode(*end), R"({"code":3,"signal":9,"client_lost":true})");
  EXPECT_FALSE(decode_end(R"({"code":256})").ok());
  const auto token = decode_token_request(R"({"role":"broker","realm":"campus","ttl_s":60})");
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->role, JoinToken::Role::kBroker);
  EXPECT_EQ(token->realm, "campus");
  EXPECT_FALSE(decode_token_request(R"({"ttl_s":0})").ok());
  EXPECT_EQ(encode_token_answer("a.b.c"), R"({"token":"a.b.c"})");
  EXPECT_FALSE(decode_join_request("").ok());
}

TEST(Api, ManyCancelsAtOnce) {
  const auto ask = decode_cancel_many(
      R"({"targets":["12","13_[1-4]"],"users":["ann"],"states":["pending"],"nodes":"n[1-2]","signal":10,"reach":"script"})");
  ASSERT_TRUE(ask.ok());
  EXPECT_EQ(ask->targets, (std::vector<std::string>{"12", "13_[1-4]"}));
  EXPECT_EQ(ask->users, std::vector<std::string>{"ann"});
  EXPECT_EQ(ask->states, std::vector<std::string>{"pending"});
  EXPECT_EQ(ask->nodes, "n[1-2]");
  EXPECT_EQ(ask->signal, 10);
  EXPECT_EQ(ask->reach, SignalReach::kScript);
  EXPECT_EQ(decode_cancel_many(R"({"signal":-1})").error().field, "signal");
  EXPECT_EQ(decode_cancel_many(R"({"targets":"12"})").error().field, "targets");
  EXPECT_TRUE(decode_cancel_many("")->targets.empty());

  const CancelledMany answer{2, {{"12", denied("not yours")}}};
  EXPECT_EQ(encode(answer), R"({"done":2,"failed":[{"target":"12","error":{"code":"denied","message":"not yours"}}]})");
  const auto back = decode_cancelled_many(encode(answer));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->done, 2u);
  ASSERT_EQ(back->failed.size(), 1u);
  EXPECT_EQ(back->failed[0].error.code, Errc::kDenied);
}

TEST(Api, SubmissionsAloneOrInAList) {
  const auto one = decode_submit_body(R"({"spec":{"groups":[{}],"name":"a"}})");
  ASSERT_TRUE(one.ok());
  EXPECT_FALSE(one->is_list);
  ASSERT_EQ(one->requests.size(), 1u);
  EXPECT_EQ(one->requests[0]->spec.name, "a");

  const auto list = decode_submit_body(
      R"([{"spec":{"groups":[{}],"name":"a"}},{"spec":{"groups":[{"nodes":-1}]}},7,{"spec":{"groups":[{}],"name":"d"}}])");
  ASSERT_TRUE(list.ok());
  EXPECT_TRUE(list->is_list);
  ASSERT_EQ(list->requests.size(), 4u);
  EXPECT_TRUE(list->requests[0].ok());
  ASSERT_FALSE(list->requests[1].ok());
  EXPECT_EQ(list->requests[1].error().field, "[1].spec.groups[0].nodes");
  ASSERT_FALSE(list->requests[2].ok());
  EXPECT_EQ(list->requests[2].error().field, "[2]");
  ASSERT_TRUE(list->requests[3].ok());
  EXPECT_EQ(list->requests[3]->spec.name, "d");

  EXPECT_TRUE(decode_submit_body("[]")->requests.empty());
  EXPECT_FALSE(decode_submit_body("").ok());
  EXPECT_FALSE(decode_submit_body("[{}").ok());
  ASSERT_TRUE(decode_submit_body("3").ok());
  EXPECT_FALSE(decode_submit_body("3")->requests[0].ok());

  std::vector<SubmitRequest> requests;
  requests.push_back(*one->requests[0]);
  requests.push_back(*one->requests[0]);
  EXPECT_EQ(decode_submit_body(encode(requests))->requests.size(), 2u);
}

TEST(Api, AnswersToSubmissions) {
  EXPECT_EQ(encode_submitted(JobId(12)), R"({"job_id":12})");
  EXPECT_EQ(decode_submitted(R"({"job_id":12})")->job, JobId(12));
  EXPECT_EQ(decode_submitted(encode_submitted(JobId(12), "never"))->warning, "never");
  EXPECT_FALSE(decode_submitted("{}").ok());
  const std::vector<Result<JobId>> jobs = {JobId(12), not_found("no such partition")};
  EXPECT_EQ(encode_submitted(jobs),
            R"({"jobs":[{"job_id":12},{"error":{"code":"not_found","message":"no such partition"}}]})");
  const auto back = decode_submitted_list(encode_submitted(jobs));
  ASSERT_TRUE(back.ok());
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ(*(*back)[0], JobId(12));
  EXPECT_EQ((*back)[1].error().code, Errc::kNotFound);
  EXPECT_EQ(encode_step_created(3), R"({"step":3})");
  EXPECT_EQ(*decode_step_created(R"({"step":3})"), 3);
}

TEST(Api, ListsOfRecords) {
  auto node = std::make_shared<Node>();
  node->meta.name = "n1";
  auto other = std::make_shared<Node>();
  other->meta.name = "n2";
  const std::string text = encode_records(Kind::kNode, std::vector<Record>{Ref<Node>(node), Ref<Node>(other)});
  EXPECT_TRUE(text.starts_with(R"({"nodes":[{"meta":{"name":"n1"})")) << text;
  const auto back = decode_records(Kind::kNode, text);
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ(meta_of((*back)[1]).name, "n2");
  EXPECT_EQ(encode_records(Kind::kJob, std::vector<Record>()), R"({"jobs":[]})");
  EXPECT_TRUE(decode_records(Kind::kJob, R"({"jobs":[]})")->empty());
  EXPECT_EQ(decode_records(Kind::kJob, text).error().field, "jobs");
  EXPECT_EQ(decode_records(Kind::kJob, R"({"jobs":[{},{"id":"x"}]})").error().field, "jobs[1].id");
  EXPECT_FALSE(decode_records(Kind::kJob, R"({"jobs":[null]})").ok());
}

TEST(Api, AnAnswerWithoutItsJobIsRefused) {
  EXPECT_FALSE(decode_started("{}").ok());
  EXPECT_FALSE(decode_started(R"({"job":null})").ok());
  EXPECT_FALSE(decode_job_detail(R"({"steps":[]})").ok());
  const auto started = decode_started(R"({"job":{"id":4,"state":"running"}})");
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(started->job->state, JobState::kRunning);
  EXPECT_EQ(started->step, nullptr);
}

TEST(Api, ForwardedCallsCarryRawBodies) {
  ApiCall call;
  call.method = "POST";
  call.target = "/v1/jobs?x=1";
  call.body = std::string("\0\n{\"raw\":\xff}\n\n", 14);
  call.uid = 1000;
  call.gid = 100;
  call.pid = 4242;
  const auto back = decode_api_call(encode(call));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->method, call.method);
  EXPECT_EQ(back->target, call.target);
  EXPECT_EQ(back->body, call.body);
  EXPECT_EQ(back->uid, 1000u);
  EXPECT_EQ(back->gid, 100u);
  EXPECT_EQ(back->pid, 4242);
  EXPECT_EQ(back->upgrade, "");
  EXPECT_TRUE(encode(call).ends_with(call.body));

  call.upgrade = "lockstep-stepio/1";
  call.body.clear();
  EXPECT_EQ(decode_api_call(encode(call))->upgrade, "lockstep-stepio/1");

  EXPECT_FALSE(decode_api_call("").ok());
  EXPECT_FALSE(decode_api_call("{}\n").ok());
  EXPECT_FALSE(decode_api_call(R"({"method":"GET","target":"/v1"})").ok());  // no end of the head
  EXPECT_FALSE(decode_api_call("{\"method\":\"GET\",\"target\":\"v1\"}\n").ok());
  EXPECT_FALSE(decode_api_call("{\"method\":\"GET\",\"target\":\"/v1\",\"uid\":-1}\n").ok());

  const auto reply = decode_api_reply(encode(ApiReply{201, "text/plain", "a\nb"}));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->status, 201);
  EXPECT_EQ(reply->content_type, "text/plain");
  EXPECT_EQ(reply->body, "a\nb");
  EXPECT_FALSE(decode_api_reply("{\"status\":7}\n").ok());
}

TEST(Api, JsonText) {
  JsonText j;
  j.object().field("name", "n\"1").field("cores", 8).field("gone", false).field("share", 0.5);
  j.key("jobs").array().value(std::uint64_t{18446744073709551615u}).value(-2).raw("{}").end();
  j.key("none").array().end().key("empty").object().end().end();
  EXPECT_EQ(
      j.take(),
      R"({"name":"n\"1","cores":8,"gone":false,"share":0.5,"jobs":[18446744073709551615,-2,{}],"none":[],"empty":{}})");
  JsonText list;
  EXPECT_EQ(list.array().value("a").value(std::string("b")).end().take(), R"(["a","b"])");
  JsonText odd;
  EXPECT_EQ(odd.array().value(1.0 / 0.0).end().take(), "[null]");
  JsonText open;
  open.object();
  EXPECT_DEATH(open.take(), "still open");
}

}  // namespace
}  // namespace lockstep
