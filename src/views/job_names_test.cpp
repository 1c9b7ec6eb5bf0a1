#include "views/job_names.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "model/job.h"

namespace lockstep {
namespace {

std::string again(std::string_view text) {
  const auto name = parse_work_name(text);
  return name.ok() ? text_of(*name) : "error: " + name.error().message;
}

TEST(JobNames, EveryForm) {
  const auto plain = parse_work_name("12");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->target.job, JobId(12));
  EXPECT_FALSE(plain->target.elements);
  EXPECT_FALSE(plain->step);

  const auto element = parse_work_name("12_3");
  ASSERT_TRUE(element.ok());
  EXPECT_EQ(element->target.elements->text(), "3");

  const auto elements = parse_work_name("12_[3-9,12]");
  ASSERT_TRUE(elements.ok());
  EXPECT_EQ(elements->target.elements->text(), "3-9,12");

  EXPECT_EQ(parse_work_name("12.0")->step, 0);
  EXPECT_EQ(parse_work_name("12.batch")->step, kBatchStep);
  EXPECT_EQ(parse_work_name("12_3.4")->step, 4);
  EXPECT_EQ(parse_work_name("12_3.4")->target.elements->text(), "3");
  EXPECT_EQ(parse_work_name("18446744073709551615")->target.job, JobId(UINT64_MAX));
}

TEST(JobNames, TextComesBack) {
  for (const std::string_view text : {"12", "12_3", "12_0", "12_[3-9,12]", "12.0", "12.batch", "12_3.4"})
    EXPECT_EQ(again(text), text);
  EXPECT_EQ(again("12_[3]"), "12_3");
  EXPECT_EQ(again("12_[0-8:4]"), "12_[0,4,8]");
  EXPECT_EQ(again("12_[3-9%2]"), "12_[3-9]");  // as squeue prints a throttled array
}

TEST(JobNames, RefusesTheRest) {
  for (const std::string_view text : {"",
                                      "0",
                                      "-1",
                                      "x",
                                      "12x",
                                      " 12",
                                      "12 ",
                                      "12_",
                                      "12_x",
                                      "12_-1",
                                      "12_[",
                                      "12_[]",
                                      "12_[3",
                                      "12_3]",
                                      "12_[3-]",
                                      "12_[9-3]",
                                      "12_[3%]",
                                      "12_[3%x]",
                                      "12_3-9",
                                      "12_3,4",
                                      "12.",
                                      "12.x",
                                      "12.-1",
                                      "12.0.1",
                                      "12.Batch",
                                      "_3",
                                      ".0",
                                      "12_[3-9].0",
                                      "12.0_3",
                                      "12.2147483648",
                                      "18446744073709551616",
                                      "12_4294967296",
                                      "12+1",
                                      "1,2"}) {
    const auto name = parse_work_name(text);
    ASSERT_FALSE(name.ok()) << text;
    EXPECT_EQ(name.error().code, Errc::kInvalid);
    EXPECT_EQ(name.error().field, "id");
  }
}

TEST(JobNames, JobsAreNoStepsAndStepsAreNoJobs) {
  EXPECT_TRUE(parse_job_target("12_[1-2]").ok());
  EXPECT_FALSE(parse_job_target("12.0").ok());
  EXPECT_FALSE(parse_step_name("12").ok());
  const auto step = parse_step_name("12_3.batch");
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(step->step, kBatchStep);
  EXPECT_EQ(text_of(step->target), "12_3");
}

TEST(JobNames, Lists) {
  const auto names = parse_work_names("12,13_[1,4-5],14.batch,,15");
  ASSERT_TRUE(names.ok()) << names.error().message;
  ASSERT_EQ(names->size(), 4u);
  EXPECT_EQ(text_of((*names)[1]), "13_[1,4-5]");
  EXPECT_EQ(text_of((*names)[2]), "14.batch");
  EXPECT_TRUE(parse_work_names("")->empty());
  EXPECT_FALSE(parse_work_names("12,x").ok());
  EXPECT_FALSE(parse_work_names("12_[1,2").ok());
}

TEST(JobNames, OtherNamesAreFoldedAndCounted) {
  EXPECT_EQ(*parse_names("b,a,,b,c,a", "user"), (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_TRUE(parse_names("", "user")->empty());
  std::string many = "n0";
  for (std::size_t i = 1; i < kJobNamesMax; ++i) many += format(",n{}", i);
  EXPECT_EQ(parse_names(many, "user")->size(), kJobNamesMax);
  const auto refused = parse_names(many + ",n", "user");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "user");
}

TEST(JobNames, RecordsAreCalledAsUsersKnowThem) {
  Job job;
  job.id = JobId(20);
  EXPECT_EQ(job_text(job), "20");
  job.array_job = JobId(12);
  job.array_index = 0;
  EXPECT_EQ(job_text(job), "12_0");
  EXPECT_EQ(step_text(0), "0");
  EXPECT_EQ(step_text(kBatchStep), "batch");
}

}  // namespace
}  // namespace lockstep
