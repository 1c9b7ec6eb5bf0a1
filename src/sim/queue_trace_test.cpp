// Job logs: what is read, what is left out, and what is said of a damaged one.
#include "sim/queue_trace.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

Result<QueueTrace> csv_trace(std::string text) {
  return read_queue_trace(TraceFile::from_bytes("t.csv", std::move(text), TraceForm::kCsv).value());
}
Result<QueueTrace> swf(std::string text) {
  return read_queue_trace(TraceFile::from_bytes("t.swf", std::move(text), TraceForm::kSwf).value());
}

TEST(QueueTrace, ReadsCsvByColumnNameInOrderOfSubmission) {
  const QueueTrace trace = csv_trace("id,gpus,reqtime,run,submit,vc\n7,8,900,79,500,3\n8,1,60,79,400,0\n").value();
  ASSERT_EQ(trace.jobs.size(), 2u);
  EXPECT_EQ(trace.jobs[0].id, 8);
  EXPECT_EQ(trace.jobs[0].limit_s, 79);  // raised to the run time
  EXPECT_EQ(trace.jobs[1].size, 8);
  EXPECT_EQ(trace.jobs[1].user, "3");
  EXPECT_FALSE(trace.jobs[1].published_start_s.has_value());
  EXPECT_EQ(csv_trace("id,procs,reqtime,run,submit,pub_start\n1,2,3,4,5,6\n")->jobs[0].published_start_s, 6);
}

TEST(QueueTrace, ReadsSwfAndLeavesOutWhatNeverRan) {
  const QueueTrace trace = swf("; Version: 2\n"
                               "1 10 -1 100 4 -1 -1 8 600 -1 1 17 -1 -1 -1 -1 -1 -1\n"
                               "2 11 -1 0 4 -1 -1 4 600 -1 5 17 -1 -1 -1 -1 -1 -1\n"
                               "3 12 -1 50 4 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n")
                               .value();
  ASSERT_EQ(trace.jobs.size(), 2u);
  EXPECT_EQ(trace.left_out.no_run, 1u);
  EXPECT_EQ(trace.left_out.all(), 1u);
  EXPECT_EQ(trace.jobs[0].size, 8);
  EXPECT_EQ(trace.jobs[0].limit_s, 600);
  EXPECT_EQ(trace.jobs[0].user, "17");
  EXPECT_EQ(trace.jobs[1].limit_s, 50);
  EXPECT_EQ(trace.jobs[1].user, "");
}

TEST(QueueTrace, RecordsThatAreNoJobsAreCountedByTheirReason) {
  const QueueTrace trace = swf("1 10 -1 100 4 -1 -1 4 600 -1 1 1 -1 -1 -1 -1 -1 -1\n"   // a whole job
                               "1 10 -1  60 4 -1 -1 4 600 -1 2 1 -1 -1 -1 -1 -1 -1\n"   // and its parts
                               "1 -1 -1  40 4 -1 -1 4 600 -1 3 1 -1 -1 -1 -1 -1 -1\n"   //
                               "1 -1 -1  40 4 -1 -1 4 600 -1 4 1 -1 -1 -1 -1 -1 -1\n"   //
                               "2 11 -1  -1 4 -1 -1 4 600 -1 5 1 -1 -1 -1 -1 -1 -1\n"   // cancelled in the queue
                               "3 12 -1 -1 -1 -1 -1 -1 -1 -1 5 1 -1 -1 -1 -1 -1 -1\n"   // likewise
                               "4 13 -1  50 4 -1 -1 4 600 -1 5 1 -1 -1 -1 -1 -1 -1\n"   // cancelled as it ran
                               "5 14 -1  50 0 -1 -1 -1 60 -1 0 1 -1 -1 -1 -1 -1 -1\n"   // nobody knows on how many
                               "6 -1 -1  50 4 -1 -1 4 600 -1 1 1 -1 -1 -1 -1 -1 -1\n"   // nor when it came
                               "7 15 -1  -8 4 -1 -1 4 600 -1 1 -2 -1 -1 -1 -1 -1 -1\n"  // a clock that was set back
                               "8 16 -1  50 4 -1 -1 4 600 -1 0 1 -1 -1 -1 -1 -1 -1\n")  // failed
                               .value();
  std::vector<std::int64_t> ids;
  for (const TraceJob& job : trace.jobs) ids.push_back(job.id);
  EXPECT_EQ(ids, (std::vector<std::int64_t>{1, 4, 8}));
  EXPECT_EQ(words_of(trace.left_out),
            "8 records left out: 3 parts of jobs that are recorded whole, 1 without a time of submission, 3 without a "
            "run time, 1 without a size");
  EXPECT_EQ(words_of(LeftOut{}), "");
}

TEST(QueueTrace, DamageIsToldByLineAndField) {
  EXPECT_EQ(csv_trace("id,gpus,reqtime,run,submit\n1,2,3,4,5\n2,0,3,4,5\n").error().message.substr(0, 13),
            "t.csv:3: gpus");
  EXPECT_EQ(csv_trace("id,gpus,reqtime,run,submit\n1,2,3,x,5\n").error().message.substr(0, 12), "t.csv:2: run");
  EXPECT_EQ(csv_trace("id,gpus,reqtime,run,submit\n1,2,3,-4,5\n").error().message.substr(0, 12), "t.csv:2: run");
  EXPECT_EQ(csv_trace("id,gpus,reqtime,run,submit\n1,2,3,4,99999999999999\n").error().message.substr(0, 15),
            "t.csv:2: submit");
  EXPECT_FALSE(csv_trace("id,gpus,reqtime,submit\n1,2,3,5\n").ok());
  EXPECT_EQ(csv_trace("id,gpus,reqtime,run,submit\n").error().message, "t.csv: there is no usable job in it");
  EXPECT_FALSE(swf("1 2 3\n").ok());
}

TEST(QueueTrace, WindowsAndScaling) {
  const std::vector<TraceJob> jobs =
      csv_trace("id,gpus,reqtime,run,submit\n1,1,1,1,100\n2,1,1,1,200\n3,1,1,1,300\n")->jobs;
  EXPECT_EQ(window_of(jobs, 1, 2)->front().id, 2);
  EXPECT_FALSE(window_of(jobs, 1, 3).ok());
  EXPECT_FALSE(window_of(jobs, 3, 1).ok());
  EXPECT_FALSE(window_of(jobs, 0, 0).ok());
  EXPECT_FALSE(window_of(jobs, 1, SIZE_MAX).ok());
  EXPECT_EQ(scaled(jobs, 1.015)[1].submit_s, 203);
}

}  // namespace
}  // namespace lockstep::sim
