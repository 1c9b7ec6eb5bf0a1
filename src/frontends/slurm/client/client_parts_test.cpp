// The smaller parts: environments, file patterns, scancel's targets, a step's output and input.
#include <gtest/gtest.h>

#include "frontends/slurm/client/environment.h"
#include "frontends/slurm/client/scancel_ask.h"
#include "frontends/slurm/client/step_files.h"
#include "frontends/slurm/client/step_output.h"
#include "model/job.h"

namespace lockstep::slurm {
namespace {

TEST(Environment, ExportLists) {
  const Variables own = {{"HOME", "/home/ann"}, {"KEEP", "yes"}, {"PATH", "/bin"}, {"SLURM_CONF", "x"}};
  const auto all = exported(own, "", true);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->size(), 4u);
  const auto none = exported(own, "NONE", true);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(value_of(*none, "KEEP"), nullptr);
  EXPECT_EQ(*value_of(*none, "HOME"), "/home/ann");
  EXPECT_NE(value_of(*none, "PATH")->find("/usr/bin"), std::string::npos);
  const auto list = exported(own, "KEEP,NEW=1,ABSENT", true);
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(*value_of(*list, "KEEP"), "yes");
  EXPECT_EQ(*value_of(*list, "NEW"), "1");
  EXPECT_EQ(value_of(*list, "ABSENT"), nullptr);
  const auto more = exported(own, "ALL,KEEP=no,L='a,b'", true);
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(*value_of(*more, "KEEP"), "no");
  EXPECT_EQ(*value_of(*more, "L"), "a,b");
  EXPECT_EQ(*value_of(*more, "PATH"), "/bin");
  for (const char* bad : {"=1", "1A=2", "A='open", "NONE,A=1", "a b"})
    EXPECT_FALSE(exported(own, bad, true).ok()) << bad;
}

TEST(Environment, AJobsOwnVariablesDoNotLeakIntoAnother) {
  const Variables inside = {{"SLURM_JOB_ID", "7"},
                            {"SLURM_NTASKS", "32"},
                            {"CUDA_VISIBLE_DEVICES", "0"},
                            {"SLURM_CONF", "x"},
                            {"USER_VAR", "1"}};
  const auto job = exported(inside, "ALL", true);
  EXPECT_EQ(value_of(*job, "SLURM_NTASKS"), nullptr);
  EXPECT_EQ(value_of(*job, "CUDA_VISIBLE_DEVICES"), nullptr);
  EXPECT_NE(value_of(*job, "SLURM_CONF"), nullptr);
  EXPECT_NE(value_of(*job, "USER_VAR"), nullptr);
  const auto step = exported(inside, "ALL", false);
  EXPECT_NE(value_of(*step, "SLURM_NTASKS"), nullptr);
}

TEST(Environment, AStepWithinAStepHasAWorldOfItsOwn) {
  const Variables task = {{"SLURM_JOB_ID", "7"},      {"PMI_FD", "3"},          {"PMI_RANK", "1"},   {"PMIX_RANK", "1"},
                          {"PMIX_SERVER_URI41", "x"}, {"PMIX_MCA_gds", "hash"}, {"PMI_OF_MINE", "1"}};
  for (const bool new_job : {true, false}) {
    const auto inner = exported(task, "ALL", new_job);
    for (const char* gone : {"PMI_FD", "PMI_RANK", "PMIX_RANK", "PMIX_SERVER_URI41"})
      EXPECT_EQ(value_of(*inner, gone), nullptr) << gone;
    for (const char* kept : {"PMIX_MCA_gds", "PMI_OF_MINE"}) EXPECT_NE(value_of(*inner, kept), nullptr) << kept;
  }
  EXPECT_NE(value_of(*exported(task, "ALL,PMI_FD=9", false), "PMI_FD"), nullptr);
}

TEST(Environment, Files) {
  const std::string text("A=1\0B=x=y\0", 10);
  const auto read = parse_variables(text);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(nul_separated(*read), text);
  EXPECT_FALSE(parse_variables("no equals").ok());
}

TEST(StepFiles, WhatAnOptionMeans) {
  using enum StepFile::Kind;
  EXPECT_EQ(parse_step_file("").kind, kClient);
  EXPECT_EQ(parse_step_file("all").kind, kClient);
  EXPECT_EQ(parse_step_file("none").kind, kNone);
  EXPECT_EQ(parse_step_file("3").kind, kOneRank);
  EXPECT_EQ(parse_step_file("3").rank, 3u);
  EXPECT_EQ(parse_step_file("out.%j").kind, kShared);
  EXPECT_EQ(parse_step_file("out.%t").kind, kPerTask);
  EXPECT_EQ(parse_step_file("out.%3t").kind, kPerTask);
  EXPECT_EQ(parse_step_file("%x-%N").kind, kPerTask);
  EXPECT_EQ(parse_step_file("100%%t").kind, kShared);
  EXPECT_EQ(parse_step_file("\\%t").kind, kShared);
}

TEST(StepFiles, Patterns) {
  const PatternFacts facts{12, 10, 13, 2, "ann", "train"};
  EXPECT_EQ(expand_pattern("%x-%j.%s.out", facts), "train-12.2.out");
  EXPECT_EQ(expand_pattern("%J %A_%a %b %u %%", facts), "12.2 10_13 3 ann %");
  EXPECT_EQ(expand_pattern("%5j %3x", facts), "00012 train");
  EXPECT_EQ(expand_pattern("%q 50%", facts), "%q 50%");
  EXPECT_EQ(expand_pattern("\\%j", facts), "%j");
  EXPECT_EQ(expand_pattern("%999j", facts), "0000000012");
}

TEST(StepFiles, WhatANameHangsOn) {
  EXPECT_FALSE(names_any("out-%x-%u.%%j", "jJs"));
  EXPECT_TRUE(names_any("out-%4j", "jJ"));
  EXPECT_FALSE(names_any("out-%j", "Js"));
  EXPECT_FALSE(names_any("out-%j\\", "j"));  // not expanded at all
}

TEST(StepFiles, MultiProg) {
  const auto read = parse_multi_prog("# comment\n0 master --port 1\n1-2,4 worker %t %o 'a b'\n* rest\n", 6);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->at(0), (std::vector<std::string>{"master", "--port", "1"}));
  EXPECT_EQ(read->at(4), (std::vector<std::string>{"worker", "4", "2", "a b"}));
  EXPECT_EQ(read->at(5), (std::vector<std::string>{"rest"}));
  for (const char* bad : {"", "0", "x prog", "0 a\n0 b", "0 a", "0-9 a"})
    EXPECT_FALSE(parse_multi_prog(bad, 2).ok()) << bad;
}

TEST(Scancel, Targets) {
  const auto text = [](std::string_view in) {
    const auto read = parse_scancel_targets(in);
    std::string out;
    if (!read)
      return std::string("error");
    for (const auto& target : *read) out += target.job + (target.step ? "/" + std::to_string(*target.step) : "") + " ";
    return out;
  };
  EXPECT_EQ(text("12"), "12 ");
  EXPECT_EQ(text("12_3"), "12_3 ");
  EXPECT_EQ(text("12_[1-3,7]"), "12_[1-3,7] ");
  EXPECT_EQ(text("12,13_4"), "12 13_4 ");
  EXPECT_EQ(text("12.0"), "12/0 ");
  EXPECT_EQ(text("12_4.1"), "12_4/1 ");
  EXPECT_EQ(text("12.batch"), "12/-1 ");
  EXPECT_EQ(text("12+0"), "12 ");
  EXPECT_EQ(text("12,,13_[1,2,],"), "12 13_[1-2] ");
  for (const char* bad : {"", ",", "x", "0", "12.", "12.x", "12_", "12_[", "12_[1-2].0", "-1", "12+1"})
    EXPECT_EQ(text(bad), "error") << bad;
}

Ref<Job> job(std::uint64_t id, std::string name, JobState state, std::uint64_t array = 0, std::uint32_t index = 0) {
  auto spec = std::make_shared<JobSpec>();
  spec->name = std::move(name);
  spec->user = UserId(id % 2 + 1);
  spec->partitions = {"gpu"};
  auto out = std::make_shared<Job>();
  out->id = JobId(id);
  out->spec = spec;
  out->state = state;
  out->array_job = JobId(array);
  out->array_index = index;
  return out;
}

TEST(Scancel, Filters) {
  const std::vector<Ref<Job>> jobs = {job(10, "a", JobState::kPending), job(11, "b", JobState::kRunning, 10, 3),
                                      job(12, "a", JobState::kRunning), job(13, "a", JobState::kCompleted)};
  const auto chosen = [&](const ScancelAsk& ask, std::string_view ids = "") {
    std::string out;
    const auto targets = ids.empty() ? std::vector<ScancelTarget>{} : *parse_scancel_targets(ids);
    for (const auto& target : ask.choose(jobs, targets, {})) out += target.job + " ";
    return out;
  };
  ScancelAsk ask;
  EXPECT_FALSE(ask.has_filter());
  ask.names = {"a"};
  EXPECT_TRUE(ask.has_filter());
  EXPECT_EQ(chosen(ask), "10 12 ");
  ASSERT_TRUE(ask.set_states("PENDING").ok());
  EXPECT_EQ(chosen(ask), "10 ");
  EXPECT_FALSE(ask.set_states("COMPLETED").ok());
  ScancelAsk by_user;
  by_user.me = true;
  EXPECT_TRUE(by_user.has_filter());
  ASSERT_TRUE(by_user.choose_users({{"ann", UserId(2), 1000}, {"bob", UserId(1), 1001}}, 1000).ok());
  EXPECT_EQ(chosen(by_user), "11 ");
  EXPECT_EQ(chosen(by_user, "12"), "");
  ScancelAsk of_others;
  of_others.users = {"4711"};  // may be somebody who has asked for nothing yet
  ASSERT_TRUE(of_others.choose_users({{"ann", UserId(2), 1000}}, 1000).ok());
  EXPECT_EQ(chosen(of_others), "");
  of_others.users = {"ann", "nosuch"};
  EXPECT_EQ(of_others.choose_users({{"ann", UserId(2), 1000}}, 1000).error().message, "Invalid user name: nosuch");
  ScancelAsk running;
  ASSERT_TRUE(running.set_states("R").ok());
  EXPECT_EQ(chosen(running, "10"), "11 ");  // the array's elements
  EXPECT_EQ(chosen(running, "10_3"), "11 ");
  EXPECT_EQ(chosen(running, "10_4"), "");
}

struct Screen {
  explicit Screen(OutputStyle style)
      : output(style, [this](std::uint32_t, int fd, std::string_view bytes) { (fd == 1 ? out : err) += bytes; }) {}
  void put(std::uint64_t rank, int fd, std::uint64_t offset, std::string_view bytes) {
    EXPECT_TRUE(
        output.take({static_cast<std::uint8_t>(IoFrame::kOutput), rank,
                     frame_number(static_cast<std::uint64_t>(fd), 1) + frame_number(offset, 8) + std::string(bytes)}));
  }
  std::string out, err;
  StepOutput output;
};

TEST(StepOutput, LinesOfTasksStayWhole) {
  Screen s({false, true, 2});
  s.put(0, 1, 0, "hel");
  s.put(1, 1, 0, "other\n");
  s.put(0, 1, 3, "lo\nrest");
  EXPECT_EQ(s.out, "other\nhello\n");
  s.output.flush();
  EXPECT_EQ(s.out, "other\nhello\nrest");
}

TEST(StepOutput, Labels) {
  Screen s({true, true, 12});
  s.put(3, 1, 0, "a\nb\n");
  s.put(11, 2, 0, "e\n");
  s.put(4, 1, 0, "unfinished");
  s.output.flush();
  EXPECT_EQ(s.out, " 3: a\n 3: b\n 4: unfinished\n");
  EXPECT_EQ(s.err, "11: e\n");
}

TEST(StepOutput, UnbufferedLabelsOnlyWhereALineBegins) {
  Screen s({true, false, 2});
  s.put(0, 1, 0, "a");
  s.put(0, 1, 1, "b\nc");
  EXPECT_EQ(s.out, "0: ab\n0: c");
}

TEST(StepOutput, EachByteOnceAfterAReconnect) {
  Screen s({false, false, 1});
  s.put(0, 1, 0, "hello ");
  EXPECT_EQ(s.output.have_json(), "{\"have\":{\"0\":[6,0]}}");
  s.put(0, 1, 0, "hello ");
  s.put(0, 1, 3, "lo world");
  EXPECT_EQ(s.out, "hello world");
  EXPECT_FALSE(s.output.take_acks().empty());
  EXPECT_TRUE(s.output.take_acks().empty());
}

TEST(StepOutput, MalformedFramesAreRefused) {
  Screen s({false, true, 2});
  EXPECT_FALSE(s.output.take({static_cast<std::uint8_t>(IoFrame::kOutput), 0, "x"}));
  EXPECT_FALSE(
      s.output.take({static_cast<std::uint8_t>(IoFrame::kOutput), 7, frame_number(1, 1) + frame_number(0, 8)}));
  EXPECT_FALSE(
      s.output.take({static_cast<std::uint8_t>(IoFrame::kOutput), 0, frame_number(3, 1) + frame_number(0, 8)}));
  EXPECT_FALSE(s.output.take({static_cast<std::uint8_t>(IoFrame::kExited), 0, ""}));
}

TEST(StepOutput, ExitCodes) {
  Screen s({false, true, 3});
  const auto exited = [&](std::uint64_t rank, std::string payload) {
    return s.output.take({static_cast<std::uint8_t>(IoFrame::kExited), rank, std::move(payload)});
  };
  EXPECT_TRUE(exited(0, std::string("\3\0\0", 3)));
  EXPECT_TRUE(exited(1, std::string("\4\0\0", 3)));
  EXPECT_FALSE(s.output.all_exited());
  EXPECT_EQ(highest_code(s.output.exits()), 4);
  EXPECT_TRUE(exited(2, std::string("\0\11\0", 3)));
  EXPECT_TRUE(s.output.all_exited());
  EXPECT_EQ(highest_code(s.output.exits()), 137);
  EXPECT_EQ(s.output.take_new_exits().size(), 3u);
  EXPECT_EQ(exit_words({3, 0, false}), "Exited with exit code 3");
  EXPECT_EQ(exit_words({0, 9, false}), "Killed");
  EXPECT_EQ(exit_words({0, 53, false, true}), "not started (0:53)");
  EXPECT_EQ(highest_code({{0, {0, 53, false, true}}}), 1);
  EXPECT_EQ(highest_code({{0, {0, 53, false}}}), 181);
  EXPECT_EQ(exit_words({0, 9, true}), "Out Of Memory");
  for (const ExitStatus exit : {ExitStatus{0, 9, true}, ExitStatus{137, 0, true}, ExitStatus{0, 0, true}})
    EXPECT_EQ(highest_code({{0, exit}}), 253) << "also where the task's shell went on";
}

TEST(StepInput, KeptUntilEveryTaskHasIt) {
  StepInput in(kAllRanks, 2);
  const std::string first = in.take("hello");
  EXPECT_EQ(in.again(), first);
  in.acknowledge(0, 5);
  EXPECT_EQ(in.again(), first);
  in.acknowledge(1, 3);
  EXPECT_EQ(in.again(), encode_frame(static_cast<std::uint8_t>(IoFrame::kStdin), kAllRanks, frame_number(3, 8) + "lo"));
  in.exited(1);
  EXPECT_EQ(in.again(), "");
  const std::string eof = in.end();
  EXPECT_EQ(in.again(), eof);
  EXPECT_FALSE(in.wants_more());
}

TEST(StepInput, AWindowOfUnacknowledgedBytes) {
  StepInput in(0, 1);
  in.take(std::string(StepInput::kWindow, 'x'));
  EXPECT_FALSE(in.wants_more());
  in.acknowledge(0, 1);
  EXPECT_TRUE(in.wants_more());
}

}  // namespace
}  // namespace lockstep::slurm
