// Log entries: sharing, versions, corruption.
#include <gtest/gtest.h>

#include "base/text.h"
#include "model/job.h"
#include "wire/codec.h"
#include "wire/long_values.h"

namespace lockstep {
namespace {

Ref<Job> job_with(JobId id, Seq seq, Ref<JobSpec> spec) {
  auto job = std::make_shared<Job>();
  job->meta.seq = seq;
  job->id = id;
  job->spec = std::move(spec);
  return job;
}

Ref<JobSpec> some_spec() {
  auto spec = std::make_shared<JobSpec>();
  spec->name = "sweep";
  spec->groups.resize(1);
  spec->comment = std::string(500, 'c');
  return spec;
}

TEST(EntryCodec, SharedPartsAreWrittenOnceAndSharedAgain) {
  EntryBody body;
  const auto spec = some_spec();
  auto allocation = std::make_shared<Allocation>();
  allocation->partition = "main";
  Grant grant;
  grant.node = NodeId(3);
  grant.tasks = 1;
  grant.cores = CoreSet::first_n(8);
  grant.memory_mb = 1000;
  grant.devices = DeviceSet::first_n(8);
  grant.whole_node = true;
  allocation->grants.push_back(grant);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    auto job = std::make_shared<Job>(*job_with(JobId(i), i, spec));
    job->allocation = allocation;
    body.changes.push_back({i, Ref<Job>(job), false});
  }
  const std::string text = encode_entry(body);
  EXPECT_LT(text.size(), 100u * 120u);

  const auto back = decode_entry(text);
  ASSERT_TRUE(back.ok()) << back.error().message;
  const auto& first = std::get<Ref<Job>>(back->changes.front().record);
  const auto& last = std::get<Ref<Job>>(back->changes.back().record);
  EXPECT_EQ(first->spec, last->spec);
  EXPECT_EQ(first->allocation, last->allocation);
  EXPECT_EQ(first->spec->comment, spec->comment);
  EXPECT_EQ(last->allocation->grants, allocation->grants);
}

TEST(EntryCodec, DistinctSpecsStayApart) {
  EntryBody body;
  body.changes.push_back({1, job_with(JobId(1), 1, some_spec()), false});
  body.changes.push_back({2, job_with(JobId(2), 2, some_spec()), true});
  body.changes.push_back({3, job_with(JobId(3), 3, nullptr), false});
  const auto back = decode_entry(encode_entry(body));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_NE(std::get<Ref<Job>>(back->changes[0].record)->spec, std::get<Ref<Job>>(back->changes[1].record)->spec);
  EXPECT_EQ(std::get<Ref<Job>>(back->changes[2].record)->spec, nullptr);
  EXPECT_TRUE(back->changes[1].removed);
}

TEST(EntryCodec, EntriesReadWithOnePoolShareEqualSpecs) {
  SpecPool pool;
  const auto read = [&](std::uint64_t id, Ref<JobSpec> spec) {
    EntryBody body;
    body.changes.push_back({id, job_with(JobId(id), id, std::move(spec)), false});
    const auto back = decode_entry(encode_entry(body), &pool);
    return back.ok() ? std::get<Ref<Job>>(back->changes[0].record)->spec : nullptr;
  };
  auto other = std::make_shared<JobSpec>(*some_spec());
  other->comment += "d";
  const auto first = read(1, some_spec());
  ASSERT_TRUE(first);
  EXPECT_EQ(read(2, some_spec()), first);
  const auto second = read(3, other);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->comment, other->comment);
  EXPECT_EQ(read(4, some_spec()), first);
  EXPECT_EQ(read(5, other), second);
}

TEST(EntryCodec, ARemovalKeepsItsOwnSeq) {
  EntryBody body;
  body.changes.push_back({9, job_with(JobId(1), 4, some_spec()), true});
  const auto back = decode_entry(encode_entry(body));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->changes[0].seq, 9u);
  EXPECT_EQ(meta_of(back->changes[0].record).seq, 4u);
}

TEST(EntryCodec, AnEmptyEntryIsOne) {
  EntryBody body;
  body.at = Instant{5};
  const auto back = decode_entry(encode_entry(body));
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(back->changes.empty());
  EXPECT_EQ(back->at, Instant{5});
}

TEST(EntryCodec, CorruptionIsCalledThat) {
  EntryBody body;
  body.changes.push_back({1, job_with(JobId(1), 1, some_spec()), false});
  const std::string text = encode_entry(body);
  for (std::size_t n = 0; n < text.size(); n += 17) {
    const auto got = decode_entry(text.substr(0, n));
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kCorrupt);
  }
  const struct {
    std::string text, field;
  } cases[] = {
      {R"({"changes":[]})", "v"},
      {R"({"v":0,"changes":[]})", "v"},
      {R"({"v":3,"changes":[]})", "v"},
      {R"({"v":1,"changes":[{"job":{"id":1,"spec":0}}]})", "changes[0].job.spec"},
      {R"({"v":1,"changes":[{"job":{"id":1,"spec":1}}],"job_specs":[{}]})", "changes[0].job.spec"},
      {R"({"v":1,"changes":[{"seq":1}]})", "changes[0]"},
      {R"({"v":1,"changes":[{"robot":{}}]})", "changes[0]"},
      {R"({"v":1,"changes":[{"job":{"state":"asleep"}}]})", "changes[0].job.state"},
      {R"({"v":1,"changes":[{"job":{"members":"arx"}}]})", "changes[0].job.members"},
      {R"({"v":1,"job_specs":[{},{"groups":3}]})", "job_specs[1].groups"},
      {R"({"v":1,"events":[{"about":-1}]})", "events[0].about"},
  };
  for (const auto& c : cases) {
    const auto got = decode_entry(c.text);
    ASSERT_FALSE(got.ok()) << c.text;
    EXPECT_EQ(got.error().code, Errc::kCorrupt) << c.text;
    EXPECT_EQ(got.error().field, c.field) << c.text;
  }
}

// What lies apart is not there for a program that knows version 1 only: it must refuse the entry, not misread it.
TEST(EntryCodec, EntriesSayThatValuesMayLieApart) {
  EXPECT_TRUE(encode_entry({}).starts_with(R"({"v":2,)")) << encode_entry({});
}

TEST(EntryCodec, InVersionOneNothingLiesApart) {
  using Options = std::vector<std::pair<std::string, std::string>>;
  const auto read = [](int version, const std::string& spec) {
    LongValues apart(nullptr, [](const std::string&) -> Result<std::string> { return R"([["kept","apart"]])"; });
    return decode_entry(
        format(R"({{"v":{},"changes":[{{"job":{{"id":1,"spec":0}}}}],"job_specs":[{}]}})", version, spec), nullptr,
        &apart);
  };
  const auto options = [&](int version) {
    const auto got = read(version, R"({"options":{"@":"x"}})");
    return got.ok() ? std::get<Ref<Job>>(got->changes[0].record)->spec->options.get()
                    : Options{{got.error().message, ""}};
  };
  EXPECT_EQ(options(1), (Options{{"@", "x"}})) << "a user chose that name";
  EXPECT_EQ(options(2), (Options{{"kept", "apart"}}));
  EXPECT_FALSE(read(1, R"({"comment":{"@":"x"}})").ok());
}

TEST(EntryCodec, LaterFieldsAreIgnored) {
  const auto got = decode_entry(R"({"v":1,"later":true,"changes":[{"later":1,"job":{"id":7,"later":{}},"seq":3}]})");
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(std::get<Ref<Job>>(got->changes[0].record)->id, JobId(7));
  EXPECT_EQ(got->changes[0].seq, 3u);
}

}  // namespace
}  // namespace lockstep
