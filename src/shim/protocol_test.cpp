#include "shim/protocol.h"

#include <gtest/gtest.h>

#include "shim/task_launch.h"

namespace lockstep {
namespace {

ShimStart sample() {
  ShimStart start;
  start.key = {JobId(12), 3, StepPart{4}};
  start.script = "#!/bin/sh\n";
  start.fence_after = minutes(10);
  start.launch.node_index = 2;
  start.launch.ranks = {4, 5};
  start.launch.argv_by_rank = {{"a", ""}, {"b c"}};
  start.launch.env_by_rank = {{"G=0"}, {}};
  start.launch.pty = true;
  start.launch.rows = 24;
  start.launch.columns = 80;
  start.launch.kill_wait = seconds(5);
  ProcessSpec& process = start.launch.process;
  process.uid = 4294967294;
  process.gid = 7;
  process.groups = {7, 8};
  process.argv = {"prog", "", "x\ny"};
  process.env = {"A=1", "B="};
  process.task_env = {"R=\x01t"};
  process.work_dir = "/w";
  process.std_in = "/i";
  process.std_out = "/o";
  process.std_err = "/e";
  process.append = true;
  process.umask = 0;
  start.launch.cores_by_rank = {CoreSet::first_n(3), {}};
  start.enter = {"/g/memory/tasks", "/g/pids/tasks"};
  start.oom_file = "/g/memory/oom";
  start.freeze_file = "/g/freezer.state";
  return start;
}

TEST(ShimProtocol, LaunchComesBackWhole) {
  const ShimStart start = sample();
  const auto records = decode_shim_records(encode_launch_record(start));
  ASSERT_TRUE(records.ok());
  ASSERT_TRUE(records->launch);
  EXPECT_EQ(encode_launch_record(*records->launch), encode_launch_record(start));
  const TaskProcesses& step = records->launch->launch;
  EXPECT_EQ(step.process.argv, start.launch.process.argv);
  EXPECT_EQ(step.argv_by_rank, start.launch.argv_by_rank);
  EXPECT_EQ(step.env_by_rank, start.launch.env_by_rank);
  EXPECT_EQ(step.process.uid, 4294967294u);
  EXPECT_EQ(records->launch->script, start.script);
  EXPECT_EQ(records->launch->fence_after, minutes(10));
  EXPECT_EQ(records->launch->enter, start.enter);
  EXPECT_EQ(records->launch->freeze_file, start.freeze_file);
  EXPECT_FALSE(records->results);
}

TEST(ShimProtocol, WhoIsInTheWorldComesBack) {
  ShimStart start = sample();
  start.launch.pmi = Pmi::kPmix;
  start.launch.world = {{"n1", {0, 1}}, {"n2", {4, 5}}, {"n3", {}}};
  const auto records = decode_shim_records(encode_launch_record(start));
  ASSERT_TRUE(records.ok() && records->launch);
  EXPECT_EQ(records->launch->launch.pmi, Pmi::kPmix);
  EXPECT_EQ(records->launch->launch.world, start.launch.world);
  start.launch.pmi = Pmi::kNone;  // then nobody is told
  EXPECT_TRUE(decode_shim_records(encode_launch_record(start))->launch->launch.world.empty());
}

TEST(ShimProtocol, TornTailDoesNotCount) {
  const std::vector<TaskResult> results = {{4, {1, 0, false}}, {5, {0, 9, true}}};
  const std::string launch = encode_launch_record(sample());
  const std::string pids = encode_pids_record({{77, 1234567}});
  const std::string result = encode_ended_record(7'654'321) + encode_result_record(results);
  const std::string all = launch + pids + result;
  for (std::size_t size = 0; size <= all.size(); ++size) {
    const auto records = decode_shim_records(std::string_view(all).substr(0, size));
    ASSERT_TRUE(records.ok()) << size;
    EXPECT_EQ(records->launch.has_value(), size >= launch.size());
    EXPECT_EQ(records->pids.size(), size >= launch.size() + pids.size() ? 1u : 0u);
    EXPECT_EQ(records->results.has_value(), size == all.size());
  }
  const auto records = decode_shim_records(all);
  EXPECT_EQ(records->pids[0], (ShimPid{77, 1234567}));
  EXPECT_EQ(encode_results_text(*records->results), encode_results_text(results));
  EXPECT_EQ(records->ended_us, 7'654'321);
}

TEST(ShimProtocol, UnknownTagsAndRecordsAreSkipped) {
  std::string launch = encode_launch_record(sample());
  const std::string later("\x7f\x01\0\0\0\x02hi", 8);
  launch += later;
  launch[4] = static_cast<char>(launch[4] + later.size());
  const auto records = decode_shim_records(launch + std::string("\x63\0\0\0\x01z", 6) + encode_result_record({}));
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(records->launch->launch.ranks.size(), 2u);
  EXPECT_TRUE(records->results);
}

TEST(ShimProtocol, DamagedLaunchIsAnError) {
  const auto launch_of = [](std::string body) {
    std::string bytes("\x01\0\0\0", 4);
    bytes.push_back(static_cast<char>(body.size()));
    return decode_shim_records(bytes + body);
  };
  EXPECT_FALSE(launch_of("").ok());                                   // no task
  EXPECT_FALSE(launch_of("abc").ok());                                // half a field
  EXPECT_FALSE(launch_of(std::string("\0\x04\0\0\0\x63x", 7)).ok());  // longer than the record
  const std::string rank("\0\x0e\0\0\0\x08\0\0\0\0\0\0\0\x01", 14);
  EXPECT_TRUE(launch_of(rank).ok());
  const std::string words(
      "\0\x0f\0\0\0\x02"
      "a\0",
      8);
  EXPECT_TRUE(launch_of(rank + words).ok());
  EXPECT_FALSE(launch_of(rank + words + words).ok());  // for more tasks than there are
}

TEST(ShimProtocol, ContainersAreHandedOn) {
  ShimStart start;
  start.launch.ranks = {0};
  const auto read = [&] { return decode_shim_records(encode_launch_record(start))->launch->launch.process.container; };
  EXPECT_EQ(read(), Container{});
  start.launch.process.container.image = "nvcr.io#a/b:c";
  start.launch.process.container.mounts = {{"/a", "/b\xff", true, {"nosuid"}}};
  start.launch.process.container.reuse = Container::Reuse::kEnter;
  EXPECT_EQ(read(), start.launch.process.container);
}

TEST(ShimProtocol, ResultsOfStrangersAreChecked) {
  EXPECT_TRUE(decode_results_text("0:255:0:0 1:0:9:1"));
  const auto not_opened = decode_results_text(encode_results_text({{7, {0, kNotOpenedSignal, false, true}}}));
  ASSERT_TRUE(not_opened);
  EXPECT_EQ(not_opened->front().exit, (ExitStatus{0, kNotOpenedSignal, false, true}));
  for (const char* text : {"0", "0:0:0", "0:256:0:0", "0:0:0:4", "-1:0:0:0", "0:0:0:0:0", "x:0:0:0"})
    EXPECT_FALSE(decode_results_text(text)) << text;
}

TEST(TaskLaunch, Placeholders) {
  const TaskPlace place{12, 3, 1, "n7"};
  EXPECT_EQ(expand_placeholders("/o-\x01t.\x01l.\x01n.\x01N", place), "/o-12.3.1.n7");
  EXPECT_EQ(expand_placeholders("\x01"
                                "4t|\x01"
                                "1t|\x01"
                                "02l",
                                place),
            "0012|12|03");
  EXPECT_EQ(expand_placeholders("pid \x01p", place), "pid \x01p");
  EXPECT_EQ(expand_placeholders("\x01", place), "\x01");
  EXPECT_EQ(expand_placeholders("a\x01"
                                "9",
                                place),
            "a\x01"
            "9");
}

}  // namespace
}  // namespace lockstep
