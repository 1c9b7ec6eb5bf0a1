// What a task gets and what it does not, seen from inside real ones that a careless parent started.
#include "shim/task_launch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/mutant.h"
#include "base/text.h"
#include "shim/process_tree.h"
#include "shim/task_starter.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kUser = 12345;

std::string contents(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

class TaskLaunchTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-task-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    ::chmod(name, 0777);
  }
  void TearDown() override {
    planted = Mutant::kNone;
    if (::system(("rm -rf " + dir_).c_str()) != 0)
      ADD_FAILURE() << "cannot remove " << dir_;
  }

  TaskPlan plan(std::vector<std::string> argv) const {
    TaskPlan plan;
    plan.argv = std::move(argv);
    plan.env = {"PATH=/usr/bin:/bin"};
    plan.work_dir = dir_;
    plan.uid = plan.gid = ::geteuid() == 0 ? kUser : ::geteuid();
    plan.limits = default_task_limits();
    plan.streams[0].flags = O_RDONLY;
    plan.streams[1].path = dir_ + "/out";
    plan.streams[1].flags = O_WRONLY | O_CREAT | O_APPEND;
    plan.streams[2].how = TaskStream::How::kJoinOutput;
    return plan;
  }

  // What the task printed.
  std::string run(TaskPlan plan) const {
    ::unlink((dir_ + "/out").c_str());
    TaskStart start(std::move(plan));
    start.run();
    const auto started = start.result();
    if (!started.ok() || !started->failure.empty())
      return started.ok() ? started->failure : started.error().message;
    int status = 0;
    ::waitpid(started->pid, &status, 0);
    return contents(dir_ + "/out");
  }

  // Runs it in a process of its own that `prepare` spoils first, so that this one stays as it is.
  template <class F>
  std::string run_spoiled(const TaskPlan& plan, F&& prepare) const {
    const pid_t child = ::fork();
    if (child == 0) {
      prepare();
      std::ofstream(dir_ + "/said") << run(plan);
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    return contents(dir_ + "/said");
  }

  // Descriptors of a task above 2, while its parent has a file, a socket and a high one open without close-on-exec.
  std::set<int> inherited_descriptors() const {
    const std::string listing = run_spoiled(plan({"ls", "-l", "/proc/self/fd"}), [] {
      int ends[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
      const int file = ::open("/etc/passwd", O_RDONLY);
      ASSERT_GE(::dup2(file, 700), 0);
    });
    std::set<int> found;
    for (const auto& line : split(listing, '\n')) {
      const auto arrow = line.find(" -> ");
      if (arrow == line.npos || line.ends_with("/fd"))  // the listing's own
        continue;
      const int fd = ::atoi(line.substr(line.rfind(' ', arrow - 1)).c_str());
      if (fd > 2)
        found.insert(fd);
    }
    EXPECT_NE(listing.find("/dev/null"), listing.npos) << listing;
    return found;
  }

  static std::map<std::string, std::string> status_fields(const std::string& text) {
    std::map<std::string, std::string> fields;
    for (const auto& line : split(text, '\n'))
      if (const auto colon = line.find(':'); colon != line.npos)
        fields[line.substr(0, colon)] = std::string(trim(line.substr(colon + 1)));
    return fields;
  }

  std::string dir_;
};

TEST_F(TaskLaunchTest, ATaskHasThreeDescriptors) { EXPECT_EQ(inherited_descriptors(), std::set<int>{}); }

// From 3 on and in their order, wherever they were: also where each other is to go.
TEST_F(TaskLaunchTest, ATaskHasTheDescriptorsItIsGiven) {
  TaskPlan given = plan({"sh", "-c", "cat <&3; cat <&4; cat <&5; ls /proc/self/fd | tr '\\n' ' '"});
  for (const char* text : {"a ", "b ", "c "}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::write(ends[1], text, 2), 2);
    ::close(ends[1]);
    given.inherited.insert(given.inherited.begin(), ends[0]);
  }
  const std::vector<int> ours = given.inherited;
  EXPECT_EQ(run(std::move(given)), "c b a 0 1 2 3 4 5 6 ");  // the last is the listing's own
  for (const int fd : ours) ::close(fd);
}

TEST_F(TaskLaunchTest, TheCheckOfDescriptorsNoticesInheritedOnes) {
  planted = Mutant::kInheritedDescriptor;
  const std::set<int> found = inherited_descriptors();
  EXPECT_TRUE(found.contains(700));
  EXPECT_GE(found.size(), 3u);
}

void raise_capabilities() {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  ASSERT_EQ(::syscall(SYS_capget, &head, sets), 0);
  for (auto& set : sets) set.inheritable = set.permitted;
  ASSERT_EQ(::syscall(SYS_capset, &head, sets), 0);
  ASSERT_EQ(::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_PTRACE, 0, 0), 0);
}

TEST_F(TaskLaunchTest, ATaskHasNoRightsOfItsParent) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "needs root";
  TaskPlan task = plan({"cat", "/proc/self/status", "/proc/self/oom_score_adj"});
  task.groups = {kUser, 54321};
  const std::string text = run_spoiled(task, [] {
    raise_capabilities();
    ::prctl(PR_SET_SECUREBITS, 1 << 2);  // SECBIT_NO_SETUID_FIXUP: a change of uid takes nothing away
    ::signal(SIGUSR1, SIG_IGN);
    ::signal(SIGPIPE, SIG_IGN);
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    std::ofstream("/proc/self/oom_score_adj") << "-700";
  });
  auto fields = status_fields(text);
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb", "SigBlk", "SigIgn", "SigCgt", "SigPnd"})
    EXPECT_EQ(fields[set], "0000000000000000") << set;
  EXPECT_EQ(fields["Groups"], format("{} 54321", kUser));
  EXPECT_EQ(fields["Uid"], "12345\t12345\t12345\t12345");
  EXPECT_EQ(fields["NoNewPrivs"], "0");
  EXPECT_TRUE(text.ends_with("\n0\n")) << text;
}

TEST_F(TaskLaunchTest, NoNewPrivsWhereTheAgentSaysSo) {
  TaskPlan task = plan({"cat", "/proc/self/status"});
  task.no_new_privs = true;
  EXPECT_EQ(status_fields(run(task))["NoNewPrivs"], "1");
}

TEST_F(TaskLaunchTest, ATaskHasLimitsAndPriorityOfALogin) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "needs root";
  rlimit files{}, locked{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_MEMLOCK, &locked);
  const auto spoil = [](__rlimit_resource_t resource, rlim_t soft) {
    rlimit value{};
    ::getrlimit(resource, &value);
    value.rlim_cur = std::min(soft, value.rlim_max);
    ASSERT_EQ(::setrlimit(resource, &value), 0);
  };
  const TaskPlan task = plan({"sh", "-c",
                              "ulimit -n; ulimit -c; ulimit -f; ulimit -t; ulimit -l; ulimit -r; nice; "
                              "cut -d' ' -f41 /proc/self/stat; ps -o sid= -p $$ | tr -d ' '; echo $$; umask"});
  const std::string text = run_spoiled(task, [&] {
    spoil(RLIMIT_NOFILE, 99);
    spoil(RLIMIT_CORE, 1 << 30);
    spoil(RLIMIT_FSIZE, 1 << 20);
    spoil(RLIMIT_CPU, 9);
    spoil(RLIMIT_MEMLOCK, RLIM_INFINITY);
    spoil(RLIMIT_RTPRIO, 99);
    ASSERT_EQ(::setpriority(PRIO_PROCESS, 0, -5), 0);
    const sched_param urgent{10};
    ::sched_setscheduler(0, SCHED_RR, &urgent);  // where the machine has time for it
    ::umask(0);
  });
  const auto lines = split(text, '\n');
  ASSERT_GE(lines.size(), 11u) << text;
  EXPECT_EQ(lines[0], std::to_string(std::min<rlim_t>(1024, files.rlim_max)));
  EXPECT_EQ(lines[1], "0");
  EXPECT_EQ(lines[2], "unlimited");
  EXPECT_EQ(lines[3], "unlimited");
  EXPECT_EQ(lines[4], std::to_string(std::min<rlim_t>(8 << 20, locked.rlim_max) / 1024));
  EXPECT_EQ(lines[5], "0");
  EXPECT_EQ(lines[6], "0");
  EXPECT_EQ(lines[7], "0");       // SCHED_OTHER
  EXPECT_EQ(lines[8], lines[9]);  // a session of its own
  EXPECT_EQ(lines[10], "0022");
}

TEST_F(TaskLaunchTest, LimitsOfTheSubmittingShellReplaceThoseOfALogin) {
  std::vector<std::string> env = {"A=1",
                                  "SLURM_RLIMIT_NOFILE=333",
                                  "SLURM_RLIMIT_CORE=18446744073709551615",
                                  "SLURM_RLIMIT_STACK=x",
                                  "SLURM_RLIMIT_RTPRIO=99",
                                  "SLURM_RLIMIT_",
                                  "B=2"};
  std::vector<TaskLimit> limits = default_task_limits();
  const auto soft = [&](int resource) {
    for (const TaskLimit& limit : limits)
      if (limit.resource == resource)
        return limit.soft;
    return rlim_t{0};
  };
  const rlim_t stack = soft(RLIMIT_STACK);
  take_shell_limits(env, limits);
  EXPECT_EQ(env, (std::vector<std::string>{"A=1", "B=2"}));
  EXPECT_EQ(soft(RLIMIT_NOFILE), 333u);
  EXPECT_EQ(soft(RLIMIT_CORE), RLIM_INFINITY);
  EXPECT_EQ(soft(RLIMIT_STACK), stack) << "no number";
  EXPECT_EQ(soft(RLIMIT_RTPRIO), 0u) << "not one that a shell passes on";
  env = {"SLURM_RLIMIT_NOFILE=999999999"};
  take_shell_limits(env, limits);
  EXPECT_EQ(soft(RLIMIT_NOFILE), 524'288u) << "up to the hard one";
}

TEST_F(TaskLaunchTest, WithoutRootOnlyTheOwnersWorkRuns) {
  const std::uint32_t owner = ::geteuid() == 0 ? kUser : ::geteuid();
  const auto said_for = [&](std::uint32_t uid) {
    TaskPlan task = plan({"id", "-u"});
    task.uid = uid;
    return run_spoiled(task, [&] { ASSERT_EQ(::setresuid(owner, owner, owner), 0); });
  };
  EXPECT_EQ(said_for(owner), format("{}\n", owner));
  for (const std::uint32_t other : {owner + 1, 0u})
    EXPECT_EQ(said_for(other),
              format("the agent of this node is not root, it runs work of uid {} only, not of uid {}", owner, other));
}

TEST_F(TaskLaunchTest, FilesAreOpenedAsTheUser) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "needs root";
  std::ofstream(dir_ + "/secret") << "x";
  ::chmod((dir_ + "/secret").c_str(), 0600);
  for (const int stream : {0, 1}) {
    TaskPlan task = plan({"true"});
    task.streams[stream].path = dir_ + "/secret";
    EXPECT_NE(run(task).find("Permission denied"), std::string::npos);
  }
  TaskPlan folder = plan({"true"});
  folder.streams[1].path = dir_;
  EXPECT_NE(run(folder).find("Is a directory"), std::string::npos);
}

// --- TaskStarter ---

bool readable(int fd, int patience_ms) {
  pollfd poll{fd, POLLIN, 0};
  return ::poll(&poll, 1, patience_ms) == 1;
}

std::size_t await_done(TaskStarter& starter, std::size_t count) {
  std::size_t done = 0;
  while (done < count && readable(starter.fd(), 10'000)) done = starter.done();
  return done;
}

TEST_F(TaskLaunchTest, TheFolderForTemporaryFilesIsThere) {
  const auto told = [&](const std::string& tmpdir, bool makes) {
    TaskPlan asked = plan({"/bin/sh", "-c", "echo $TMPDIR"});
    asked.env.push_back("TMPDIR=" + tmpdir);
    asked.makes_tmpdir = makes;
    return run(std::move(asked));
  };
  EXPECT_EQ(told(dir_ + "/new", false), dir_ + "/new\n");
  EXPECT_NE(::access((dir_ + "/new").c_str(), F_OK), 0);
  EXPECT_EQ(told(dir_ + "/new", true), dir_ + "/new\n");
  struct stat made {};
  ASSERT_EQ(::stat((dir_ + "/new").c_str(), &made), 0);
  EXPECT_TRUE(S_ISDIR(made.st_mode));
  EXPECT_EQ(made.st_mode & 0777, 0700u);
  EXPECT_EQ(told(dir_ + "/new", true), dir_ + "/new\n");
  EXPECT_EQ(told(dir_ + "/no/such", true), "lockstep: error: TMPDIR [" + dir_ +
                                               "/no/such]: No such file or directory: setting TMPDIR to /tmp\n/tmp\n");
  std::ofstream(dir_ + "/file");
  EXPECT_EQ(told(dir_ + "/file", true),
            "lockstep: error: TMPDIR [" + dir_ + "/file]: Not a directory: setting TMPDIR to /tmp\n/tmp\n");
}

TEST_F(TaskLaunchTest, AFifoHoldsUpTheStarterAndNobodyElse) {
  ASSERT_EQ(::mkfifo((dir_ + "/fifo").c_str(), 0666), 0);
  TaskPlan waiting = plan({"cat"});
  waiting.streams[0].path = dir_ + "/fifo";
  TaskStart first(waiting), second(plan({"echo", "second"}));
  const auto starter = TaskStarter::begin({&first, &second});
  ASSERT_TRUE(starter.ok());
  std::vector<pid_t> opening;
  while ((opening = descendants_of(::getpid())).empty()) ::usleep(500);
  EXPECT_FALSE(readable((*starter)->fd(), 50));
  EXPECT_EQ((*starter)->done(), 0u);
  ::kill(opening[0], SIGTERM);  // nothing that waits blocks signals
  ASSERT_EQ(await_done(**starter, 2), 2u);
  int status = 0;
  ASSERT_EQ(::waitpid(first.result()->pid, &status, 0), opening[0]);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  ::waitpid(second.result()->pid, &status, 0);
  EXPECT_EQ(contents(dir_ + "/out"), "second\n");
}

TEST_F(TaskLaunchTest, WhatIsCalledOffDoesNotStart) {
  ASSERT_EQ(::mkfifo((dir_ + "/fifo").c_str(), 0666), 0);
  TaskPlan waiting = plan({"cat"});
  waiting.streams[0].path = dir_ + "/fifo";
  TaskStart first(waiting), second(plan({"echo", "second"}));
  const auto starter = TaskStarter::begin({&first, &second});
  ASSERT_TRUE(starter.ok());
  std::vector<pid_t> opening;
  while ((opening = descendants_of(::getpid())).empty()) ::usleep(500);
  (*starter)->cancel();
  ::kill(opening[0], SIGKILL);
  ASSERT_EQ(await_done(**starter, 2), 2u);
  EXPECT_TRUE((*starter)->began(0));
  EXPECT_FALSE((*starter)->began(1));
  ::waitpid(opening[0], nullptr, 0);
  EXPECT_TRUE(descendants_of(::getpid()).empty());
}

}  // namespace
}  // namespace lockstep
