// Every field of every model type survives: random values are encoded, decoded and encoded again.
#include <gtest/gtest.h>

#include "wire/api.h"
#include "wire/api_call.h"
#include "wire/codec.h"
#include "wire/random_value.h"

namespace lockstep {
namespace {

using wire::kEncode;
using wire::random_value;

template <class T, class Encode, class Decode>
void expect_round_trips(Encode encode, Decode decode, int rounds = 300) {
  for (int seed = 0; seed < rounds; ++seed) {
    Rng rng(static_cast<std::uint64_t>(seed));
    const T value = random_value<T>(rng);
    const std::string text = encode(value);
    const auto back = decode(text);
    ASSERT_TRUE(back.ok()) << "seed " << seed << ": " << back.error().message << "\n" << text;
    ASSERT_EQ(encode(*back), text) << "seed " << seed;
  }
}

// Random values leave a quarter of the fields alone, so over 300 rounds every field has been set many times; whether a
// field is listed at all is checked by the compiler (lists_every_field).
template <class T>
void expect_record_round_trips(Kind kind) {
  expect_round_trips<Ref<T>>([](const Record& record) { return encode_whole(record); },
                             [kind](std::string_view text) { return decode_record(kind, text); });
}

TEST(CodecRoundTrip, Records) {
#define KIND(type, name, word, table, count, seen) expect_record_round_trips<type>(Kind::name);
#include "model/kinds.def"
#include "wire/whole_answers.h"
}

TEST(CodecRoundTrip, AgentMessages) {
  expect_round_trips<FromAgent>(kEncode, decode_from_agent, 1000);
  expect_round_trips<ToAgent>(kEncode, decode_to_agent, 1000);
}

TEST(CodecRoundTrip, Requests) {
  expect_round_trips<SubmitRequest>(kEncode, decode_submit);
  expect_round_trips<StepRequest>(kEncode, decode_step_request);
  expect_round_trips<UpdateJob>(kEncode, decode_update_job);
  expect_round_trips<UpdateNode>(kEncode, decode_update_node);
  expect_round_trips<Partition>(encode_partition, decode_partition);
  expect_round_trips<CancelJob>(kEncode, decode_cancel);
  expect_round_trips<CancelMany>(kEncode, decode_cancel_many);
  expect_round_trips<HoldJob>(kEncode, decode_hold);
  expect_round_trips<RequeueJob>(kEncode, decode_requeue);
  expect_round_trips<SignalStep>(kEncode, decode_signal_step);
  expect_round_trips<TokenRequest>(kEncode, decode_token_request);
  expect_round_trips<JoinRequest>(kEncode, decode_join_request);
  expect_round_trips<RenewRequest>(kEncode, decode_renew_request);
}

TEST(CodecRoundTrip, Answers) {
  expect_round_trips<JoinAnswer>(kEncode, decode_join_answer);
  expect_round_trips<Ping>(kEncode, decode_ping);
  expect_round_trips<std::vector<PlanNote>>(kEncode, decode_plan_notes);
  expect_round_trips<std::vector<JobRow>>(kEncode, decode_job_rows);
  expect_round_trips<Change>(kEncode, decode_change);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    auto detail = random_value<JobDetail>(rng);
    detail.job = std::make_shared<Job>(random_value<Job>(rng));
    const std::string text = encode(detail);
    const auto back = decode_job_detail(text);
    ASSERT_TRUE(back.ok()) << back.error().message;
    ASSERT_EQ(encode(*back), text);
    const Started started{detail.job, seed % 2 ? std::make_shared<Step>(random_value<Step>(rng)) : nullptr};
    const auto started_back = decode_started(encode(started));
    ASSERT_TRUE(started_back.ok()) << started_back.error().message;
    ASSERT_EQ(encode(*started_back), encode(started));
  }
}

TEST(CodecRoundTrip, Entries) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    EntryBody body;
    body.at = random_value<Instant>(rng);
    for (std::uint64_t n = rng.below(6); n > 0; --n) body.changes.push_back(random_value<Change>(rng));
    for (std::uint64_t n = rng.below(3); n > 0; --n)
      body.events.push_back({random_value<Instant>(rng), random_value<Kind>(rng), random_value<Uid>(rng),
                             random_value<JobId>(rng), random_value<std::string>(rng), random_value<std::string>(rng)});
    const std::string text = encode_entry(body);
    const auto back = decode_entry(text);
    ASSERT_TRUE(back.ok()) << back.error().message << "\n" << text;
    ASSERT_EQ(encode_entry(*back), text);
    ASSERT_EQ(back->changes.size(), body.changes.size());
    for (std::size_t i = 0; i < body.changes.size(); ++i) {
      EXPECT_EQ(back->changes[i].seq, body.changes[i].seq);
      EXPECT_EQ(back->changes[i].removed, body.changes[i].removed);
      EXPECT_EQ(encode_whole(back->changes[i].record), encode_whole(body.changes[i].record));
    }
    ASSERT_EQ(back->events.size(), body.events.size());
    for (std::size_t i = 0; i < body.events.size(); ++i) EXPECT_EQ(back->events[i].message, body.events[i].message);
  }
}

// Not by way of the encoder: the values themselves are equal.
TEST(CodecRoundTrip, ValuesAreEqual) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const auto request = random_value<SubmitRequest>(rng);
    const auto back = decode_submit(encode(request));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->spec.groups, request.spec.groups);
    EXPECT_EQ(back->spec.options, request.spec.options);
    EXPECT_EQ(back->spec.dependencies, request.spec.dependencies);
    EXPECT_EQ(back->spec.priority, request.spec.priority);
    EXPECT_EQ(back->spec.kill_wait, request.spec.kill_wait);
    EXPECT_EQ(back->script, request.script);
    EXPECT_EQ(back->environment, request.environment);
    EXPECT_EQ(back->array.has_value(), request.array.has_value());
    const auto job = random_value<Job>(rng);
    const auto record = decode_record(Kind::kJob, encode_whole(std::make_shared<const Job>(job)));
    ASSERT_TRUE(record.ok());
    const Job& got = *std::get<Ref<Job>>(*record);
    EXPECT_EQ(got.members, job.members);
    EXPECT_EQ(got.limit_end, job.limit_end);
    EXPECT_EQ(got.exit, job.exit);
    ASSERT_EQ(got.allocation == nullptr, job.allocation == nullptr);
    if (job.allocation) {
      EXPECT_EQ(got.allocation->grants, job.allocation->grants);
    }
    if (job.array) {
      EXPECT_EQ(got.array->waiting, job.array->waiting);
    }
    if (job.meta.extra) {
      EXPECT_EQ(*got.meta.extra, *job.meta.extra);
    }
  }
}

TEST(CodecRoundTrip, EveryByteSurvivesInEveryPlace) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; b += a < 0x80 ? 51 : 1) {
      SubmitRequest request;
      request.spec.groups.resize(1);
      const std::string bytes = {static_cast<char>(a), static_cast<char>(b), 'x'};
      request.script = bytes;
      request.spec.groups[0].argv = {bytes};
      request.spec.groups[0].env = {{"NAME", bytes}};
      const auto back = decode_submit(encode(request));
      ASSERT_TRUE(back.ok()) << a << " " << b << " " << back.error().message;
      ASSERT_EQ(back->script, bytes);
      ASSERT_EQ(back->spec.groups[0].argv, request.spec.groups[0].argv);
      ASSERT_EQ(back->spec.groups[0].env, request.spec.groups[0].env);
    }
  }
}

TEST(CodecRoundTrip, AQueuedJobIsSmall) {
  Job job;
  job.meta.uid = Uid(1'000'000);
  job.meta.seq = 1'000'000;
  job.meta.created = Instant{1'795'266'000'000'000};
  job.id = JobId(123'456);
  job.submitted = job.eligible = job.meta.created;
  job.priority = 4'294'901'747;
  JobSpec spec;
  spec.name = "train";
  spec.front_end = "slurm";
  spec.user = UserId(3);
  spec.script = spec.environment = std::string(64, 'f');
  spec.work_dir = "/home/alice/project";
  spec.command = "/home/alice/project/train.sbatch";
  spec.submit_host = "login1";
  spec.time_limit = hours(1);
  spec.groups.resize(1);
  spec.groups[0].nodes = spec.groups[0].tasks = {4, 4};
  spec.groups[0].per_node.devices = {{"gpu", "h100", 8}};
  spec.groups[0].launch = Launch::kScript;
  spec.options = {{"gpus-per-node", "h100:8"}, {"nodes", "4"}, {"ntasks-per-node", "1"}, {"time", "1:00:00"}};
  job.spec = std::make_shared<JobSpec>(spec);
  EXPECT_LT(encode_whole(std::make_shared<const Job>(job)).size(), 1000u);
}

}  // namespace
}  // namespace lockstep
