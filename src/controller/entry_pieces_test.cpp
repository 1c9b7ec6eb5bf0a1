#include "controller/entry_pieces.h"

#include <gtest/gtest.h>

#include "base/mutant.h"
#include "controller/test_engine.h"
#include "model/bounds.h"

namespace lockstep {
namespace {

using EntryPiecesTest = EngineTest;

TEST_F(EntryPiecesTest, ALargeBatchIsCutAndCountsWhole) {
  auto engine = open();
  // Six objects of 400 KiB: more than three entries.
  for (int i = 0; i < 6; ++i)
    engine->submit(own(PutObject{note(format("o{}", i), std::string(400 << 10, 'x')), 0}), nullptr);
  const std::size_t before = log.entries.size();
  engine->run_batch(now + millis(1));
  ASSERT_GT(log.entries.size(), before + 3);
  for (std::size_t i = before; i + 1 < log.entries.size(); ++i) EXPECT_FALSE(log.entries[i].closing);
  EXPECT_TRUE(log.entries.back().closing);
  const Seq seq = engine->state().tables().seq;

  // Without its closing entry the batch never happened, and its numbers are given out again.
  TestLog torn = log;
  torn.entries.pop_back();
  {
    auto again = std::move(*Engine::open(torn, torn, {}, now));
    EXPECT_TRUE(again->state().tables().objects.empty());
    again->submit(own(PutObject{note("later"), 0}), nullptr);
    again->run_batch(now + seconds(1));
  }
  auto third = std::move(*Engine::open(torn, torn, {}, now));
  EXPECT_EQ(third->state().tables().objects.size(), 1u);

  auto whole = open();
  EXPECT_EQ(whole->state().tables().objects.size(), 6u);
  EXPECT_GE(whole->state().tables().seq, seq);
}

// Row 1 of what a hostile user tried: the controller stopped itself on a record of more than an entry.
TEST_F(EntryPiecesTest, ARecordMaySpanEntries) {
  std::vector<std::string> bodies;
  std::size_t appends_before = 0;
  {
    auto engine = open();
    for (const std::size_t bytes : {kEntryBytesMax - 200, kEntryBytesMax, kEntryBytesMax + 1, 3 * kEntryBytesMax}) {
      bodies.push_back(std::string(bytes, static_cast<char>('a' + bodies.size())));
      appends_before = log.entries.size();
      ASSERT_TRUE(run(*engine, PutObject{note(format("o{}", bodies.size()), bodies.back()), 0}).ok()) << log.refused;
    }
    EXPECT_GE(log.entries.size() - appends_before, 4u);
    // Beside others in one batch.
    for (int i = 0; i < 3; ++i) engine->submit(own(PutObject{note(format("many{}", i), bodies[2]), 0}), nullptr);
    while (engine->has_work()) engine->run_batch(now + millis(5));
  }
  for (const auto& entry : log.entries) EXPECT_LE(entry.bytes.size(), kEntryBytesMax);
  EXPECT_EQ(log.refused, "");
  for (const bool from_snapshot : {false, true}) {
    EngineSettings settings;
    if (from_snapshot)
      settings.snapshot_every = 1;
    auto engine = open(settings);
    ASSERT_TRUE(engine);
    for (std::size_t i = 0; i < bodies.size(); ++i)
      EXPECT_EQ(engine->state().tables().objects.at({"test/Note", "", format("o{}", i + 1)})->body, bodies[i]);
    EXPECT_EQ(engine->state().tables().objects.size(), bodies.size() + 3);
    engine->set_trim_floor(engine->last_index());  // the second time only the snapshot is there
  }
  EXPECT_EQ(log.refused, "") << "chunks of a snapshot are bounded, too";
  EXPECT_TRUE(open());
}

// What a record would take is known before it is committed: the command is refused with the number, and nothing
// happened.
TEST_F(EntryPiecesTest, ARecordBeyondItsBoundIsRefusedAndChangesNothing) {
  auto engine = open();
  const UserId ann = run(*engine, PutUser{person("ann", 1000)})->user;
  const std::string much(kRecordBytesMax + 1, 'm');
  auto spec = std::make_shared<JobSpec>();
  spec->name = "large";
  spec->user = ann;
  spec->hold = true;
  spec->script = id_of(1);
  spec->groups.resize(1);
  spec->groups[0].launch = Launch::kScript;
  const auto small = run(*engine, SubmitJob{.spec = std::make_shared<JobSpec>(*spec)});
  ASSERT_TRUE(small.ok()) << small.error().message;
  // Each field within its own bound, more than a record together.
  spec->groups[0].argv = {std::string(kArgvBytesMax, 'm')};
  spec->groups[0].env = {{"A", std::string(kVariablesBytesMax - 1000, 'm')}};
  spec->options = {{"a", std::string(kVariablesBytesMax - 1000, 'm')}};
  UpdateJob update{.target = {.job = small->job}};
  update.comment = much;
  NodeHello hello;
  hello.facts.meta.name = "n1";
  hello.facts.boot_id = "boot";
  hello.facts.cores = 4;
  hello.facts.memory_mb = 1000;
  hello.facts.features = {much};
  Partition partition;
  partition.meta.name = "wide";
  partition.nodes.assign(kRecordBytesMax / 8, "node123");
  const std::pair<CommandBody, std::string> commands[] = {
      {PutObject{note("large", much), 0}, "body"},
      {SubmitJob{.spec = spec}, "groups"},
      {update, "comment"},
      {hello, "features"},
      {PutPartition{partition}, "nodes"},
  };
  for (const auto& [command, heaviest] : commands) {
    const Seq seq = engine->state().tables().seq;
    const std::size_t entries = log.entries.size();
    const auto answer = run(*engine, command);
    ASSERT_FALSE(answer.ok()) << heaviest;
    EXPECT_NE(answer.error().message.find_first_of("0123456789"), std::string::npos) << answer.error().message;
    const bool of_the_record = heaviest == "groups";  // the others meet the narrower bound of a field first
    EXPECT_EQ(answer.error().code, of_the_record ? Errc::kExhausted : Errc::kInvalid) << answer.error().message;
    EXPECT_EQ(answer.error().field.substr(0, heaviest.size()), heaviest);
    if (of_the_record) {
      EXPECT_NE(answer.error().message.find("1310720 are allowed"), std::string::npos) << answer.error().message;
    }
    EXPECT_EQ(engine->state().tables().seq, seq);
    EXPECT_EQ(log.entries.size(), entries);
    check_invariants(engine->state());
  }
  EXPECT_FALSE(engine->read_only());
  EXPECT_TRUE(run(*engine, PutObject{note("after"), 0}).ok());
  planted = Mutant::kOversizeAccepted;
  const bool refused = !run(*engine, SubmitJob{.spec = spec}).ok();
  planted = Mutant::kNone;
  EXPECT_NE(log.refused, "") << "planted: the log is asked for what it cannot take" << refused;
}

TEST_F(EntryPiecesTest, APlantedOversizeEntryIsRefusedByTheLogAndNotTheEndOfTheController) {
  auto engine = open();
  planted = Mutant::kOversizeAccepted;
  const auto answer = run(*engine, PutObject{note("big", std::string(2 * kEntryBytesMax, 'x')), 0});
  planted = Mutant::kNone;
  EXPECT_FALSE(answer.ok());
  EXPECT_NE(log.refused.find("bytes; 1048576 are allowed"), std::string::npos) << log.refused;
  now = now + seconds(2);
  EXPECT_TRUE(run(*engine, PutObject{note("big", std::string(2 * kEntryBytesMax, 'x')), 0}).ok());
}

// A batch ends once it brings two mebibytes: nobody waits while 500 fat jobs are written.
TEST_F(EntryPiecesTest, ABatchTakesOnlySoManyBytes) {
  auto engine = open();
  int answers = 0;
  for (int i = 0; i < 20; ++i)
    engine->submit(own(PutObject{note(format("n{}", i), std::string(300'000, 'x')), 0}),
                   [&](const Result<Answer>& answer) { answers += answer.ok(); });
  engine->run_batch(now);
  EXPECT_GT(answers, 0);
  EXPECT_LE(answers, 8);
  while (engine->has_work()) engine->run_batch(now);
  EXPECT_EQ(answers, 20);
}

TEST_F(EntryPiecesTest, ABatchTakesOnlySoManyBytesOfWhatJobsAskFor) {
  auto engine = open();
  const auto user = run(*engine, PutUser{person("ann", 1000)});
  int answers = 0;
  for (int i = 0; i < 20; ++i) {
    auto spec = std::make_shared<JobSpec>();
    spec->name = "a";
    spec->user = user->user;
    spec->hold = true;
    spec->groups.resize(1);
    spec->groups[0].launch = Launch::kScript;
    spec->script = id_of(1);
    spec->groups[0].argv.assign(30'000, format("argument-{}", i));
    engine->submit(own(SubmitJob{.spec = spec}), [&](const Result<Answer>& answer) { answers += answer.ok(); });
  }
  engine->run_batch(now);
  EXPECT_GT(answers, 0);
  EXPECT_LE(answers, 8);
  while (engine->has_work()) engine->run_batch(now);
  EXPECT_EQ(answers, 20);
}

}  // namespace
}  // namespace lockstep
