// Long values: written once, found again, and gone only when nothing names them.
#include "wire/long_values.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "model/change.h"
#include "model/job.h"
#include "wire/entry_stream.h"

namespace lockstep {
namespace {

std::string hash(std::string_view text) { return format("{:064x}", std::hash<std::string_view>{}(text)); }

class Store {
 public:
  LongValues values{hash, [this](const std::string& id) -> Result<std::string> {
                      const auto at = blobs.find(id);
                      return at == blobs.end() ? Result<std::string>(not_found("no blob")) : at->second;
                    }};
  std::map<std::string, std::string> blobs;
  std::vector<std::string> entries;

  // As an engine does: the entry, and with it what it names.
  const std::string& write(const Change& change) {
    EntryWriter writer(Instant{1}, &values);
    writer.add(change);
    entries.push_back(writer.finish());
    for (const auto& [id, text] : values.fresh()) blobs.emplace(id, text);
    values.settle(entries.size());
    return entries.back();
  }
  Result<Ref<Job>> read(const std::string& entry, LongValues& with) {
    EntryReader reader(nullptr, &with);
    TRY(reader.add(entry, true));
    return std::get<Ref<Job>>(reader.take().changes.at(0).record);
  }
  LongValues reading() {
    return {nullptr, [this](const std::string& id) -> Result<std::string> {
              const auto at = blobs.find(id);
              return at == blobs.end() ? Result<std::string>(not_found("no blob")) : at->second;
            }};
  }
};

Job fat_job() {
  auto spec = std::make_shared<JobSpec>();
  spec->name = "fat";
  spec->groups.resize(1);
  spec->groups[0].argv.assign(10'000, "argument");
  spec->options = std::vector<std::pair<std::string, std::string>>{{"wrap", std::string(50'000, 'w')}};
  spec->comment = std::string(20'000, 'c');
  auto step = std::make_shared<StepSpec>();
  step->argv.assign(10'000, "word");
  auto allocation = std::make_shared<Allocation>();
  for (std::uint32_t i = 1; i <= 5000; ++i) {
    Grant grant;
    grant.node = NodeId(i);
    grant.tasks = 1;
    grant.cores = CoreSet::first_n(8);
    allocation->grants.push_back(grant);
  }
  Job job;
  job.id = JobId(7);
  job.spec = spec;
  job.first_step = step;
  job.allocation = allocation;
  return job;
}

Change change_of(Job job, Seq seq) {
  job.meta.seq = seq;
  return {seq, std::make_shared<const Job>(std::move(job)), false};
}

TEST(LongValues, AChangeOfStateCostsTheSameHoweverLongTheWordsAre) {
  Store store;
  Job job = fat_job();
  EXPECT_LT(store.write(change_of(job, 1)).size(), 2000u);
  EXPECT_EQ(store.blobs.size(), 5u) << "groups, options, comment, the step's specification, the allocation";
  job.state = JobState::kRunning;
  EXPECT_LT(store.write(change_of(job, 2)).size(), 2000u);
  // A copy that differs in a short field shares the long ones.
  auto other = std::make_shared<JobSpec>(*job.spec);
  other->hold = true;
  job.spec = other;
  EXPECT_LT(store.write(change_of(job, 3)).size(), 2000u);
  EXPECT_EQ(store.blobs.size(), 5u);
  EXPECT_TRUE(store.values.fresh().empty());

  LongValues again = store.reading();
  const auto first = store.read(store.entries[0], again), last = store.read(store.entries[2], again);
  ASSERT_TRUE(first.ok() && last.ok()) << (first.ok() ? last : first).error().message;
  EXPECT_EQ((*first)->spec->groups, job.spec->groups);
  EXPECT_EQ((*first)->spec->options, job.spec->options);
  EXPECT_EQ((*first)->spec->comment, job.spec->comment);
  EXPECT_EQ((*first)->first_step->argv, job.first_step->argv);
  EXPECT_EQ((*last)->allocation->grants, job.allocation->grants);
  EXPECT_TRUE((*last)->spec->hold);
  EXPECT_TRUE((*first)->spec->groups.shares_with((*last)->spec->groups)) << "and they share it again";
  EXPECT_EQ((*first)->allocation, (*last)->allocation);
}

// Where a wide step runs is said once; what a node reports of it is a letter.
TEST(LongValues, AReportOfAWideStepDoesNotWriteItsPlacesAgain) {
  Store store;
  Step step;
  step.job = JobId(7);
  step.spec = std::make_shared<const StepSpec>();
  std::vector<StepPlace> places(5000);
  for (std::uint32_t i = 0; i < places.size(); ++i) {
    places[i].node = NodeId(i + 1);
    places[i].grant = i;
    places[i].ranks = {i};
  }
  step.places = std::move(places);
  step.members.assign(5000, MemberState::kAssigned);
  const auto write = [&](Seq seq) {
    step.meta.seq = seq;
    return store.write({seq, std::make_shared<const Step>(step), false}).size();
  };
  write(1);
  step.members[17] = MemberState::kRunning;
  EXPECT_LT(write(2), 7000u);
  EXPECT_EQ(store.blobs.size(), 1u);
}

TEST(LongValues, WhatWasReadIsNotWrittenAgain) {
  Store store;
  store.write(change_of(fat_job(), 1));
  Store second;
  second.blobs = store.blobs;
  const auto job = second.read(store.entries[0], second.values);
  ASSERT_TRUE(job.ok());
  second.values.settle(1);
  second.write(change_of(**job, 2));
  EXPECT_EQ(second.blobs.size(), store.blobs.size());
}

TEST(LongValues, WhatWasNotStoredIsWrittenAgain) {
  Store store;
  const Job job = fat_job();
  EntryWriter writer(Instant{1}, &store.values);
  writer.add(change_of(job, 1));
  (void)writer.finish();
  EXPECT_EQ(store.values.fresh().size(), 5u);
  store.values.withdraw();
  EXPECT_TRUE(store.values.fresh().empty());
  store.write(change_of(job, 1));
  EXPECT_EQ(store.blobs.size(), 5u);
}

TEST(LongValues, ABlobGoesWhenNothingNamesIt) {
  Store store;
  Job job = fat_job();
  store.write(change_of(job, 1));
  const auto held = [](const Job& of) {
    return std::unordered_set<const void*>{&of.spec->groups.get(), &of.spec->options.get(), &of.spec->comment.get(),
                                           of.first_step.get(), of.allocation.get()};
  };
  const auto left = [&] {
    return std::count_if(store.blobs.begin(), store.blobs.end(),
                         [&](const auto& blob) { return store.values.has(blob.first); });
  };
  store.values.sweep(held(job), 1);
  EXPECT_EQ(left(), 5) << "a record holds them";
  const auto frozen = store.values.frozen();
  // The job lost its allocation; the entry that names it is still there.
  Job ended = job;
  ended.allocation = nullptr;
  store.values.sweep(held(ended), 0);
  EXPECT_EQ(left(), 5);
  // A snapshot that was begun while the job had it names it, too.
  EntryWriter writer(Instant{1}, frozen.get());
  writer.add(change_of(job, 1));
  EXPECT_LT(writer.finish().size(), 2000u);
  store.values.settle_snapshot(*frozen, 1);
  store.values.sweep(held(ended), 1);
  EXPECT_EQ(left(), 5);
  store.values.sweep(held(ended), 2);
  EXPECT_EQ(left(), 4);
  // What went is stored anew where it is needed again.
  store.write(change_of(job, 2));
  EXPECT_EQ(left(), 5);
}

TEST(LongValues, AFrozenOnePutsNothingApart) {
  Store store;
  const auto frozen = store.values.frozen();
  EntryWriter writer(Instant{1}, frozen.get());
  writer.add(change_of(fat_job(), 1));
  EXPECT_GT(writer.finish().size(), 200'000u);
}

TEST(LongValues, ABlobThatIsMissingOrDamagedIsAnError) {
  Store store;
  store.write(change_of(fat_job(), 1));
  EntryReader alone;
  EXPECT_EQ(alone.add(store.entries[0], true).error().code, Errc::kCorrupt);
  for (const char* const damage : {"", "[", "{\"argv\":7}", "[[1]]", "17"}) {
    for (auto& [id, text] : store.blobs) text = damage;
    LongValues again = store.reading();
    EXPECT_EQ(store.read(store.entries[0], again).error().code, Errc::kCorrupt) << damage;
  }
  store.blobs.clear();
  LongValues again = store.reading();
  const auto missing = store.read(store.entries[0], again);
  EXPECT_EQ(missing.error().code, Errc::kCorrupt);
  EXPECT_NE(missing.error().message.find("no blob"), std::string::npos) << missing.error().message;
}

// Whoever chooses names of options chooses none that our own log takes for the name of a value.
TEST(LongValues, NoWordOfAUserIsTakenForTheNameOfOne) {
  Store store;
  using Options = std::vector<std::pair<std::string, std::string>>;
  const std::string id(64, 'a');
  for (const Options& options :
       {Options{{"@", "x"}}, Options{{"@", id}}, Options{{"@", id}, {"a", "b"}}, Options{{"", "x"}}}) {
    Job job = fat_job();
    auto spec = std::make_shared<JobSpec>(*job.spec);
    spec->options = options;
    spec->labels = options;
    spec->comment = "{\"@\":\"" + id + "\"}";
    job.spec = spec;
    LongValues again = store.reading();
    const auto back = store.read(store.write(change_of(job, 1)), again);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ((*back)->spec->options, spec->options);
    EXPECT_EQ((*back)->spec->labels, spec->labels);
    EXPECT_EQ((*back)->spec->comment, spec->comment);
  }
}

TEST(LongValues, ACallersPairMayHaveAnyName) {
  const auto got = decode_submit(R"({"spec":{"name":"x","groups":[{}],"options":{"@":"x"}}})");
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->spec.options, (std::vector<std::pair<std::string, std::string>>{{"@", "x"}}));
}

// Nobody outside can name a blob where a value is asked for.
TEST(LongValues, StrangersNameNone) {
  const std::string body = R"({"spec":{"name":"x","comment":{"@":")" + std::string(64, 'a') + R"("}}})";
  EXPECT_FALSE(decode_submit(body).ok());
}

}  // namespace
}  // namespace lockstep
