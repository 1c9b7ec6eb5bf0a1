// What-if files: YAML and JSON in all their forms, errors with their place, and thousands of damaged ones.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/text.h"
#include "wire/foresight.h"
#include "wire/yaml.h"

namespace lockstep {
namespace {

constexpr std::string_view kFile = R"(# more nodes, and a shorter job
- add_nodes: {like: n1, count: 4}
- remove_nodes: n[3-4]
- partition:
    name: main
    time_max: 1-12:00:00
    nodes: n[1-9]
    tier: 3
- policy: {weight_qos: 0, half_life: 4h}
- qos: {name: gold, limits: {max_jobs: 4}}
- job:
    id: 12
    nodes: 6
    time_limit: "3:40:00"
    partition: a,b
- remove_jobs: [7, "8_[1-3]"]
- add_jobs: {like: 12}
)";

template <class T>
const T& of(const std::vector<ChangeAsk>& changes, std::size_t i) {
  return std::get<T>(changes.at(i).what);
}

TEST(Changes, AFileOfAllKinds) {
  const auto yaml = json_of_yaml(kFile);
  ASSERT_TRUE(yaml.ok()) << yaml.error().message;
  const auto read = decode_changes(yaml->json);
  ASSERT_TRUE(read.ok()) << read.error().field << ": " << read.error().message;
  ASSERT_EQ(read->size(), 8u);
  EXPECT_EQ(of<AddNodes>(*read, 0).like, "n1");
  EXPECT_EQ(of<AddNodes>(*read, 0).count, 4u);
  EXPECT_EQ(of<SetNodes>(*read, 1).nodes, "n3,n4");
  const auto& partition = of<EditRecord>(*read, 2);
  EXPECT_EQ(partition.name, "main");
  auto base = std::make_shared<Partition>();
  base->meta.name = "main";
  base->priority = 7;
  const auto laid = laid_over(partition, Record(Ref<Partition>(base)));
  ASSERT_TRUE(laid.ok());
  const auto& after = *std::get<Ref<Partition>>(*laid);
  EXPECT_EQ(after.time_max, hours(36));
  EXPECT_EQ(after.nodes.size(), 9u);
  EXPECT_EQ(after.tier, 3u);
  EXPECT_EQ(after.priority, 7u);  // what is not named stays
  const auto& job = of<UpdateJob>(*read, 5);
  EXPECT_EQ(job.target.job, JobId{12});
  EXPECT_EQ(job.nodes, (CountRange{6, 6}));
  EXPECT_EQ(job.time_limit, minutes(220));
  EXPECT_EQ(job.partitions, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(of<RemoveJobs>(*read, 6).jobs.size(), 2u);
  EXPECT_EQ(read->at(5).field, "[5].job");
}

TEST(Changes, ObjectsAndTheListInsideAnObject) {
  const auto object = decode_changes(R"({"drain":"n1","job":[{"id":1,"nodes":2},{"id":2,"priority":9}]})");
  ASSERT_TRUE(object.ok()) << object.error().message;
  EXPECT_EQ(object->size(), 3u);
  EXPECT_EQ(object->at(2).field, "job[1]");
  const auto inside = decode_changes(R"({"changes":[{"drain":"n1"}]})");
  ASSERT_TRUE(inside.ok());
  EXPECT_EQ(inside->at(0).field, "changes[0].drain");
}

TEST(Changes, ErrorsSayWhereAndWhy) {
  const auto where = [](std::string_view text) {
    const auto yaml = json_of_yaml(text);
    if (!yaml.ok())
      return yaml.error().message;
    const auto read = decode_changes(yaml->json);
    return read.ok() ? std::string("fine")
                     : format("line {}: {}", yaml->line_of(read.error().field), read.error().field);
  };
  EXPECT_EQ(where("- drain: n1\n- partition:\n    name: a\n    tme_max: 3\n"), "line 4: [1].partition.tme_max");
  EXPECT_EQ(where("- drain: n1\n- explode: n1\n"), "line 2: [1].explode");
  EXPECT_EQ(where("- job:\n    id: 3\n    nodes: many\n"), "line 3: [0].job.nodes");
  EXPECT_EQ(where("- job: {id: 3, time_limit: soon}\n"), "line 1: [0].job.time_limit");
  EXPECT_EQ(where("- drain: n[1-\n"), "line 1: [0].drain");
  EXPECT_EQ(where("- drain: n1\n  - x\n").substr(0, 5), "line ");
  EXPECT_EQ(where("- a: &x 1\n- b: *x\n"), "line 1: anchors are not read: write it out");
  EXPECT_EQ(where("drain: n1\ndrain: n2\n"), "line 2: drain is there twice");
  EXPECT_EQ(where(""), "line 1: the file is empty");
  EXPECT_EQ(where("- add_nodes: {like: n1, count: 99999999999}\n"), "line 1: [0].add_nodes.count");
  EXPECT_EQ(where("--- 1\n--- 2\n"), "line 2: a second document: one is read");
}

TEST(Changes, DamagedFilesAreReadOrRefused) {
  constexpr std::string_view kTokens[] = {
      "- ", ": ", "[", "]", "{",   "}",   "\n",    "&a ",  "*a", "!!x ", "\"", "'", "99999999999999999999",
      "\t", "|",  ">", "%", "---", "job", "nodes", "\xff", "~"};
  int read = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    Rng rng(seed * 977 + 5);
    std::string text(kFile);
    for (std::uint64_t n = 1 + rng.below(3); n > 0 && !text.empty(); --n) {
      const std::size_t at = rng.below(text.size());
      switch (rng.below(5)) {
        case 0: text[at] = static_cast<char>(rng.below(256)); break;
        case 1: text.erase(at, 1 + rng.below(8)); break;
        case 2: text.insert(at, kTokens[rng.below(std::size(kTokens))]); break;
        case 3: text.insert(at, text.substr(rng.below(text.size()), rng.below(60))); break;
        default: text.resize(at); break;
      }
    }
    const auto yaml = json_of_yaml(text);
    if (!yaml.ok()) {
      ++refused;
      ASSERT_TRUE(yaml.error().message.starts_with("line ")) << yaml.error().message;
      continue;
    }
    const auto changes = decode_changes(yaml->json);
    if (!changes.ok()) {
      ++refused;
      ASSERT_FALSE(changes.error().message.empty());
      continue;
    }
    ++read;
    for (const ChangeAsk& change : *changes)
      if (const auto* edit = std::get_if<EditRecord>(&change.what); edit && edit->kind == Kind::kPartition) {
        ASSERT_TRUE(laid_over(*edit, Record(Ref<Partition>(std::make_shared<Partition>()))).ok());
      }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 1000);
}

TEST(Foresight, AnswersComeBackAsTheyWere) {
  Explanation e;
  e.job = JobId{12};
  e.because = "8 nodes are needed, 6 are free now.";
  e.expected = {
      .start = WallTime{5'000'000}, .binds = true, .partition = "main", .nodes = "n[1-8]", .reason = "Resources"};
  e.funnels.push_back({"main", 1, 8, "", {{"up", 9, "1 drained", "n3: drained, fan"}}});
  e.first_ahead.push_back({JobId{5}, "big", "ann", "tier", {.started = true}});
  e.in_the_way.push_back({JobId{4}, "x", "bob", "n1", {}});
  e.suggestions.push_back(
      {{}, {.started = true, .cores = 6}, "6 nodes instead of 8", "scontrol update JobId=12 NumNodes=6"});
  e.all_tried = false;
  const auto back = decode_explanation(encode(e));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(encode(*back), encode(e));
  EXPECT_EQ(back->expected, e.expected);
  EXPECT_EQ(back->suggestions[0].then, e.suggestions[0].then);
  EXPECT_FALSE(back->all_tried);

  WhatIfAnswer w;
  w.jobs.push_back({.job = JobId{3}, .name = "a", .added = true, .after = e.expected});
  w.after.mean_wait_s = 7;
  const auto both = decode_what_if_answer(encode(w));
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(encode(*both), encode(w));
  const auto tried = decode_try_submit(encode(TrySubmit{JobId{2}, e.expected, "Job 2 to start at \"now\""}));
  ASSERT_TRUE(tried.ok());
  EXPECT_EQ(tried->message, "Job 2 to start at \"now\"");
}

}  // namespace
}  // namespace lockstep
