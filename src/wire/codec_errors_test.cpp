// What the decoders refuse, and how they say where. Also what they must not refuse.
#include <gtest/gtest.h>

#include "model/job.h"
#include "wire/api.h"
#include "wire/codec.h"

namespace lockstep {
namespace {

struct Bad {
  std::string text, field, message;  // message: a part of it
};

std::string submit_with_group(const std::string& fields) { return R"({"spec":{"groups":[{)" + fields + "}]}}"; }

TEST(CodecErrors, SubmitNamesTheField) {
  const Bad cases[] = {
      {R"({})", "spec", "at least one group"},
      {R"({"spec":{}})", "spec.groups", "at least one group"},
      {R"({"spec":{"groups":{}}})", "spec.groups", "must be a list"},
      {R"({"spec":[]})", "spec", "must be an object"},
      {submit_with_group(R"("nodes":{"min":-1})"), "spec.groups[0].nodes.min", "between 0 and 4294967295"},
      {submit_with_group(R"("nodes":{"min":4294967296})"), "spec.groups[0].nodes.min", "between 0 and"},
      {submit_with_group(R"("nodes":{"min":5,"max":4})"), "spec.groups[0].nodes", "max below its min"},
      {submit_with_group(R"("nodes":{"max":4})"), "spec.groups[0].nodes", "needs \"min\""},
      {submit_with_group(R"("nodes":"4")"), "spec.groups[0].nodes", "must be a number or"},
      {submit_with_group(R"("nodes":1.5)"), "spec.groups[0].nodes", "whole number"},
      {submit_with_group(R"("launch":"Script")"), "spec.groups[0].launch", "one of script, nothing, tasks"},
      {submit_with_group(R"("launch":3)"), "spec.groups[0].launch", "one of"},
      {submit_with_group(R"("overcommit":1)"), "spec.groups[0].overcommit", "true or false"},
      {submit_with_group(R"("argv":["a",1])"), "spec.groups[0].argv[1]", "must be a string"},
      {submit_with_group(R"("argv":"a b")"), "spec.groups[0].argv", "must be a list"},
      {submit_with_group(R"("env":{"A":1})"), "spec.groups[0].env.A", "must be a string"},
      {submit_with_group(R"("env":[["A"]])"), "spec.groups[0].env[0]", "list of 2"},
      {submit_with_group(R"("env":"A=1")"), "spec.groups[0].env", "object of strings"},
      {submit_with_group(R"("per_task":{"memory_mb":-1})"), "spec.groups[0].per_task.memory_mb", "between 0 and"},
      {submit_with_group(R"("per_task":{"devices":[{},{"count":-8}]})"), "spec.groups[0].per_task.devices[1].count",
       "between 0 and"},
      {submit_with_group(R"("ports":[{"port":65536}])"), "spec.groups[0].ports[0].port", "between 0 and 65535"},
      {R"({"spec":{"groups":[{}],"time_limit_us":-1}})", "spec.time_limit_us", "between 0 and"},
      {R"({"spec":{"groups":[{}],"time_limit_us":9223372036854775807}})", "spec.time_limit_us", "between"},
      {R"({"spec":{"groups":[{}],"time_limit_us":9223372036854775808}})", "spec.time_limit_us", "between"},
      {R"({"spec":{"groups":[{}],"time_limit_us":"1:00"}})", "spec.time_limit_us", "whole number"},
      {R"({"spec":{"groups":[{}],"umask":512}})", "spec.umask", "between 0 and 511"},
      {R"({"spec":{"groups":[{}],"signal_ahead":{"signal":65}}})", "spec.signal_ahead.signal", "between 0 and 64"},
      {R"({"spec":{"groups":[{}],"dependencies":[{"type":"afterok"}]}})", "spec.dependencies[0].type", "after_ok"},
      {R"({"spec":{"groups":[{}]},"array":{"indices":"9-1"}})", "array.indices", "runs backwards"},
      {R"({"spec":{"groups":[{}]},"array":{"indices":"0-4000000000:2"}})", "array.indices", "separate ranges"},
      {R"({"spec":{"groups":[{}]},"array":{}})", "array.indices", "at least one index"},
      {R"({"spec":{"groups":[{}]},"array":{"indices":"1","step":0}})", "array.step", "between 1 and"},
      {R"({"spec":{"groups":[{}]},"script":null})", "script", "must be a string"},
  };
  for (const Bad& bad : cases) {
    const auto got = decode_submit(bad.text);
    ASSERT_FALSE(got.ok()) << bad.text;
    EXPECT_EQ(got.error().code, Errc::kInvalid) << bad.text;
    EXPECT_EQ(got.error().field, bad.field) << bad.text;
    EXPECT_NE(got.error().message.find(bad.message), std::string::npos) << bad.text << "\n" << got.error().message;
  }
}

TEST(CodecErrors, TextThatIsNoJson) {
  for (const std::string_view text : {"", " ", "{", "{}}", "[1,]", "nul", "'a'", "{\"a\":1,}", "{a:1}", "\xff\xfe",
                                      "{\"spec\":\"\xc3\"}", "{\"spec\":\"\\ud800\"}", "/*x*/{}"}) {
    const auto got = decode_submit(text);
    ASSERT_FALSE(got.ok()) << text;
    EXPECT_EQ(got.error().code, Errc::kInvalid);
    EXPECT_NE(got.error().message.find("not valid JSON"), std::string::npos) << got.error().message;
  }
}

TEST(CodecErrors, DepthAndSizeAreBounded) {
  EXPECT_FALSE(decode_submit(std::string(100'000, '[')).ok());
  EXPECT_FALSE(decode_submit(R"({"spec":)" + std::string(40, '[') + std::string(40, ']') + "}").ok());

  std::string groups = R"({"spec":{"groups":[{})";
  for (int i = 0; i < 2000; ++i) groups += ",{}";
  const auto many = decode_submit(groups + "]}}");
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(many.error().field, "spec.groups");

  std::string bomb = R"({"spec":{"dependencies":[0)";
  while (bomb.size() < 18u << 20) bomb += ",0,0,0,0,0,0,0,0";
  const auto huge = decode_submit(bomb + "]}}");
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code, Errc::kExhausted);
}

// A short text must not unfold into gigabytes: how long a list may be is asked before it is read.
TEST(CodecErrors, ListsAreCountedBeforeTheyAreRead) {
  std::string groups = R"({"spec":{"groups":[{})";
  for (std::size_t i = 0; i < (512u << 20) / sizeof(GroupSpec); ++i) groups += ",{}";
  const auto many = decode_submit(groups + "]}}");
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(many.error().field, "spec.groups");
  EXPECT_NE(many.error().message.find("1024 are allowed"), std::string::npos) << many.error().message;

  const auto ranks = decode_to_agent(R"({"launch_step":{"job":1,"attempt":1,"step":0,"ranks":"0-4294967295"}})");
  ASSERT_FALSE(ranks.ok());
  EXPECT_EQ(ranks.error().field, "launch_step.ranks");
}

TEST(CodecErrors, UnknownFieldsAndAnyOrderAreFine) {
  const auto got = decode_submit(
      R"({"later":{"x":[1,2]},"script":"#!/bin/sh","spec":{"groups":[{"z":0,"nodes":3,"name":"g"}],"zz":null,"name":"j"}})");
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->spec.name, "j");
  EXPECT_EQ(got->script, "#!/bin/sh");
  EXPECT_EQ(got->spec.groups[0].name, "g");
  EXPECT_EQ(got->spec.groups[0].nodes, (CountRange{3, 3}));
  EXPECT_EQ(got->spec.groups[0].tasks, (CountRange{1, 1}));  // the default of a group
  EXPECT_EQ(got->spec.kill_wait, seconds(30));
  EXPECT_EQ(got->spec.umask, 022);
}

TEST(CodecErrors, AnErrorDeepInsideANewerMessageIsStillFound) {
  const auto got = decode_submit(R"({"later":1,"spec":{"later":2,"groups":[{"later":3,"nodes":"x"}]}})");
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().field, "spec.groups[0].nodes");
}

TEST(CodecErrors, EndsOfTimeAreWords) {
  const auto got = decode_submit(R"({"spec":{"groups":[{}],"time_limit_us":"forever"}})");
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->spec.time_limit, kForever);
  EXPECT_NE(encode(*got).find(R"("time_limit_us":"forever")"), std::string::npos);
}

TEST(CodecErrors, AgentsAreStrangersToo) {
  const Bad cases[] = {
      {R"({"report":{"number":-1}})", "report.number", "between 0"},
      {R"({"report":{"body":{"exploded":{}}}})", "report.body", "must name one of \"attempt_started\""},
      {R"({"report":{"body":{"script_ended":{"exit":{"code":256}}}}})", "report.body.script_ended.exit.code",
       "between 0 and 255"},
      {R"({"hello":{"facts":{"cores":0}}})", "hello.facts.cores", "between 1 and 512"},
      {R"({"hello":{"facts":{"cores":513}}})", "hello.facts.cores", "between 1 and 512"},
      {R"({"hello":{"facts":{"cores":8,"memory_mb":-5}}})", "hello.facts.memory_mb", "between"},
      {R"({"renew":{"holdings":[{"tasks":[[0,1]]}]}})", "renew.holdings[0].tasks[0]", "object"},
      {R"({"renew":{"holdings":[{"tasks":[{"index":-2}]}]}})", "renew.holdings[0].tasks[0].index", "between"},
      {R"({"farewell":{}})", "", "must name one of \"hello\""},
      {R"({})", "", "must name one of"},
      {R"([])", "", "must be an object"},
  };
  for (const Bad& bad : cases) {
    const auto got = decode_from_agent(bad.text);
    ASSERT_FALSE(got.ok()) << bad.text;
    EXPECT_EQ(got.error().field, bad.field) << bad.text;
    EXPECT_NE(got.error().message.find(bad.message), std::string::npos) << got.error().message;
  }
  std::string many = R"({"hello":{"facts":{"cores":8,"devices":[{})";
  for (int i = 0; i < 64; ++i) many += ",{}";
  const auto got = decode_from_agent(many + "]}}}");
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().field, "hello.facts.devices");
  const auto ranks = decode_to_agent(R"({"launch_step":{"ranks":"0-3","env_by_rank":[["A=1"]]}})");
  ASSERT_FALSE(ranks.ok());
  EXPECT_EQ(ranks.error().field, "launch_step.env_by_rank");
}

TEST(CodecErrors, SetsHaveRoomForSoMany) {
  EXPECT_TRUE(decode_to_agent(R"({"launch_attempt":{"devices":"0,63","cores":"511"}})").ok());
  const auto got = decode_to_agent(R"({"launch_attempt":{"devices":"0,64"}})");
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().field, "launch_attempt.devices");
  EXPECT_FALSE(decode_to_agent(R"({"launch_attempt":{"cores":"0-4294967295"}})").ok());
  EXPECT_FALSE(decode_to_agent(R"({"launch_attempt":{"cores":"x"}})").ok());
  EXPECT_FALSE(decode_to_agent(R"({"launch_attempt":{"cores":7}})").ok());
}

// What we wrote ourselves is read whatever it says: refusing it would keep a cluster from starting.
TEST(CodecErrors, OwnRecordsAreNotRangeChecked) {
  Job job;
  job.spec = std::make_shared<JobSpec>();  // no groups
  job.exit.code = 300;
  job.limit_end = Instant{INT64_MAX};
  const auto back = decode_record(Kind::kJob, encode_whole(std::make_shared<const Job>(job)));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(std::get<Ref<Job>>(*back)->exit.code, 300);
  EXPECT_EQ(std::get<Ref<Job>>(*back)->limit_end, Instant{INT64_MAX});
}

TEST(CodecErrors, Words) {
  EXPECT_EQ(text_of(JobState::kPending), "pending");
  EXPECT_EQ(text_of(JobState::kOutOfMemory), "out_of_memory");
  EXPECT_EQ(text_of(StepState::kEnded), "ended");
  EXPECT_EQ(text_of(TaskState::kWaiting), "waiting");
  EXPECT_EQ(text_of(NodeLink::kLost), "lost");
  EXPECT_EQ(text_of(Hold::kDependencyNever), "dependency_never");
  EXPECT_EQ(text_of(Wait::kLicenses), "licenses");
  EXPECT_EQ(text_of(Kind::kToken), "token");
  for (int i = 0; i <= static_cast<int>(JobState::kBootFail); ++i)
    EXPECT_EQ(job_state_of(text_of(static_cast<JobState>(i))), static_cast<JobState>(i));
  EXPECT_EQ(job_state_of("PENDING"), std::nullopt);
  EXPECT_EQ(job_state_of(""), std::nullopt);
}

TEST(CodecErrors, ErrorsTravel) {
  const Error error{Errc::kImpossible, "asks for 16 GPUs; \"n1\" has 8", "spec.groups[0]"};
  const Error back = decode_error(encode_error(error), http_status_of(error.code));
  EXPECT_EQ(back.code, error.code);
  EXPECT_EQ(back.message, error.message);
  EXPECT_EQ(back.field, error.field);
  EXPECT_EQ(encode_error(not_found("no job 12")), R"({"error":{"code":"not_found","message":"no job 12"}})");
}

TEST(CodecErrors, ForeignErrorsKeepTheirStatusAndText) {
  const Error proxy = decode_error("<html>Bad gateway</html>", 502);
  EXPECT_EQ(proxy.code, Errc::kUnavailable);
  EXPECT_NE(proxy.message.find("502"), std::string::npos);
  EXPECT_NE(proxy.message.find("Bad gateway"), std::string::npos);
  EXPECT_EQ(decode_error("", 404).code, Errc::kNotFound);
  EXPECT_EQ(decode_error(R"({"error":{"code":"new_kind","message":"m"}})", 409).code, Errc::kConflict);
  EXPECT_LT(decode_error(std::string(1'000'000, 'x'), 500).message.size(), 300u);
  for (int i = 0; i <= static_cast<int>(Errc::kInternal); ++i) {
    const int status = http_status_of(static_cast<Errc>(i));
    EXPECT_TRUE(status >= 400 && status < 600);
  }
}

}  // namespace
}  // namespace lockstep
