// Back-off, the note of what runs, and which processes are proven ours.
#include "io/local/restarts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/text.h"
#include "io/local/daemon.h"
#include "io/local/supervisor.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

TEST(Backoff, StartsAtOnceAndGrowsToHalfAMinute) {
  Backoff backoff;
  EXPECT_EQ(backoff.after({}).millis(), 100);
  EXPECT_EQ(backoff.after({}).millis(), 200);
  for (int i = 0; i < 6; ++i) backoff.after({});
  EXPECT_EQ(backoff.after({}).millis(), 25'600);
  EXPECT_EQ(backoff.after({}).millis(), 30'000);
  EXPECT_EQ(backoff.after(seconds(29)).millis(), 30'000);
  EXPECT_EQ(backoff.after(seconds(31)).millis(), 100) << "a good run forgives";
  backoff.forgive();
  EXPECT_EQ(backoff.after({}).millis(), 100);
}

RunNote example() {
  RunNote note;
  note.supervisor = ProcessId{12, 3456};
  note.ends = 3;
  note.ended = "exit code 1: lockstepd: error: the disk is full = bad";
  note.ended_by_itself = true;
  note.ended_at_s = 1'800'000'000;
  note.next_at_s = 1'800'000'002;
  return note;
}

TEST(RunNote, IsReadAsItWasWritten) {
  const TempDir dir;
  const auto file = RunNoteFile::open(dir.file("run"));
  ASSERT_TRUE(file.ok());
  RunNote longer = example();
  longer.ended = std::string(10'000, 'x');
  file->write(longer);
  file->write(example());
  const auto back = read_run_note(dir.file("run"));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(encode(*back), encode(example()));
  EXPECT_EQ(back->supervisor, example().supervisor);
  EXPECT_FALSE(back->process);
  struct stat found {};
  ASSERT_EQ(::stat(dir.file("run").c_str(), &found), 0);
  EXPECT_EQ(found.st_size, 4096) << "of one size, so that a full disk takes it";
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST(RunNote, ALogCannotForgeIt) {
  RunNote note = example();
  note.ended = "exit code 1: x\nprocess=1 1\nall of it\n\x1b[2J";
  const auto back = parse_run_note(encode(note));
  ASSERT_TRUE(back.ok());
  EXPECT_FALSE(back->process);
  EXPECT_EQ(back->ended.find('\x1b'), std::string::npos);
}

TEST(RunNote, HalfOfOneIsNone) {
  const std::string whole = encode(example());
  for (std::size_t size = 0; size + 1 < whole.size(); ++size)
    EXPECT_FALSE(parse_run_note(whole.substr(0, size)).ok()) << size;
}

TEST(RunNote, OneWriterAtATime) {
  const TempDir dir;
  const auto first = RunNoteFile::open(dir.file("run"));
  ASSERT_TRUE(first->lock().ok());
  EXPECT_EQ(RunNoteFile::open(dir.file("run"))->lock().error().code, Errc::kConflict);
  ASSERT_EQ(::symlink("run", dir.file("link").c_str()), 0);
  EXPECT_FALSE(RunNoteFile::open(dir.file("link")).ok());
}

TEST(RunNote, SaysWhatAProcessSaidLast) {
  const TempDir dir;
  const std::string log = dir.file("log");
  ASSERT_TRUE(write_file(log, "old\nCHECK failed: a < b\n").ok());
  EXPECT_EQ(ending_text(SIGABRT, log, 0), "signal 6 (Aborted): CHECK failed: a < b");
  EXPECT_EQ(ending_text(3 << 8, log, size_of_file(log)), "exit code 3");
  EXPECT_EQ(ending_text(SIGKILL, log, 0), "signal 9 (Killed)") << "its last words were about something else";
  const std::string stamp = "2026-03-01T12:00:00.123 ";
  ASSERT_TRUE(write_file(log, stamp + "error lockstepd: error: the disk is full\n").ok());
  EXPECT_EQ(ending_text(1 << 8, log, 0), "exit code 1: lockstepd: error: the disk is full");
  for (const char* level : {"info ", "warning "}) {
    ASSERT_TRUE(write_file(log, stamp + level + "lockstep-agent: connected to cluster a as node n1\n").ok());
    EXPECT_EQ(ending_text(0, log, 0), "exit code 0") << "that is no reason to end";
    EXPECT_EQ(ending_text(SIGSEGV, log, 0), "signal 11 (Segmentation fault)");
  }
}

TEST(ChildrenOf, ThoseOfOtherThreadsAreThereToo) {
  int told[2], done[2];
  ASSERT_TRUE(::pipe(told) == 0 && ::pipe(done) == 0);
  std::thread thread([&] {
    const pid_t child = ::fork();
    if (child == 0)
      for (;;) ::pause();
    (void)!::write(told[1], &child, sizeof child);
    char byte;
    (void)!::read(done[0], &byte, 1);  // its children are its own as long as it lives
  });
  pid_t child = 0;
  ASSERT_EQ(::read(told[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  const auto children = children_of(::getpid());
  EXPECT_NE(std::find(children.begin(), children.end(), child), children.end());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(::write(done[1], "", 1), 1);
  thread.join();
  for (const int fd : {told[0], told[1], done[0], done[1]}) ::close(fd);
}

// A program under the name of one of ours that runs until it is told to end.
class OwnProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(run_program({"cp", "/bin/sleep", program_}).ok());
    ASSERT_TRUE(run_program({"cp", "/bin/sleep", dir_.file("other")}).ok());
  }
  void TearDown() override {
    for (const pid_t pid : started_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  ProcessId start(const std::string& program, const std::string& id) {
    const auto process = start_daemon({{program, "1000"}, {{kClusterIdVariable, id}}, dir_.file("log")});
    EXPECT_TRUE(process.ok()) << process.error().message;
    started_.push_back(process->pid);
    return *process;
  }
  TempDir dir_;
  const std::string program_ = dir_.file("lockstepd");
  std::vector<pid_t> started_;
};

TEST_F(OwnProcessTest, IsProvenByStartProgramAndId) {
  const ProcessId process = start(program_, "mine");
  EXPECT_TRUE(OwnProcess::prove(process, "mine").ok());
  EXPECT_EQ(OwnProcess::prove(process, "another").error().code, Errc::kDenied);
  EXPECT_EQ(OwnProcess::prove({process.pid, process.start_ticks + 1}, "mine").error().code, Errc::kNotFound);
  const ProcessId other = start(dir_.file("other"), "mine");
  EXPECT_EQ(OwnProcess::prove(other, "mine").error().code, Errc::kDenied) << "not one of our programs";
  ASSERT_EQ(::unlink(program_.c_str()), 0);
  EXPECT_TRUE(OwnProcess::prove(process, "mine").ok()) << "after an upgrade";
}

// What `down` would do with a number that somebody else wrote into its note.
TEST_F(OwnProcessTest, AnInnocentProcessIsLeftAlone) {
  const ProcessId innocent = start(dir_.file("other"), "");
  EXPECT_EQ(OwnProcess::prove(innocent, "mine").error().code, Errc::kDenied);
  EXPECT_TRUE(alive(innocent));
}

// While a process ends it has no program and no environment any more, as one that was given none.
TEST_F(OwnProcessTest, OneThatShowsNothingOfItselfAndEndsIsGone) {
  std::string program = program_, patience = "1000";
  char* const argv[] = {program.data(), patience.data(), nullptr};
  char* const nothing[] = {nullptr};
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawn(&pid, program_.c_str(), nullptr, nullptr, argv, nothing), 0);
  started_.push_back(pid);
  const auto process = identify(pid);
  ASSERT_TRUE(process.has_value());
  EXPECT_EQ(OwnProcess::prove(*process, "mine").error().code, Errc::kDenied) << "it goes on, and shows nothing";
  std::thread killer([pid] {
    ::usleep(50'000);
    ::kill(pid, SIGKILL);
  });
  EXPECT_EQ(OwnProcess::prove(*process, "mine").error().code, Errc::kNotFound);
  killer.join();
}

TEST_F(OwnProcessTest, EndsEvenWhenItIsStopped) {
  const auto process = OwnProcess::prove(start(program_, "mine"), "mine");
  ASSERT_TRUE(process.ok());
  process->signal(SIGSTOP);
  EXPECT_FALSE(process->ended({}));
  EXPECT_TRUE(process->end(seconds(20)));
}

TEST_F(OwnProcessTest, InheritsNothing) {
  ::setenv("SECRET_OF_ROOT", "x", 1);
  ::setenv("LOCKSTEP_SOCKET", "/of/the/shell", 1);
  ::setenv("LOCKSTEP_SYNC_DELAY_US", "5", 1);
  const int left_open = ::open("/etc/passwd", O_RDONLY);  // of the shell: not close-on-exec
  const ProcessId process = start(program_, "mine");
  ::close(left_open);
  const std::string proc = format("/proc/{}/", process.pid);
  const std::string environment = *read_file(proc + "environ");
  EXPECT_EQ(environment.find("SECRET_OF_ROOT"), std::string::npos);
  EXPECT_EQ(environment.find("LOCKSTEP_SOCKET"), std::string::npos);
  EXPECT_NE(environment.find("LOCKSTEP_SYNC_DELAY_US=5"), std::string::npos);
  for (const char* name : {"SECRET_OF_ROOT", "LOCKSTEP_SOCKET", "LOCKSTEP_SYNC_DELAY_US"}) ::unsetenv(name);
  for (int fd = 3; fd < 64; ++fd) EXPECT_NE(::access((proc + format("fd/{}", fd)).c_str(), F_OK), 0) << fd;
  char cwd[64] = "";
  EXPECT_EQ(::readlink((proc + "cwd").c_str(), cwd, sizeof cwd), 1);
  EXPECT_EQ(::getsid(process.pid), process.pid);
  EXPECT_NE(read_file(proc + "status")->find("Umask:\t0077"), std::string::npos);
}

TEST(CloseBehindUs, GivesAKeyringAndAUmaskOfItsOwn) {
  const auto keyring = [] { return ::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0); };
  if (keyring() < 0)
    GTEST_SKIP() << "no keyrings here";
  const long of_the_shell = keyring();
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int left_open = ::open("/etc/passwd", O_RDONLY);
    close_behind_us(077);
    const bool closed = ::fcntl(left_open, F_GETFD) < 0;
    ::_exit(closed && keyring() > 0 && keyring() != of_the_shell && ::umask(0) == 077 ? 0 : 1);
  }
  int status = 1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Supervise, ArgumentsAreReadAsTheyWereWritten) {
  const Supervised what{"id", "/note", "/log", {"/bin/lockstepd", "--dir", "/x"}};
  const auto words = supervise_arguments(what);
  const auto back = parse_supervise(words);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(supervise_arguments(*back), words);
  EXPECT_FALSE(parse_supervise({"supervise", "id"}).ok());
}

}  // namespace
}  // namespace lockstep
