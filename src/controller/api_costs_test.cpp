// What one caller may have of the controller: rates, waits, questions, stored things, the length of answers; and that
// nobody waits for another's long answer.
#include <gtest/gtest.h>

#include "base/mutant.h"
#include "controller/reply_buffer.h"
#include "controller/routes.h"
#include "controller/test_server.h"
#include "wire/api.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kAnn = 54321, kBob = 54322;

std::string submission(const std::string& script = "#!/bin/sh\\ntrue\\n") {
  return format(R"({{"spec":{{"name":"a","groups":[{{"launch":"script"}}]}},"script":"{}"}})", script);
}

ControllerSettings with(const ApiLimits& limits) {
  ControllerSettings settings;
  settings.api.limits = limits;
  return settings;
}

const auto local = TestServer::local;

TEST(ApiCosts, ARateIsOneCallersOwn) {
  ApiLimits limits;
  limits.turns.rate_per_s = 1;
  limits.turns.rate_burst = 20;
  TestServer server(with(limits));
  HttpResponse last;
  for (int i = 0; i < 40 && last.status != 429; ++i) last = server.call("GET", "/v1/ping", {}, local(kAnn));
  ASSERT_EQ(last.status, 429);
  EXPECT_EQ(last.headers["Retry-After"], "1");
  EXPECT_EQ(decode_error(last.body, 429).field, "rate");
  EXPECT_EQ(server.call("GET", "/v1/ping", {}, local(kBob)).status, 200);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(server.call("GET", "/v1/ping").status, 200);  // an administrator
  const std::string metrics = server.call("GET", "/metrics").body;
  EXPECT_NE(metrics.find("lockstep_http_refusals{reason=\"rate\"} 1\n"), std::string::npos) << metrics;
}

TEST(ApiCosts, ABodyCostsByItsSizeWhateverComesOfIt) {
  ApiLimits limits;
  limits.turns.rate_per_s = 1;
  limits.turns.rate_burst = 20;
  TestServer server(with(limits));
  const std::string junk(900 << 10, 'x');
  EXPECT_EQ(server.call("POST", "/v1/jobs/cancel", junk, local(kAnn)).status, 400);
  EXPECT_EQ(server.call("POST", "/v1/jobs/cancel", junk, local(kAnn)).status, 429);
  EXPECT_EQ(server.call("POST", "/v1/jobs/cancel", junk, local(kBob)).status, 400);
}

TEST(ApiCosts, NoLongBodyIsReadOnTheThreadThatAnswers) {
  TestServer server;
  ASSERT_EQ(server.call("POST", "/v1/jobs", submission()).status, 200);
  const Routes routes;
  const std::string junk = "{" + std::string(kReadAtOnce, ' ');
  std::size_t long_ones = 0;
  for (const Route* row : routes.rows()) {
    if (row->body_bytes_max <= kReadAtOnce)
      continue;
    ++long_ones;
    std::string path(row->path);
    if (const auto star = path.find('*'); star != path.npos)
      path.replace(star, 1, "1");
    const auto sent = server.send(std::string(row->method), path, junk);
    EXPECT_FALSE(sent->done()) << row->method << " " << path;
    server.loop.until([&] { return sent->done(); });
    EXPECT_EQ(sent->response->status, 400) << row->method << " " << path << ": " << sent->response->body;
  }
  EXPECT_GE(long_ones, 15u);
}

TEST(ApiCosts, LongPollsAndWatchesAreBoundedForEachUser) {
  ApiLimits limits;
  limits.waits_max = 2;
  TestServer server(with(limits));
  ASSERT_EQ(server.call("POST", "/v1/jobs", submission(), local(kAnn)).status, 200);
  const auto first = server.send("GET", "/v1/jobs/1/wait?for=ended", {}, local(kAnn));
  const auto second = server.send("GET", "/v1/watch?from=1000000", {}, local(kAnn));
  EXPECT_FALSE(first->done() || second->done());
  for (const char* target : {"/v1/jobs/1/wait?for=ended", "/v1/watch?from=1000000"}) {
    const auto refused = server.call("GET", target, {}, local(kAnn));
    EXPECT_EQ(refused.status, 429) << target;
    EXPECT_NE(refused.body.find("waits for 2 things"), std::string::npos) << refused.body;
  }
  EXPECT_EQ(server.call("POST", "/v1/jobs?wait=started", submission(), local(kAnn)).status, 429);
  EXPECT_FALSE(server.send("GET", "/v1/jobs/1/wait?for=ended", {}, local(kBob))->done());
  EXPECT_FALSE(server.send("GET", "/v1/jobs/1/wait?for=ended")->done());
  first->gone();
  EXPECT_FALSE(server.send("GET", "/v1/jobs/1/wait?for=ended", {}, local(kAnn))->done());
}

// Whether a watcher whose client has gone leaves its place to the next one.
bool leaves_nothing_behind() {
  ApiLimits limits;
  limits.waits_max = 1;
  TestServer server(with(limits));
  EXPECT_EQ(server.call("POST", "/v1/jobs", submission(), local(kAnn)).status, 200);  // who is known waits at once
  const auto watch = server.send("GET", "/v1/watch?from=1000000", {}, local(kAnn));
  EXPECT_FALSE(watch->done());
  watch->gone();
  return !server.send("GET", "/v1/watch?from=1000000", {}, local(kAnn))->done();
}

TEST(ApiCosts, AWatcherThatHasGoneLeavesNothingBehind) {
  EXPECT_TRUE(leaves_nothing_behind());
  planted = Mutant::kWatchLeak;
  EXPECT_FALSE(leaves_nothing_behind());
  planted = Mutant::kNone;
}

TEST(ApiCosts, AWatcherNamesTheKindsItWants) {
  TestServer server;
  const Seq now = decode_ping(server.call("GET", "/v1/ping").body)->seq;
  const auto tokens = server.send("GET", format("/v1/watch?from={}&kinds=token", now));
  ASSERT_EQ(server.call("POST", "/v1/jobs", submission(), local(kAnn)).status, 200);
  EXPECT_FALSE(tokens->done());
  ASSERT_EQ(server.call("POST", "/v1/tokens", R"({"role":"compute","node":"n9"})").status, 200);
  server.loop.until([&] { return tokens->done(); });
  EXPECT_EQ(tokens->response->body.find("\"job\""), std::string::npos) << tokens->response->body;
  EXPECT_EQ(server.call("GET", format("/v1/watch?from={}&kinds=jobs", now)).status, 400);
  const auto all = server.call("GET", "/v1/watch?kinds=user");
  EXPECT_EQ(all.body.find("\"token\""), std::string::npos) << all.body;
  EXPECT_NE(all.body.find("\"user\""), std::string::npos) << all.body;
}

TEST(ApiCosts, QuestionsOfOneUserLeavePlacesForOthers) {
  ApiLimits limits;
  limits.questions = {.each = 0, .all = 4, .reserved = 1};
  limits.history = {.each = 0, .all = 4, .reserved = 1};
  TestServer server(with(limits));
  ASSERT_EQ(server.call("POST", "/v1/jobs", submission(), local(kAnn)).status, 200);
  for (const char* target : {"/v1/jobs/1/explain", "/v1/history", "/v1/watch"}) {
    EXPECT_EQ(server.call("GET", target, {}, local(kAnn)).status, 429) << target;
    EXPECT_EQ(server.call("GET", target).status, 200) << target;
  }
}

TEST(ApiCosts, PendingJobsOfOneUserAreBounded) {
  ApiLimits limits;
  limits.pending_jobs_max = 3;
  TestServer server(with(limits));
  EXPECT_EQ(server.call("POST", "/v1/jobs", format("[{0},{0}]", submission()), local(kAnn)).status, 200);
  const auto several = server.call("POST", "/v1/jobs", format("[{0},{0}]", submission()), local(kAnn));
  EXPECT_EQ(several.status, 429);
  EXPECT_NE(several.body.find("you have 2 jobs waiting, and at most 3"), std::string::npos) << several.body;
  std::string array = submission();
  array.insert(array.size() - 1, R"(,"array":{"indices":"0-99"})");
  EXPECT_EQ(server.call("POST", "/v1/jobs", array, local(kAnn)).status, 200);
  EXPECT_EQ(server.call("POST", "/v1/jobs", submission(), local(kAnn)).status, 429);
  EXPECT_EQ(server.call("POST", "/v1/jobs", submission(), local(kBob)).status, 200);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(server.call("POST", "/v1/jobs", submission()).status, 200);
  // What is on its way counts before the live view has it.
  const auto one = server.send("POST", "/v1/jobs", format("[{0},{0}]", submission()), local(kBob));
  const auto two = server.send("POST", "/v1/jobs", submission(), local(kBob));
  server.loop.until([&] { return one->done() && two->done(); });
  EXPECT_EQ(two->response->status, 429);
  // Room again when one is gone.
  EXPECT_EQ(server.call("POST", "/v1/jobs/1/cancel", "{}", local(kAnn)).status, 200);
  EXPECT_EQ(server.call("POST", "/v1/jobs", submission(), local(kAnn)).status, 200);
}

TEST(ApiCosts, StoredBytesOfOneUserAreBounded) {
  ApiLimits limits;
  limits.stored_bytes_max = 3 << 20;
  TestServer server(with(limits));
  const auto script = [](char c) { return submission("#!/bin/sh\\n" + std::string(2 << 20, c)); };  // long: read aside
  EXPECT_EQ(server.call("POST", "/v1/jobs", script('a'), local(kAnn)).status, 200);
  EXPECT_EQ(server.call("POST", "/v1/jobs", script('a'), local(kAnn)).status, 200);  // the same is kept once
  const auto refused = server.call("POST", "/v1/jobs", script('b'), local(kAnn));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("take 2 MiB, this one 2049 KiB more, and at most 3 MiB"), std::string::npos)
      << refused.body;
  EXPECT_EQ(server.call("POST", "/v1/jobs", script('b'), local(kBob)).status, 200);
  EXPECT_EQ(server.call("POST", "/v1/jobs", script('c')).status, 200);
}

std::string script_of(char c, std::size_t bytes) { return submission("#!/bin/sh\\n" + std::string(bytes, c)); }

// A long answer is not copied again and again while it grows.
TEST(ApiCosts, ALongAnswerGetsItsRoomOnce) {
  constexpr std::size_t kMost = 64 << 20, kPiece = 256 << 10;
  std::string body;
  std::size_t moved = 0;
  while (body.size() < kMost) {
    const char* const before = body.data();
    make_room(body, kPiece, kMost);
    body.append(kPiece, 'x');
    if (body.data() != before && body.size() > kLongReply)
      ++moved;
  }
  EXPECT_EQ(moved, 1u);
  std::string small;
  make_room(small, kPiece, kMost);
  EXPECT_LT(small.capacity(), kPiece) << "most answers are short";
}

// Many users who each keep to their share cannot fill the disk: whoever holds most is refused first, small work of
// others goes on, and administrators hear who it is.
TEST(ApiCosts, StoredBytesOfAllUsersAreBounded) {
  ApiLimits limits;
  limits.stored_all_max = 8 << 20;
  TestServer server(with(limits));
  std::uint32_t uid = 1100;
  int taken = 0;
  for (; taken < 20; ++taken)
    if (server.call("POST", "/v1/jobs", script_of(static_cast<char>('a' + taken), 1 << 20), local(++uid)).status != 200)
      break;
  EXPECT_GE(taken, 4);
  EXPECT_LT(taken, 8) << "together they stay below the bound";
  const auto refused = server.call("POST", "/v1/jobs", script_of('z', 1 << 20), local(1101));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(
      refused.body.find(format("all users' jobs take {} of 8 MiB, yours 1 MiB of it, this one 1025 KiB more", taken)),
      std::string::npos)
      << refused.body;
  EXPECT_EQ(server.call("POST", "/v1/jobs", submission(), local(kAnn)).status, 200) << "who holds little finds room";
  EXPECT_EQ(server.call("POST", "/v1/jobs", script_of('y', 1 << 20)).status, 200) << "root";
  const std::string told = server.call("GET", "/v1/status").body;
  EXPECT_NE(told.find("of the 8 MiB that there is room for; most: uid1101 1 MiB"), std::string::npos) << told;
  EXPECT_EQ(server.call("GET", "/v1/status", {}, local(kAnn)).body.find("there is room for"), std::string::npos);
}

TEST(ApiCosts, WhatIsStoredLeavesTwoThirdsOfTheDisk) {
  TestServer server;
  server.free_bytes = 6 << 20;
  EXPECT_EQ(server.call("POST", "/v1/jobs", script_of('a', 1 << 20), local(kAnn)).status, 200);
  server.free_bytes = 2 << 20;
  const auto refused = server.call("POST", "/v1/jobs", script_of('b', 1 << 20), local(kBob));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("take 1 of 1 MiB (a third of what the disk has, with 2 MiB free), yours 0 MiB"),
            std::string::npos)
      << refused.body;
  EXPECT_NE(server.call("GET", "/v1/status").body.find("a third of what the disk has, with 2 MiB free"),
            std::string::npos);
  server.free_bytes = 0;
  const std::string tiny = R"({"spec":{"groups":[{"launch":"nothing"}]}})";
  const auto full = server.call("POST", "/v1/jobs", tiny, local(kBob));
  EXPECT_EQ(full.status, 429) << "its row of accounting";
  EXPECT_NE(full.body.find("the disk under the controller is nearly full"), std::string::npos) << full.body;
  for (const char* act : {"update", "hold", "release", "requeue", "checkpoint"})
    EXPECT_EQ(server.call("POST", format("/v1/jobs/1/{}", act), "{}", local(kAnn)).status, 429) << act;
  EXPECT_EQ(server.call("POST", "/v1/jobs/1/cancel", "{}", local(kAnn)).status, 200) << "it makes room";
  EXPECT_EQ(server.call("POST", "/v1/jobs", tiny).status, 200) << "root";
  server.free_bytes = 64 << 20;
  EXPECT_EQ(server.call("POST", "/v1/jobs", script_of('b', 1 << 20), local(kBob)).status, 200);
}

// The last eighth is for what runs.
TEST(ApiCosts, StepsOfWhatRunsHaveRoomThatNewJobsHaveNot) {
  TestServer server;
  server.join("n1");
  ASSERT_EQ(server.call("POST", "/v1/jobs", R"({"spec":{"groups":[{"launch":"nothing"}]}})", local(kAnn)).status, 200);
  server.loop.until([&] { return server.call("GET", "/v1/jobs/1").body.find("\"allocation\"") != std::string::npos; });
  server.free_bytes = 1 << 20;
  EXPECT_EQ(server.call("POST", "/v1/jobs", script_of('a', 320 << 10), local(kAnn)).status, 429);
  StepRequest step;
  step.job = JobId{1};
  step.spec.argv = {"true", std::string(320 << 10, 'x')};
  step.spec.tasks = 1;
  EXPECT_EQ(server.call("POST", "/v1/jobs/1/steps", encode(step), local(kAnn)).status, 200);
}

// What an update brings counts as well: 100,000 jobs with a new long comment each are no way around it.
TEST(ApiCosts, LongUpdatesAreBoundedLikeSubmissions) {
  ApiLimits limits;
  limits.stored_bytes_max = 100'000;
  TestServer server(with(limits));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(server.call("POST", "/v1/jobs", submission(), local(kAnn)).status, 200);
  const auto update = [&](int job, std::size_t bytes) {
    return server.call("POST", format("/v1/jobs/{}/update", job),
                       format(R"({{"comment":"{}"}})", std::string(bytes, 'x')), local(kAnn));
  };
  EXPECT_EQ(update(1, 60'000).status, 200);
  const auto refused = update(2, 60'000);
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("of your jobs take"), std::string::npos) << refused.body;
  EXPECT_EQ(update(2, 100).status, 200) << "what is short counts nothing";
  EXPECT_EQ(update(1, 20'000).status, 200);
}

TEST(ApiCosts, LongWordsCountAsStoredBytes) {
  ApiLimits limits;
  limits.stored_bytes_max = 3 << 19;
  TestServer server(with(limits));
  const auto with_words = [](char c) {
    SubmitRequest request;
    request.script = "#!/bin/sh\n";
    request.spec.hold = true;
    request.spec.groups.resize(1);
    request.spec.groups[0].launch = Launch::kScript;
    request.spec.groups[0].argv.assign(900, std::string(1000, c));
    return encode(request);
  };
  EXPECT_EQ(server.call("POST", "/v1/jobs", with_words('a'), local(kAnn)).status, 200);
  const auto refused = server.call("POST", "/v1/jobs", with_words('b'), local(kAnn));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("long arguments, options and comments of your jobs"), std::string::npos) << refused.body;
  EXPECT_EQ(server.call("POST", "/v1/jobs", with_words('b'), local(kBob)).status, 200);
  // Room again when it is gone.
  EXPECT_EQ(server.call("POST", "/v1/jobs/1/cancel", "{}", local(kAnn)).status, 200);
  EXPECT_EQ(server.call("POST", "/v1/jobs", submission(), local(kAnn)).status, 200);
}

TEST(ApiCosts, StepsOfOneJobAreBounded) {
  ApiLimits limits;
  limits.steps_max = 1;
  TestServer server(with(limits));
  server.join("n1");
  ASSERT_EQ(server.call("POST", "/v1/jobs", R"({"spec":{"groups":[{"launch":"nothing"}]}})", local(kAnn)).status, 200);
  server.loop.until([&] { return server.call("GET", "/v1/jobs/1").body.find("\"allocation\"") != std::string::npos; });
  StepRequest step;
  step.job = JobId{1};
  step.spec.argv = {"true"};
  EXPECT_EQ(server.call("POST", "/v1/jobs/1/steps", encode(step), local(kAnn)).status, 200);
  const auto refused = server.call("POST", "/v1/jobs/1/steps", encode(step), local(kAnn));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("job 1 has had 1 steps"), std::string::npos) << refused.body;
}

TEST(ApiCosts, AnswersHaveALongest) {
  ApiLimits limits;
  limits.reply_bytes_max = 4'000;
  limits.history_rows_max = 0;
  TestServer server(with(limits));
  std::string many = "[";
  for (int i = 0; i < 100; ++i) many += (i ? "," : "") + submission();
  ASSERT_EQ(server.call("POST", "/v1/jobs", many + "]").status, 200);
  const auto refused = server.call("GET", "/v1/jobs");
  EXPECT_EQ(refused.status, 413);
  EXPECT_NE(refused.body.find("ask for less"), std::string::npos) << refused.body;
  EXPECT_EQ(server.call("GET", "/v1/jobs?id=7").status, 200);
  const auto rows = server.call("GET", "/v1/history");
  EXPECT_EQ(rows.status, 413);
  EXPECT_NE(rows.body.find("narrow it by time"), std::string::npos) << rows.body;
}

TEST(ApiCosts, NobodyWaitsForAnothersLongAnswer) {
  ApiLimits limits;
  limits.turns.slice = Duration{};  // every piece is a turn of its own
  TestServer server(with(limits));
  std::string many = "[";
  for (int i = 0; i < 1'000; ++i) many += (i ? "," : "") + submission();
  ASSERT_EQ(server.call("POST", "/v1/jobs", many + "]", local(kAnn)).status, 200);
  ASSERT_EQ(server.call("GET", "/v1/ping", {}, local(kBob)).status, 200);
  std::vector<std::shared_ptr<TestCall>> lists;
  for (int i = 0; i < 5; ++i) lists.push_back(server.send("GET", "/v1/jobs", {}, local(kAnn)));
  const auto ping = server.send("GET", "/v1/ping", {}, local(kBob));
  server.loop.until([&] { return ping->done(); });
  for (const auto& list : lists) EXPECT_FALSE(list->done());
  server.loop.until([&] { return lists.back()->done(); });
  for (const auto& list : lists) {
    ASSERT_EQ(list->response->status, 200);
    EXPECT_EQ(decode_records(Kind::kJob, list->response->body)->size(), 1'000u);
  }
}

TEST(ApiCosts, WhoCancelsByAFilterMeetsOnlyItsOwnJobs) {
  TestServer server;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(server.call("POST", "/v1/jobs", submission(), local(kAnn)).status, 200);
  ASSERT_EQ(server.call("POST", "/v1/jobs", submission(), local(kBob)).status, 200);
  const auto cancelled =
      decode_cancelled_many(server.call("POST", "/v1/jobs/cancel", R"({"states":["pending"]})", local(kBob)).body);
  EXPECT_EQ(cancelled->done, 1u);
  EXPECT_TRUE(cancelled->failed.empty());  // Ann's three were not even tried
  const auto all = decode_cancelled_many(server.call("POST", "/v1/jobs/cancel", R"({"states":["pending"]})").body);
  EXPECT_EQ(all->done, 3u);
}

// --- what others see ---

TEST(ApiCosts, NobodyReadsAnothersCommandLines) {
  TestServer server;
  server.join("n1");
  const std::string body =
      R"({"spec":{"name":"train","std_in":"/home/ann/s3cret","options":{"export":"KEY=s3cret"},"labels":{"team":"s3cret"},)"
      R"("groups":[{"launch":"nothing","argv":["--key","s3cret"]}]}})";
  const std::string since = format("/v1/watch?from={}", decode_ping(server.call("GET", "/v1/ping").body)->seq);
  ASSERT_EQ(server.call("POST", "/v1/jobs", body, local(kAnn)).status, 200);
  server.loop.until([&] { return server.call("GET", "/v1/jobs/1").body.find("\"allocation\"") != std::string::npos; });
  StepRequest step;
  step.job = JobId{1};
  step.spec.argv = {"mpi", "s3cret"};
  step.spec.multi_prog = {{"a", "s3cret"}};
  step.environment = std::string("KEY=s3cret\0", 11);
  ASSERT_EQ(server.call("POST", "/v1/jobs/1/steps", encode(step), local(kAnn)).status, 200);
  ASSERT_EQ(server.call("POST", "/v1/tokens", R"({"role":"compute","node":"n9"})").status, 200);
  for (const std::string target : {"/v1/jobs", "/v1/jobs/1", "/v1/jobs?id=1", "/v1/steps", "/v1/steps/1.0", "/v1/watch",
                                   since.c_str(), "/v1/jobs/1/wait?for=allocated"}) {
    const auto mine = server.call("GET", target, {}, local(kAnn));
    EXPECT_EQ(mine.status, 200) << target;
    EXPECT_NE(mine.body.find("s3cret"), std::string::npos) << target;
    const auto others = server.call("GET", target, {}, local(kBob));
    EXPECT_EQ(others.status, 200) << target;
    EXPECT_EQ(others.body.find("s3cret"), std::string::npos) << target << " " << others.body;
    for (const Peer& peer : {local(kAnn), local(kBob), local(0)}) {
      const std::string seen = server.call("GET", target, {}, peer).body;
      EXPECT_EQ(seen.find("secret_sha256"), std::string::npos) << target;
    }
  }
}

TEST(ApiCosts, AWatcherWhoIsNotShownAChangeLearnsThatItCame) {
  TestServer server;
  for (const Peer& peer : {local(kBob), local(0)}) ASSERT_EQ(server.call("GET", "/v1/users", {}, peer).status, 200);
  const Seq now = decode_ping(server.call("GET", "/v1/ping").body)->seq;
  const auto watch = server.send("GET", format("/v1/watch?from={}", now), {}, local(kBob));
  const auto root = server.send("GET", format("/v1/watch?from={}", now));
  ASSERT_EQ(server.call("POST", "/v1/tokens", R"({"role":"compute","node":"n9"})").status, 200);
  server.loop.until([&] { return watch->done() && root->done(); });
  const Seq then = decode_ping(server.call("GET", "/v1/ping").body)->seq;
  EXPECT_EQ(watch->response->body.find("\"token\""), std::string::npos) << watch->response->body;
  EXPECT_NE(watch->response->body.find(format("\"seq\":{}", then)), std::string::npos) << watch->response->body;
  EXPECT_NE(root->response->body.find("\"token\""), std::string::npos);
}

}  // namespace
}  // namespace lockstep
