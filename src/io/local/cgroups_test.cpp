// Real control groups of this host. Skipped where this user may make none.
#include "io/local/cgroups.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>

#include "base/text.h"

namespace lockstep {
namespace {

const WorkId kScript{JobId{12}, 1, ScriptPart{}}, kStep{JobId{12}, 1, StepPart{0}}, kOther{JobId{7}, 2, ScriptPart{}};

// A process that is in the group before it does anything.
pid_t start_in(const std::vector<std::string>& files, const std::function<int()>& what) {
  const pid_t pid = ::fork();
  if (pid != 0)
    return pid;
  for (const std::string& file : files) {
    const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ::write(fd, "0", 1) != 1)
      ::_exit(99);
    ::close(fd);
  }
  ::_exit(what());
}

int end_of(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

int wait_for_ever() {
  for (;;) ::pause();
}

// Touches so many bytes.
int use_memory(std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return 1;
  for (std::size_t i = 0; i < bytes; i += 4096) static_cast<volatile char*>(at)[i] = 1;
  return 0;
}

class CgroupsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto host = this_cgroup_host();
    if (!host)
      GTEST_SKIP() << host.error().message;
    auto opened = Cgroups::open(*host, name());
    // Under version 2 the group of this process holds it, and may hold no groups then: one beside it is made.
    if (!opened && host->version == CgroupVersion::kV2) {
      base_ = format("{}/lockstep-test-base-{}", host->mount, ::getpid());
      (void)::mkdir(base_.c_str(), 0755);
      opened = Cgroups::open(*host, name(), base_);
    }
    if (!opened)
      GTEST_SKIP() << opened.error().message;
    groups_ = std::move(*opened);
  }
  void TearDown() override {
    if (!groups_)
      return;
    for (const WorkId& work : groups_->parts()) {
      for (int i = 0; i < 100 && (groups_->kill(work), !groups_->remove(work)); ++i) ::usleep(10'000);
    }
    groups_->close();
    if (!base_.empty())
      ::rmdir(base_.c_str());
  }
  static std::string name() { return format("lockstep-test-{}", ::getpid()); }
  std::vector<std::string> made(const WorkId& work, const GroupLimits& limits = {}) {
    const auto files = groups_->make(work, limits);
    EXPECT_TRUE(files.ok()) << (files.ok() ? "" : files.error().message);
    return files.ok() ? *files : std::vector<std::string>();
  }
  std::unique_ptr<Cgroups> groups_;
  std::string base_;
};

TEST_F(CgroupsTest, AJobOfMoreCoresWeighsMore) {
  const auto weight_of = [this](const WorkId& work, std::uint32_t cores) {
    const auto files = groups_->make(work, {.cores = cores});
    EXPECT_TRUE(files.ok());
    for (const std::string& file : files.ok() ? *files : std::vector<std::string>{}) {
      const std::string job = file.substr(0, file.rfind('/', file.rfind('/') - 1));
      for (const char* name : {"/cpu.weight", "/cpu.shares"}) {
        std::int64_t weight = 0;
        if (std::ifstream(job + name) >> weight)
          return weight;
      }
    }
    return std::int64_t{0};
  };
  const std::int64_t one = weight_of(kScript, 1);
  if (one == 0)
    GTEST_SKIP() << "this host does not weigh control groups";
  EXPECT_EQ(weight_of(kOther, 4), 4 * one);
}

// A part's cpuset has its job's processors from its first moment: nobody writes them.
TEST_F(CgroupsTest, PartsOfVersion1HaveTheProcessorsOfTheirJob) {
  const auto processors = [](const std::vector<std::string>& files, int above, const std::string& name) {
    for (std::string dir : files) {
      for (int i = 0; i <= above; ++i) dir = dir.substr(0, dir.rfind('/'));
      std::string text;
      if (std::ifstream(dir + "/cpuset." + name) >> text)
        return text;
    }
    return std::string();
  };
  const auto script = made(kScript, {.cpus = "0"});
  if (groups_->limits_processors() && script[0].ends_with("/tasks")) {
    EXPECT_EQ(processors(script, 0, "cpus"), "0");
    EXPECT_EQ(processors(made(kStep, {.cpus = "0"}), 0, "cpus"), "0");
    EXPECT_EQ(processors(made(kOther), 0, "cpus"), processors(made(kOther), 2, "cpus"));
    EXPECT_EQ(processors(made(kOther), 0, "mems"), processors(made(kOther), 2, "mems"));
  } else {
    GTEST_SKIP() << "no cpuset of version 1 here";
  }
}

// What nobody waited for counts, too.
TEST_F(CgroupsTest, ProcessorTimeOfAllProcessesIsCounted) {
  const auto compute = [] {
    if (::fork() == 0)
      ::setpgid(0, 0);
    timespec used{};
    do ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    while (used.tv_sec == 0 && used.tv_nsec < 300'000'000);
    return 0;
  };
  const auto script = made(kScript);
  EXPECT_EQ(groups_->use(kScript).user_us + groups_->use(kScript).system_us, 0);
  EXPECT_EQ(end_of(start_in(script, compute)), 0);
  GroupUse use;
  constexpr std::int64_t kLeast = 590'000;  // a process's own clock has run before it came into the group
  for (int i = 0; i < 500 && use.cpu_us < kLeast; ++i, ::usleep(10'000)) use = groups_->use(kScript);
  EXPECT_GE(use.cpu_us, kLeast);
  EXPECT_LT(use.cpu_us, 900'000);
  EXPECT_NEAR(static_cast<double>(use.user_us + use.system_us), static_cast<double>(use.cpu_us), 100'000);
}

TEST_F(CgroupsTest, AJobHasNoMoreMemoryThanItsLimitAndItsEndSaysSo) {
  const auto script = made(kScript, {.memory_mb = 64, .processes = 0, .cpus = {}}), step = made(kStep);
  EXPECT_EQ(end_of(start_in(script, [] { return use_memory(16 << 20); })), 0);
  if (std::ifstream swaps("/proc/swaps"); std::count(std::istreambuf_iterator<char>(swaps), {}, '\n') > 1)
    GTEST_SKIP() << "what is more than the limit may go to this host's swap";
  const int status = end_of(start_in(step, [] { return use_memory(200 << 20); }));
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_GE(groups_->use(kStep).oom_kills, 1u) << "it is the step's";
  EXPECT_EQ(groups_->use(kScript).oom_kills, 0u);
  if (const auto peak = groups_->use(kScript).memory_peak; peak > 0) {  // version 2 tells it from Linux 5.19 on
    EXPECT_GE(peak, 16 << 20);
    EXPECT_LE(peak, 64 << 20);
  }
}

TEST_F(CgroupsTest, AJobHasNoMoreProcessesThanItsLimit) {
  const auto files = made(kScript, {.memory_mb = 0, .processes = 5, .cpus = {}});
  const int status = end_of(start_in(files, [] {
    int made = 0;
    for (int i = 0; i < 20; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0)
        wait_for_ever();
      made += pid > 0;
    }
    return made;
  }));
  if (!groups_->limits_processes())
    GTEST_SKIP() << "no pids controller here";
  EXPECT_EQ(WEXITSTATUS(status), 4);
}

TEST_F(CgroupsTest, WhatIsFrozenStandsStillAlsoWhenItIsToldToGoOn) {
  auto* const count = static_cast<volatile int*>(
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(count, MAP_FAILED);
  const pid_t pid = start_in(made(kScript), [count] {
    for (;; ::usleep(1'000)) *count = *count + 1;
    return 0;
  });
  while (*count == 0) ::usleep(1'000);
  if (!groups_->freeze(kScript, true))
    GTEST_SKIP() << "no freezer here";
  for (int i = 0; i < 100 && !groups_->is_frozen(kScript); ++i) ::usleep(10'000);
  EXPECT_TRUE(groups_->is_frozen(kScript));
  const int then = *count;
  ::kill(pid, SIGCONT);
  ::usleep(50'000);
  EXPECT_EQ(*count, then);
  ASSERT_TRUE(groups_->freeze(kScript, false));
  for (int i = 0; i < 500 && *count == then; ++i) ::usleep(10'000);
  EXPECT_GT(*count, then);
  ::kill(pid, SIGKILL);
  EXPECT_EQ(end_of(pid), SIGKILL);
}

TEST_F(CgroupsTest, EverythingInAGroupIsKilledAndThenItGoes) {
  auto* const grandchildren = static_cast<volatile int*>(
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(grandchildren, MAP_FAILED);
  const pid_t pid = start_in(made(kScript), [grandchildren] {
    if (::fork() == 0 && ::setsid() > 0 && ::fork() == 0) {
      *grandchildren = 1;
      wait_for_ever();
    }
    return wait_for_ever();
  });
  made(kStep);
  made(kOther);
  while (*grandchildren == 0) ::usleep(1'000);
  EXPECT_EQ(groups_->parts(), (std::vector<WorkId>{kOther, kScript, kStep}));
  EXPECT_FALSE(groups_->remove(kScript)) << "somebody is in it";
  EXPECT_GE(groups_->kill(kScript), 2u);
  EXPECT_EQ(end_of(pid), SIGKILL);
  for (int i = 0; i < 100 && !groups_->remove(kScript); ++i) ::usleep(10'000);
  EXPECT_EQ(groups_->parts(), (std::vector<WorkId>{kOther, kStep}));
  EXPECT_TRUE(groups_->remove(kStep));
  EXPECT_TRUE(groups_->remove(kStep)) << "it is gone already";
  EXPECT_EQ(groups_->kill(kStep), 0u);
}

TEST_F(CgroupsTest, AFurtherPartLeavesTheJobsLimitsAsTheyAre) {
  made(kScript, {.memory_mb = 0, .processes = 3, .cpus = "0"});
  const auto step = made(kStep);
  const int processors = end_of(start_in(step, [] {
    cpu_set_t own;
    CPU_ZERO(&own);
    ::sched_getaffinity(0, sizeof own, &own);
    return CPU_COUNT(&own);
  }));
  if (groups_->limits_processors()) {
    EXPECT_EQ(WEXITSTATUS(processors), 1);
  }
  const int children = end_of(start_in(step, [] {
    int made = 0;
    for (int i = 0; i < 5; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0)
        wait_for_ever();
      made += pid > 0;
    }
    return made;
  }));
  if (groups_->limits_processes()) {
    EXPECT_EQ(WEXITSTATUS(children), 2);
  }
}

TEST_F(CgroupsTest, DevicesOfOthersCannotBeOpened) {
  const auto full = device_number("/dev/full");
  ASSERT_TRUE(full.ok());
  const auto opens = [](const std::vector<std::string>& group) {
    return WEXITSTATUS(end_of(start_in(group, [] {
      const int denied = ::open("/dev/full", O_WRONLY), other = ::open("/dev/zero", O_RDONLY);
      return (denied >= 0 ? 1 : 0) + (other >= 0 ? 2 : 0);
    })));
  };
  GroupLimits limits;
  limits.devices.denied = {*full};
  const auto files = groups_->make(kScript, limits);
  if (!files.ok() && files.error().message.find("bpf") != std::string::npos)
    GTEST_SKIP() << files.error().message;
  ASSERT_TRUE(files.ok()) << files.error().message;
  if (!groups_->denies_devices())
    GTEST_SKIP() << "no devices controller here";
  EXPECT_EQ(opens(*files), 2);
  EXPECT_EQ(opens(made(kStep)), 3) << "another part has a list of its own";

  GroupLimits family;
  family.devices.families = {{full->major, {5}, {5, 7, 9}}};  // /dev/zero
  const auto closed = groups_->make({kScript.job, kScript.attempt, StepPart{7}}, family);
  ASSERT_TRUE(closed.ok()) << closed.error().message;
  EXPECT_EQ(opens(*closed), 2) << "of a family only what is named";
}

TEST_F(CgroupsTest, AnotherAgentFindsThem) {
  made(kScript);
  const auto again = Cgroups::open(*this_cgroup_host(), name(), base_);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ((*again)->parts(), std::vector<WorkId>{kScript});
}

}  // namespace
}  // namespace lockstep
