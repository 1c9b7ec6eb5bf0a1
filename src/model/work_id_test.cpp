#include "model/work_id.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace lockstep {
namespace {

TEST(WorkId, IsReadAsItWasWritten) {
  const JobId job{18446744073709551615u};
  for (const WorkPart& part : {WorkPart{ScriptPart{}}, WorkPart{StepPart{0}}, WorkPart{StepPart{INT32_MAX}},
                               WorkPart{TaskPart{65535, 4294967295u, 4294967295u}}, WorkPart{TaskPart{0, 3, 1}}}) {
    const WorkId work{job, 7, part};
    EXPECT_EQ(parse_work_id(text_of(work)), work) << text_of(work);
  }
  EXPECT_EQ(text_of({JobId{12}, 1, ScriptPart{}}), "12-1-batch");
  EXPECT_EQ(text_of({JobId{12}, 1, StepPart{0}}), "12-1-0");
  EXPECT_EQ(text_of({JobId{12}, 1, TaskPart{0, 3, 1}}), "12-1-task-0.3.1");
}

TEST(WorkId, NothingElseIsRead) {
  for (const char* text : {"", "12", "12-1", "12-1-", "12-1--1", "12-1-batch-", "12-1-00", "+12-1-0", "12-1-2147483648",
                           "12-4294967296-0", "12-1-task-1.2", "12-1-task-65536.0.1", "12-1-task-0.3.1.4", "a-1-0",
                           "12-1-task", "12-1-batch-0.1.1", " 12-1-0", "12-1-task-0.3.1-2"})
    EXPECT_FALSE(parse_work_id(text)) << text;
}

TEST(WorkId, RandomTextIsRefusedOrComesBack) {
  Rng rng(1);
  constexpr std::string_view kLetters = "0123456789-.batchsk";
  for (int i = 0; i < 200'000; ++i) {
    std::string text = rng.chance(0.7) ? "12-1-" : "";
    for (std::uint64_t n = rng.below(12); n > 0; --n) text += kLetters[rng.below(kLetters.size())];
    if (const auto work = parse_work_id(text))
      EXPECT_EQ(text_of(*work), text);
  }
}

}  // namespace
}  // namespace lockstep
