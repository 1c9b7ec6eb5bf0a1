// A daemon lives by nothing of the shell that started it: limits, nice, CPUs, umask, signals.
#include "io/local/daemon.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

std::string line_of(const std::string& text, const std::string& name) {
  for (const auto& line : split(text, '\n'))
    if (line.starts_with(name))
      return line;
  return {};
}

// What a daemon is like that such a shell starts: its limits, its status, its nice.
struct Seen {
  std::string limits, status, nice;
};

void lower(__rlimit_resource resource, rlim_t soft) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  limit.rlim_cur = std::min(soft, limit.rlim_max);
  ::setrlimit(resource, &limit);
}

void become_an_odd_shell() {
  lower(RLIMIT_NOFILE, 64);
  lower(RLIMIT_FSIZE, 1 << 20);
  lower(RLIMIT_CPU, 1000);
  lower(RLIMIT_CORE, RLIM_INFINITY);
  lower(RLIMIT_STACK, 1 << 20);
  if (::geteuid() == 0)
    (void)::nice(7);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ::sched_setaffinity(0, sizeof one, &one);
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ::umask(0);
}

Seen seen_of_a_daemon(const TempDir& dir) {
  const pid_t shell = ::fork();
  if (shell == 0) {
    become_an_odd_shell();
    const auto started = start_daemon({{"/bin/sleep", "1000"}, {}, dir.file("log")});
    if (started.ok())
      (void)write_pid_file(dir.file("pid"), *started);
    ::_exit(started.ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(shell, &status, 0);
  const auto daemon = read_pid_file(dir.file("pid"));
  EXPECT_TRUE(status == 0 && daemon);
  if (!daemon)
    return {};
  const auto read = [&](const char* file) { return read_file(format("/proc/{}/{}", daemon->pid, file)); };
  Seen seen{*read("limits"), *read("status"), split_words(*read("stat")).at(18)};
  ::kill(daemon->pid, SIGKILL);
  return seen;
}

TEST(RotateLog, KeepsTwoOlderPieces) {
  const TempDir dir;
  const std::string log = dir.file("log");
  for (const char* text : {"one", "two", "three"}) {
    ASSERT_TRUE(write_file(log, text).ok());
    rotate_log(log, 2);
  }
  EXPECT_EQ(*read_file(log), "");
  EXPECT_EQ(*read_file(log + ".1"), "three");
  EXPECT_EQ(*read_file(log + ".2"), "two");
  EXPECT_FALSE(read_file(log + ".1.new").ok());
}

TEST(RotateLog, LosesNothingOnAFullDisk) {
  const TempDir dir;
  const std::string log = dir.file("log"), text(300, 'x');
  ASSERT_TRUE(write_file(log, text).ok());
  ASSERT_TRUE(write_file(log + ".1", "newer").ok());
  ASSERT_TRUE(write_file(log + ".2", "older").ok());
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit little{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &little);
    rotate_log(log, 200);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  EXPECT_EQ(*read_file(log), text);
  EXPECT_EQ(*read_file(log + ".1"), "newer");
  EXPECT_EQ(*read_file(log + ".2"), "older");
}

TEST(DaemonTest, LivesByNothingOfTheShellThatStartedIt) {
  const TempDir dir;
  const Seen seen = seen_of_a_daemon(dir);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const auto limits = split_words(line_of(seen.limits, "Max open files"));
  ASSERT_GE(limits.size(), 5u);
  EXPECT_EQ(limits[3], limits[4]) << "the soft one is the hard one";
  EXPECT_NE(limits[3], "64");
  EXPECT_NE(line_of(seen.limits, "Max file size").find("unlimited"), std::string::npos);
  EXPECT_NE(line_of(seen.limits, "Max cpu time").find("unlimited"), std::string::npos);
  EXPECT_EQ(split_words(line_of(seen.limits, "Max core file size")).at(4), "0");
  EXPECT_EQ(split_words(line_of(seen.limits, "Max stack size")).at(3), std::to_string(8 << 20));
  EXPECT_EQ(seen.nice, "0");
  EXPECT_EQ(line_of(seen.status, "Umask:"), "Umask:\t0077");
  EXPECT_EQ(line_of(seen.status, "SigBlk:"), "SigBlk:\t0000000000000000");
  EXPECT_EQ(line_of(seen.status, "SigIgn:"), "SigIgn:\t0000000000000000");
  const std::string ours = *read_file("/proc/self/status");
  EXPECT_EQ(line_of(seen.status, "Cpus_allowed:"), line_of(ours, "Cpus_allowed:"));
}

}  // namespace
}  // namespace lockstep
