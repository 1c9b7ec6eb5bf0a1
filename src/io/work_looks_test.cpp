#include "io/work_looks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "io/temp_dir.h"
#include "shim/process_tree.h"

namespace lockstep {
namespace {

constexpr std::size_t kHeld = 64 << 20;

// This process plays the shim: a task of its own session, which holds memory together with a child of its own.
class Task {
 public:
  Task() {
    int ready[2];
    if (pipe(ready) != 0)
      return;
    pid_ = fork();
    if (pid_ == 0) {
      setsid();
      if (fork() == 0) {
        hold();
        (void)!write(ready[1], "x", 1);
        for (;;) pause();
      }
      hold();
      (void)!write(ready[1], "x", 1);
      for (;;) pause();
    }
    char byte = 0;
    for (int i = 0; i < 2; ++i) (void)!read(ready[0], &byte, 1);
    close(ready[0]);
    close(ready[1]);
  }
  ~Task() { end(); }
  void end() {
    if (pid_ <= 0)
      return;
    for (const pid_t child : descendants_of(pid_)) kill(child, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  ShimPid record() const { return {static_cast<std::uint32_t>(pid_), all_processes().at(pid_).started_us}; }

 private:
  static void hold() {
    void* const at = mmap(nullptr, kHeld, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(at, 1, kHeld);
  }
  pid_t pid_ = 0;
};

struct Folders {
  TempDir dir;
  Folders() { mkdir((dir.path() + "/shims").c_str(), 0700); }
  void put(const WorkId& key, const std::vector<std::uint32_t>& ranks, const std::vector<ShimPid>& pids) const {
    const std::string folder = dir.path() + "/shims/" + text_of(key);
    mkdir(folder.c_str(), 0700);
    ShimStart start;
    start.key = key;
    start.launch.ranks = ranks;
    std::ofstream(folder + "/record") << encode_launch_record(start) << (pids.empty() ? "" : encode_pids_record(pids));
  }
};

TEST(WorkLooks, SumsTheProcessesOfEachTask) {
  const Folders folders;
  const WorkId step{JobId(5), 2, StepPart{1}};
  Task first, second;
  folders.put(step, {4, 6}, {first.record(), second.record()});
  folders.put({JobId(5), 2, ScriptPart{}}, {0}, {});
  WorkLooks looks(folders.dir.path(), nullptr);
  auto found = looks.look();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].tasks.empty()) << "its processes are not there yet";
  ASSERT_EQ(found[1].key, step);
  ASSERT_EQ(found[1].tasks.size(), 2u);
  EXPECT_EQ(found[1].tasks[0].rank, 4u);
  EXPECT_EQ(found[1].tasks[1].rank, 6u);
  for (const TaskLook& task : found[1].tasks) {
    EXPECT_GE(task.memory, std::int64_t{2} * kHeld);
    EXPECT_LT(task.memory, std::int64_t{3} * kHeld);
  }
  EXPECT_GT((found[1].user + found[1].system).us, 0);
  EXPECT_EQ(looks.work_of(descendants_of(second.pid()).at(0)), step);
  EXPECT_EQ(looks.work_of(1), std::nullopt);

  first.end();
  for (int i = 0; i < 500 && found[1].tasks.size() != 1; ++i, usleep(10'000)) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {}  // its child, where orphans come to this process
    found = looks.look();
  }
  ASSERT_EQ(found[1].tasks.size(), 1u);
  EXPECT_EQ(found[1].tasks[0].rank, 6u);
}

TEST(WorkLooks, ANumberThatWasGivenOutAgainIsNobodys) {
  const Folders folders;
  const Task task;
  ShimPid older = task.record();
  older.started_us -= 1'000'000;
  folders.put({JobId(5), 1, StepPart{0}}, {0}, {older});
  WorkLooks looks(folders.dir.path(), nullptr);
  const auto found = looks.look();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].tasks.empty());
  EXPECT_EQ(looks.work_of(task.pid()), std::nullopt);
}

TEST(WorkLooks, NothingIsThereOfWhatIsForgottenOrDamaged) {
  const Folders folders;
  const std::string folder = folders.dir.path() + "/shims/7-1-0";
  mkdir(folder.c_str(), 0700);
  std::ofstream(folder + "/record") << "no record";
  mkdir((folders.dir.path() + "/shims/7-1-prolog").c_str(), 0700);
  mkdir((folders.dir.path() + "/shims/other").c_str(), 0700);
  WorkLooks looks(folders.dir.path(), nullptr);
  EXPECT_EQ(looks.look().size(), 1u);
  unlink((folder + "/record").c_str());
  rmdir(folder.c_str());
  EXPECT_TRUE(looks.look().empty());
  EXPECT_TRUE(WorkLooks("/nowhere", nullptr).look().empty());
}

TEST(WorkLooks, TheMachineIsLookedAt) {
  EXPECT_GT(memory_free_mb(), 0);
  EXPECT_LT(load_percent(), 1'000'000u);
}

}  // namespace
}  // namespace lockstep
