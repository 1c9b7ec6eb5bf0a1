// One task with its pipes, driven by hand: what it may cost, and in which states it is.
#include "shim/step_task.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

class StepTaskTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-task-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    start_.launch.ranks = {3};
    start_.launch.process.uid = ::geteuid();
    start_.launch.process.gid = ::getegid();
    start_.launch.process.env = {"PATH=/usr/bin:/bin"};
    start_.launch.process.work_dir = dir_;
  }
  void TearDown() override { EXPECT_EQ(::system(("rm -rf " + dir_).c_str()), 0); }

  std::unique_ptr<StepTask> run(const std::string& shell, OutputLimits limits = {}) {
    start_.launch.process.argv = {"sh", "-c", shell};
    auto task = std::make_unique<StepTask>(start_, 0, limits, "n1", dir_);
    EXPECT_TRUE(task->prepare(start_, -1, false).ok());
    EXPECT_FALSE(task->running() || task->over());
    task->start()->run();
    EXPECT_TRUE(task->launched().ok());
    return task;
  }
  static void bury(StepTask& task) {
    int status = 0;
    ASSERT_EQ(::waitpid(task.pid(), &status, 0), task.pid());
    task.exited({.wait_status = status});
  }
  static void read_to_the_end(StepTask& task, int stream) {
    while (!task.output_ended(stream)) {
      ASSERT_TRUE(task.wants_output(stream));
      task.read_output(stream);
    }
  }

  std::string dir_;
  ShimStart start_;
};

TEST_F(StepTaskTest, RunsAndIsOver) {
  const auto task = run("echo words; echo more >&2; exit 4");
  EXPECT_TRUE(task->running());
  EXPECT_GT(task->pid(), 0);
  read_to_the_end(*task, 0);
  read_to_the_end(*task, 1);
  bury(*task);
  EXPECT_TRUE(task->over());
  EXPECT_EQ(task->exit().code, 4);
  EXPECT_EQ(task->log(0)->read(0, 100), "words\n");
  EXPECT_EQ(task->log(1)->read(0, 100), "more\n");
  EXPECT_EQ(task->rank(), 3u);
}

TEST_F(StepTaskTest, OneThatIsCalledOffNeverRuns) {
  StepTask task(start_, 0, {}, "n1", dir_);
  start_.launch.process.argv = {"true"};
  ASSERT_TRUE(task.prepare(start_, -1, false).ok());
  task.called_off();
  EXPECT_TRUE(task.over());
  EXPECT_EQ(task.pid(), 0);
  EXPECT_EQ(task.exit().signal, SIGTERM);
}

TEST_F(StepTaskTest, AFailureBeforeTheProgramHasItsWords) {
  start_.launch.process.std_in = dir_ + "/nothing";
  const auto task = run("true");
  EXPECT_TRUE(task->over());
  EXPECT_NE(task->failure().find("stdin"), std::string::npos);
  EXPECT_TRUE(task->exit().not_opened);
  EXPECT_EQ(task->pid(), 0);
}

// Nobody takes what it writes: it is read up to the limits and then waits, and nothing is lost.
TEST_F(StepTaskTest, OutputWaitsWhereNobodyTakesIt) {
  constexpr std::size_t kBytes = 2'000'000, kMemory = 10'000, kFile = 50'000, kPiece = 64 << 10;
  SpillRoom room;
  const auto task = run("head -c 2000000 /dev/zero", {kMemory, kFile, &room});
  std::uint64_t taken = 0;
  while (!task->output_ended(0)) {
    while (task->wants_output(0)) task->read_output(0);
    EXPECT_LE(task->log(0)->end() - taken, kMemory + kFile + 2 * kPiece);
    EXPECT_LE(room.bytes_used, kFile + kPiece);
    const std::string_view bytes = task->log(0)->read(taken, kPiece);
    taken += bytes.size();
    task->log(0)->trim(taken);
  }
  while (taken < task->log(0)->end()) taken += task->log(0)->read(taken, kPiece).size();
  EXPECT_EQ(taken, kBytes);
  task->log(0)->trim(taken);
  EXPECT_EQ(room.bytes_used, 0u);
  bury(*task);
}

// What one output keeps in files is missing for another of the same step.
TEST_F(StepTaskTest, OutputsOfAStepShareTheirRoom) {
  SpillRoom room{100'000, 0};
  const auto first = run("head -c 90000 /dev/zero", {1000, 1 << 20, &room});
  read_to_the_end(*first, 0);
  const auto second = run("head -c 1000000 /dev/zero", {1000, 1 << 20, &room});
  while (second->wants_output(0)) second->read_output(0);
  EXPECT_FALSE(second->output_ended(0));
  EXPECT_GE(room.bytes_used, room.bytes_max);
  first->log(0)->trim(90000);
  EXPECT_TRUE(second->wants_output(0));
  ::kill(second->pid(), SIGKILL);
  bury(*first);
  bury(*second);
}

TEST_F(StepTaskTest, InputIsTakenOnceAndInOrder) {
  const auto task = run("cat");
  task->take_input(0, "0123");
  task->take_input(2, "23456");  // what a client sends again after a break
  task->take_input(9, "gap");    // a client's mistake
  task->take_input(0, "01");
  EXPECT_EQ(task->input_queued(), 7u);
  task->end_input(5);  // not the end of what it sent
  task->write_input();
  EXPECT_EQ(task->input_done(), 7u);
  EXPECT_GE(task->input_fd(), 0);
  task->end_input(7);
  EXPECT_TRUE(task->wants_to_write());
  task->write_input();
  EXPECT_LT(task->input_fd(), 0);
  read_to_the_end(*task, 0);
  EXPECT_EQ(task->log(0)->read(0, 100), "0123456");
  bury(*task);
  task->take_input(7, "late");
  EXPECT_EQ(task->input_queued(), 0u) << "nobody reads any more";
  EXPECT_EQ(task->input_done(), 7u) << "its end was told";
}

// A process outside the step holds the other end of its output: the end of the step does not wait for that one.
TEST_F(StepTaskTest, DrainingEndsWhereTheStepDoes) {
  const auto task = run("echo words; sleep 1000 & echo $! > " + dir_ + "/left");
  int status = 0;
  ASSERT_EQ(::waitpid(task->pid(), &status, 0), task->pid());
  task->exited({.wait_status = status});
  task->drain_output(0);
  task->drain_output(1);
  EXPECT_TRUE(task->output_ended(0) && task->output_ended(1));
  EXPECT_EQ(task->log(0)->read(0, 100), "words\n");
  EXPECT_EQ(::system(("kill -9 $(cat " + dir_ + "/left)").c_str()), 0);
}

TEST_F(StepTaskTest, WordsOfOursStandBehindItsOwn) {
  const auto task = run("echo words");
  EXPECT_TRUE(task->tell_client("ours\n"));
  read_to_the_end(*task, 0);
  read_to_the_end(*task, 1);
  EXPECT_EQ(task->log(1)->read(0, 100), "ours\n");
  EXPECT_TRUE(task->tell_client("late\n"));
  EXPECT_EQ(task->log(1)->end(), 5u) << "its end was told";
  bury(*task);
  start_.launch.to_client = false;
  const auto silent = run("true");
  EXPECT_FALSE(silent->tell_client("ours\n")) << "that is a file's business";
  bury(*silent);
}

}  // namespace
}  // namespace lockstep
