// The shims and their processes for real: programs are started, stopped, killed and found again.
#include "io/shims.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/text.h"
#include "io/event_loop.h"
#include "io/shim_search.h"
#include "model/work_id.h"
#include "shim/nursery.h"
#include "shim/process_tree.h"
#include "shim/protocol.h"
#include "wire/frame.h"

namespace lockstep {
namespace {

std::string shim_program() {
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  const std::string path(self, static_cast<std::size_t>(n));
  return path.substr(0, path.rfind('/')) + "/lockstep-shim";
}

std::string text_of_file(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

std::string number(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

pid_t parent_of(pid_t pid) {
  const std::string stat = text_of_file(format("/proc/{}/stat", pid));
  const auto close = stat.rfind(')');
  return close == stat.npos ? 0 : ::atoi(stat.c_str() + close + 4);
}

class ShimsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-shims-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    ::chmod(name, 0755);
    restart_agent();
  }
  void TearDown() override {
    shims_.reset();
    loop_.reset();
    if (::system(("rm -rf " + dir_).c_str()) != 0)
      ADD_FAILURE() << "cannot remove " << dir_;
  }

  // As after a crash of the agent: everything in memory is gone.
  void restart_agent() {
    shims_.reset();
    loop_ = make_event_loop();
    auto shims = make_shims(*loop_, dir_, shim_program());
    ASSERT_TRUE(shims.ok()) << shims.error().message;
    shims_ = std::move(*shims);
    shims_->on_event([this](ShimEvent event) {
      events_.push_back(std::move(event));
      loop_->stop();
    });
  }

  // Runs the loop until an event of this kind comes; everything before it is dropped.
  ShimEvent await(ShimEvent::What what) {
    const TimerId guard = loop_->after(seconds(20), [this] {
      late_ = true;
      loop_->stop();
    });
    for (;;) {
      while (!events_.empty()) {
        ShimEvent event = std::move(events_.front());
        events_.erase(events_.begin());
        if (event.what == what) {
          loop_->cancel(guard);
          return event;
        }
        if (event.what == ShimEvent::What::kFailed)
          ADD_FAILURE() << event.why;
      }
      if (late_) {
        ADD_FAILURE() << "no event";
        return {};
      }
      loop_->run();
    }
  }
  ExitStatus exit_of(const ShimStart& start) {
    shims_->start(start);
    const ShimEvent event = await(ShimEvent::What::kEnded);
    EXPECT_EQ(event.key, start.key);
    EXPECT_EQ(event.results.size(), start.launch.ranks.size());
    return event.results.empty() ? ExitStatus{} : event.results[0].exit;
  }

  ShimStart step(std::vector<std::string> argv, StepNo number = 0) {
    ShimStart start;
    start.key = {JobId(7), 1, StepPart{number}};
    start.launch.ranks = {0};
    start.launch.to_client = false;
    start.launch.process.uid = ::geteuid();
    start.launch.process.gid = ::getegid();
    start.launch.process.argv = std::move(argv);
    start.launch.process.env = {"PATH=/usr/bin:/bin"};
    start.launch.process.work_dir = dir_;
    start.launch.process.std_out = dir_ + "/out";
    return start;
  }
  ShimStart script(std::string text) {
    ShimStart start = step({"one", "two words"});
    start.key.part = ScriptPart{};
    start.script = std::move(text);
    return start;
  }
  std::string output() { return text_of_file(dir_ + "/out"); }
  bool folder_there(const WorkId& key) { return ::access((dir_ + "/shims/" + text_of(key)).c_str(), F_OK) == 0; }

  std::string dir_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Shims> shims_;
  std::vector<ShimEvent> events_;
  bool late_ = false;
};

// A blocking client of a shim's step I/O.
class Client {
 public:
  Client(const std::string& dir, const WorkId& key, const std::string& have = "{}") {
    auto fd = connect_to_shim(dir, key);
    EXPECT_TRUE(fd.ok()) << fd.error().message;
    fd_ = *fd;
    ::fcntl(fd_, F_SETFL, 0);
    timeval limit{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    send(IoFrame::kAttach, kAllRanks, have);
  }
  ~Client() { ::close(fd_); }
  void send(IoFrame type, std::uint64_t stream, const std::string& payload) {
    const std::string bytes = encode_frame(static_cast<std::uint8_t>(type), stream, payload);
    ASSERT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // Reads frames until one of this type comes; collects output by rank and descriptor on the way.
  bool until(IoFrame type, std::size_t times = 1) {
    while (times > 0) {
      if (next_ == frames_.size()) {
        char chunk[64 << 10];
        const ssize_t n = ::recv(fd_, chunk, sizeof chunk, 0);
        if (n <= 0)
          return false;
        EXPECT_TRUE(
            reader_.feed({chunk, static_cast<std::size_t>(n)}, [&](Frame f) { frames_.push_back(std::move(f)); }).ok());
        continue;
      }
      last = frames_[next_++];
      const auto kind = static_cast<IoFrame>(last.type);
      if (kind == IoFrame::kOutput)
        output[{last.stream, last.payload[0]}] += last.payload.substr(9);
      if (kind == type)
        --times;
    }
    return true;
  }
  Frame last;
  std::map<std::pair<std::uint64_t, int>, std::string> output;

 private:
  int fd_ = -1;
  FrameReader reader_;
  std::vector<Frame> frames_;
  std::size_t next_ = 0;
};

TEST_F(ShimsTest, ExitCodesAndOutputFile) {
  EXPECT_EQ(exit_of(step({"sh", "-c", "echo hello; echo bad >&2; exit 7"})).code, 7);
  EXPECT_EQ(output(), "hello\nbad\n");
}

TEST_F(ShimsTest, SignalIsNotACode) {
  const ExitStatus exit = exit_of(step({"sh", "-c", "kill -SEGV $$"}));
  EXPECT_EQ(exit.signal, SIGSEGV);
  EXPECT_EQ(exit.code, 0);
}

TEST_F(ShimsTest, MissingProgramIsCodeTwoWithAMessage) {
  EXPECT_EQ(exit_of(step({"no-such-program"})).code, 2);
  EXPECT_EQ(output(), "lockstep: error: execve(): no-such-program: No such file or directory\n");
}

TEST_F(ShimsTest, ScriptGetsItsNameAndArguments) {
  EXPECT_EQ(exit_of(script("#!/bin/sh\necho \"$#:$2\"; basename $0\n")).code, 0);
  EXPECT_EQ(output(), "2:two words\nslurm_script\n");
}

TEST_F(ShimsTest, ScriptWithoutInterpreterSaysSo) {
  EXPECT_EQ(exit_of(script("echo hello\n")).code, ENOEXEC);
  EXPECT_NE(output().find("#!"), std::string::npos);
}

TEST_F(ShimsTest, AnInterpreterThatIsNotThereIsNamed) {
  EXPECT_EQ(exit_of(script("#! /no/such/interpreter -x\ntrue\n")).code, ENOENT);
  const std::string in_slurms_words =
      "lockstep: error: execve(): bad interpreter(/no/such/interpreter): No such file or directory\n";
  EXPECT_EQ(output(), in_slurms_words);
  const std::string program = dir_ + "/program";
  std::ofstream(program) << "#!/no/such/interpreter";
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  EXPECT_EQ(exit_of(step({program})).code, ENOENT);
  EXPECT_EQ(output(), in_slurms_words);
}

TEST_F(ShimsTest, RunsAsTheUserEvenWhereTheFolderIsClosed) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "needs root";
  ::chmod((dir_ + "/shims").c_str(), 0700);
  ShimStart start = script("#!/bin/sh\nid -u; id -g; id -G; umask\n");
  start.launch.process.uid = 12345;
  start.launch.process.gid = 23456;
  start.launch.process.groups = {23456, 34567};
  start.launch.process.umask = 027;
  ::chmod(dir_.c_str(), 0777);
  EXPECT_EQ(exit_of(start).code, 0);
  EXPECT_EQ(output(), "12345\n23456\n23456 34567\n0027\n");
  struct stat stat {};
  ASSERT_EQ(::stat((dir_ + "/out").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_uid, 12345u);
  EXPECT_EQ(stat.st_mode & 0777, 0640u);
}

TEST_F(ShimsTest, UnwritableOutputIsSlurmsZero53) {
  ShimStart start = step({"true"});
  start.launch.process.std_out = dir_ + "/no/such/folder/out";
  const ExitStatus exit = exit_of(start);
  EXPECT_EQ(exit.code, 0);
  EXPECT_EQ(exit.signal, kNotOpenedSignal);
  EXPECT_TRUE(exit.not_opened);
}

TEST_F(ShimsTest, MissingWorkDirFallsBackToTmp) {
  ShimStart start = step({"pwd"});
  start.launch.process.work_dir = "/no/such/dir";
  EXPECT_EQ(exit_of(start).code, 0);
  EXPECT_EQ(
      output(),
      "lockstep: error: couldn't chdir to `/no/such/dir': No such file or directory: going to /tmp instead\n/tmp\n");
}

TEST_F(ShimsTest, RanksHaveTheirOwnVariablesAndFiles) {
  ShimStart start = step({"sh", "-c", "echo $RANK $LOCAL $EXTRA; test $PID = $$"});
  start.launch.ranks = {4, 9};
  start.launch.process.task_env = {"RANK=\x01t", "LOCAL=\x01l", "PID=\x01p"};
  start.launch.env_by_rank = {{"EXTRA=a"}, {"EXTRA=b"}};
  start.launch.process.std_out = dir_ +
                                 "/out.\x01"
                                 "3t";
  shims_->start(start);
  const ShimEvent event = await(ShimEvent::What::kEnded);
  ASSERT_EQ(event.results.size(), 2u);
  EXPECT_TRUE(event.results[0].exit.ok() && event.results[1].exit.ok());
  EXPECT_EQ(text_of_file(dir_ + "/out.004"), "4 0 a\n");
  EXPECT_EQ(text_of_file(dir_ + "/out.009"), "9 1 b\n");
}

TEST_F(ShimsTest, RanksShareOneFile) {
  ShimStart start = step({"sh", "-c", "echo line"});
  start.launch.ranks = {0, 1, 2};
  exit_of(start);
  EXPECT_EQ(output(), "line\nline\nline\n");
}

TEST_F(ShimsTest, AppendKeepsWhatWasThere) {
  std::ofstream(dir_ + "/out") << "before\n";
  ShimStart start = step({"echo", "after"});
  start.launch.process.append = true;
  exit_of(start);
  EXPECT_EQ(output(), "before\nafter\n");
}

TEST_F(ShimsTest, StopIsTermThenKill) {
  shims_->start(step({"sh", "-c", "trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done"}));
  await(ShimEvent::What::kStarted);
  while (output().empty()) ::usleep(1000);
  shims_->stop({JobId(7), 1, StepPart{0}}, millis(200));
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.signal, SIGKILL);
  EXPECT_NE(output().find("term"), std::string::npos);
}

TEST_F(ShimsTest, ASignalForTheFirstProcessReachesNoOther) {
  shims_->start(step({"sh", "-c",
                      "(trap 'echo inner' USR1; while [ ! -e go ]; do sleep 0.02; done) & "
                      "trap 'echo outer' USR1; echo up; wait; touch go; wait"}));
  while (output().empty()) ::usleep(1000);
  await(ShimEvent::What::kStarted);
  shims_->signal({JobId(7), 1, StepPart{0}}, SIGUSR1, Shims::Reach::kFirst);
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.code, 0);
  EXPECT_EQ(output(), "up\nouter\n");
}

// What Slurm's users look for in their logs, behind what the job itself wrote.
TEST_F(ShimsTest, WhoIsStoppedIsToldWhy) {
  ShimStart batch = script("#!/bin/sh\ntrap 'echo saving; exit 3' TERM\necho up\nwhile :; do sleep 0.02; done\n");
  shims_->start(batch);
  await(ShimEvent::What::kStarted);
  while (output().empty()) ::usleep(1000);
  shims_->stop(batch.key, seconds(20), StopWhy::kTimeLimit);
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.code, 3);
  EXPECT_NE(output().find("slurmstepd: error: *** JOB 7 ON "), std::string::npos) << output();
  EXPECT_NE(output().find(" DUE TO TIME LIMIT ***\n"), std::string::npos);
  EXPECT_NE(output().find("saving\n"), std::string::npos);

  ShimStart attached = step({"sh", "-c", "echo up; sleep 1000"});
  attached.launch.process.std_out.clear();
  attached.launch.to_client = true;
  shims_->start(attached);
  await(ShimEvent::What::kStarted);
  Client client(dir_, attached.key);
  ASSERT_TRUE(client.until(IoFrame::kOutput));
  shims_->stop(attached.key, seconds(20), StopWhy::kCancelled);
  ASSERT_TRUE(client.until(IoFrame::kExited));
  EXPECT_TRUE((client.output[{0, 2}]).starts_with("slurmstepd: error: *** STEP 7.0 ON ")) << client.output[{0, 2}];
  EXPECT_EQ((client.output[{0, 2}]).find("DUE TO"), std::string::npos);
}

// Only the file's user may write there, whoever the shim is.
TEST_F(ShimsTest, TheReasonIsWrittenAsTheUser) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "needs root";
  ::chmod(dir_.c_str(), 0777);
  ShimStart start = script("#!/bin/sh\nrm out; ln -s secret out; echo up > flag; sleep 1000\n");
  start.launch.process.uid = start.launch.process.gid = 12345;
  std::ofstream(dir_ + "/secret") << "of root\n";
  ::chmod((dir_ + "/secret").c_str(), 0600);
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  while (text_of_file(dir_ + "/flag").empty()) ::usleep(1000);
  shims_->stop(start.key, seconds(20), StopWhy::kCancelled);
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.signal, SIGTERM);
  EXPECT_EQ(text_of_file(dir_ + "/secret"), "of root\n");
}

TEST_F(ShimsTest, AnSrunOfTheScriptMayFinishInTheTimeOfGrace) {
  std::ofstream(dir_ + "/srun") << "#!/bin/sh\n"  // it has no children, as the real one
                                   "trap 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo saved; exit' TERM\n"
                                   "echo up; while :; do :; done\n";
  ::chmod((dir_ + "/srun").c_str(), 0755);
  const ShimStart batch = script("#!/bin/sh\nexec 2> /dev/null\n(trap '' TERM; exec sleep 1000) &\n./srun\n");
  shims_->start(batch);
  await(ShimEvent::What::kStarted);
  while (output().empty()) ::usleep(1000);
  shims_->stop(batch.key, seconds(20));
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.signal, SIGTERM);
  EXPECT_EQ(output(), "up\nsaved\n");
}

TEST_F(ShimsTest, AScriptWaitsForTheFolderOfItsOutput) {
  ShimStart batch = script("#!/bin/sh\necho here\n");
  batch.launch.process.std_out = dir_ + "/late/out";
  shims_->start(batch);
  ::usleep(200'000);
  ASSERT_EQ(::mkdir((dir_ + "/late").c_str(), 0755), 0);
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.code, 0);
  EXPECT_EQ(text_of_file(dir_ + "/late/out"), "here\n");
}

TEST_F(ShimsTest, SignalReachesEveryProcess) {
  shims_->start(step({"sh", "-c",
                      "setsid sh -c 'trap \"echo deep; exit\" USR1; echo up; while :; do sleep 0.02; done' & trap "
                      "'wait; exit 3' USR1; wait; wait"}));
  while (output().empty()) ::usleep(1000);
  await(ShimEvent::What::kStarted);
  shims_->signal({JobId(7), 1, StepPart{0}}, SIGUSR1);
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.code, 3);
  EXPECT_NE(output().find("deep"), std::string::npos);
}

TEST_F(ShimsTest, PauseIsToldWhenNothingCanRun) {
  // Something that forks all the time, in a session of its own.
  shims_->start(step({"sh", "-c", "setsid sh -c 'while :; do (echo x) ; done' & wait"}));
  while (output().empty()) ::usleep(1000);
  await(ShimEvent::What::kStarted);
  const WorkId key{JobId(7), 1, StepPart{0}};
  shims_->pause(key, true, 3);
  EXPECT_EQ(await(ShimEvent::What::kPaused).number, 3u);
  const std::size_t there = output().size();
  const auto running = [&] {
    std::size_t count = 0;
    for (pid_t pid : descendants_of(::getpid())) {
      const std::string stat = text_of_file(format("/proc/{}/stat", pid));
      const std::string name = stat.substr(stat.find('('), stat.rfind(')') - stat.find('(') + 1);
      const char state = stat.empty() ? 'X' : stat[stat.rfind(')') + 2];
      const bool shims = name == "(lockstep-shim)" || name == format("({})", kNurseryName);
      count += !shims && state != 'T' && state != 'Z' && state != 'X';
    }
    return count;
  };
  EXPECT_EQ(running(), 0u);
  shims_->signal(key, SIGCONT);  // nobody but an order to resume lets it go on
  ::usleep(20'000);
  EXPECT_EQ(running(), 0u);
  EXPECT_EQ(output().size(), there);
  shims_->pause(key, false, 4);
  EXPECT_EQ(await(ShimEvent::What::kResumed).number, 4u);
  while (output().size() == there) ::usleep(1000);
  // An end without a wait wakes nobody.
  shims_->pause(key, true, 5);
  await(ShimEvent::What::kPaused);
  const std::size_t then = output().size();
  shims_->stop(key, {});
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.signal, SIGKILL);
  EXPECT_EQ(output().size(), then);
}

TEST_F(ShimsTest, LeftoversDieWithTheTask) {
  EXPECT_EQ(exit_of(step({"sh", "-c", "setsid sleep 1000 & echo $!; exit 0"})).code, 0);
  const pid_t leftover = ::atoi(output().c_str());
  ASSERT_GT(leftover, 0);
  EXPECT_NE(::kill(leftover, 0), 0);
}

TEST_F(ShimsTest, SecondStartIsIgnored) {
  const ShimStart start = step({"sh", "-c", "echo once"});
  shims_->start(start);
  shims_->start(start);
  await(ShimEvent::What::kEnded);
  shims_->start(start);
  EXPECT_EQ(output(), "once\n");
}

TEST_F(ShimsTest, ForgetRemovesTheFolder) {
  const ShimStart start = step({"true"});
  exit_of(start);
  EXPECT_TRUE(shim_folder_exists(dir_, start.key));
  shims_->forget(start.key);
  while (shim_folder_exists(dir_, start.key)) {
    loop_->after(millis(5), [this] { loop_->stop(); });
    loop_->run();
  }
}

TEST_F(ShimsTest, AgentRestartFindsARunningStep) {
  const ShimStart start = step({"sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; exit 5"});
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  restart_agent();
  const auto found = shims_->recover();
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0], start.key);
  await(ShimEvent::What::kStarted);
  std::ofstream(dir_ + "/go") << "x";
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.code, 5);
}

TEST_F(ShimsTest, ResultWaitsForAnAgent) {
  const ShimStart start = step({"sh", "-c", "exit 6"});
  exit_of(start);
  restart_agent();
  ASSERT_EQ(shims_->recover()->size(), 1u);
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.code, 6);
}

TEST_F(ShimsTest, KilledShimTakesItsTasksAlong) {
  const ShimStart start = step({"sh", "-c", "(trap '' TERM HUP; sleep 1000) & echo $!; wait"});
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  while (output().empty()) ::usleep(1000);
  const pid_t inner = ::atoi(output().c_str());
  const pid_t shim = parent_of(parent_of(inner));
  ASSERT_GT(shim, 1);
  ::kill(shim, SIGKILL);
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.signal, SIGKILL);
  EXPECT_TRUE(descendants_of(inner).empty());
  const std::string stat = text_of_file(format("/proc/{}/stat", inner));
  EXPECT_TRUE(stat.empty() || stat.find(") Z") != stat.npos) << stat;
}

TEST_F(ShimsTest, ARebootLeavesNothingToFind) {
  const ShimStart start = step({"true"});
  exit_of(start);
  ASSERT_TRUE(shim_folder_exists(dir_, start.key));
  restart_agent();
  ASSERT_TRUE(remove_shims_of_older_boots(dir_).ok());
  EXPECT_FALSE(shim_folder_exists(dir_, start.key));
  EXPECT_TRUE(shims_->recover()->empty());
}

TEST_F(ShimsTest, MissingShimProgramIsRefused) { EXPECT_FALSE(make_shims(*loop_, dir_, "/no/such/shim").ok()); }

pid_t child_with_option(const std::string& option) {
  // One that has just been started may not show its arguments yet.
  for (int tries = 0; tries < 2000; ++tries, ::usleep(1000))
    for (const auto& [pid, facts] : all_processes())
      if (facts.parent == ::getpid() && !facts.zombie &&
          text_of_file(format("/proc/{}/cmdline", pid))
              .starts_with("lockstep-shim" + std::string(1, '\0') + option + '\0'))
        return pid;
  ADD_FAILURE() << "no child with " << option;
  ::_exit(1);  // kill(0) would reach the runner of the tests
}

TEST_F(ShimsTest, AShimThatStandsStillIsEndedForItsTasks) {
  for (const bool restarted : {false, true}) {
    const ShimStart start = step({"sh", "-c", "(trap '' TERM HUP; sleep 1000) & echo $!; wait"}, restarted ? 1 : 0);
    shims_->start(start);
    await(ShimEvent::What::kStarted);
    while (output().find('\n') == std::string::npos) ::usleep(1000);
    const pid_t inner = ::atoi(output().c_str());
    const pid_t shim = parent_of(parent_of(inner));
    ASSERT_GT(shim, 1);
    ::kill(shim, SIGSTOP);
    if (restarted) {
      restart_agent();
      ASSERT_TRUE(shims_->recover().ok());
    }
    shims_->stop(start.key, hours(1));
    shims_->stop(start.key, millis(100));  // the earlier of the two counts
    ShimEvent event = await(ShimEvent::What::kEnded);
    while (event.key != start.key && !late_) event = await(ShimEvent::What::kEnded);  // of the one before, found again
    EXPECT_EQ(event.results.at(0).exit.signal, SIGKILL);
    EXPECT_TRUE(is_dead(inner) && is_dead(shim));
    ::unlink((dir_ + "/out").c_str());
  }
}

TEST_F(ShimsTest, AStoppedNurseryEndsWithItsAgent) {
  // The agent is a process of its own here: the kernel tells a nursery of its end.
  int pids[2];
  ASSERT_EQ(::pipe(pids), 0);
  const pid_t agent = ::fork();
  if (agent == 0) {
    auto loop = make_event_loop();
    auto shims = make_shims(*loop, dir_, shim_program());
    const pid_t nursery = child_with_option(kNurseryOption);
    (void)!::write(pids[1], &nursery, sizeof nursery);
    ::pause();
  }
  pid_t nursery = 0;
  ASSERT_EQ(::read(pids[0], &nursery, sizeof nursery), static_cast<ssize_t>(sizeof nursery));
  ASSERT_GT(nursery, 0);
  while (text_of_file(format("/proc/{}/comm", nursery)) != std::string(kNurseryName) + "\n") ::usleep(1000);
  const auto sleeps = [&] { return text_of_file(format("/proc/{}/stat", nursery)).find(") S ") != std::string::npos; };
  while (!sleeps()) ::usleep(1000);  // it waits for work
  ::kill(nursery, SIGSTOP);
  ::kill(agent, SIGKILL);
  ::waitpid(agent, nullptr, 0);
  for (int tries = 0; tries < 500 && !is_dead(nursery); ++tries) ::usleep(10'000);
  EXPECT_TRUE(is_dead(nursery));
  ::kill(nursery, SIGKILL);
}

TEST_F(ShimsTest, ShimsAreCopiesAndOurChildren) {
  const pid_t nursery = child_with_option(kNurseryOption);
  ASSERT_GT(nursery, 0);
  EXPECT_EQ(
      exit_of(step({"sh", "-c", "tr '\\0' ' ' < /proc/$PPID/cmdline; cat /proc/$PPID/comm; ps -o ppid= -p $PPID"}))
          .code,
      0);
  std::istringstream said(output());
  std::string program, name, comm;
  pid_t parent = 0;
  said >> program >> name >> comm >> parent;
  EXPECT_EQ(program, "lockstep-shim");
  EXPECT_EQ(name, "7-1-0") << "`ps` tells shims apart, and from the nursery";
  EXPECT_EQ(comm, "lockstep-shim");
  EXPECT_EQ(text_of_file(format("/proc/{}/comm", nursery)), std::string(kNurseryName) + "\n");
  EXPECT_EQ(parent, ::getpid());
  // A killed shim's leftovers are looked for among our children; the nursery is none of them.
  shims_->start(step({"sleep", "1000"}, 1));
  await(ShimEvent::What::kStarted);
  for (const auto& [pid, facts] : all_processes())
    if (facts.parent == ::getpid() && pid != nursery)
      ::kill(pid, SIGKILL);
  EXPECT_EQ(await(ShimEvent::What::kEnded).results.at(0).exit.signal, SIGKILL);
  EXPECT_EQ(child_with_option(kNurseryOption), nursery);
}

TEST_F(ShimsTest, WithoutItsNurseryAnAgentStartsTheProgram) {
  const pid_t nursery = child_with_option(kNurseryOption);
  ::kill(nursery, SIGKILL);
  while (text_of_file(format("/proc/{}/stat", nursery)).find(") Z") == std::string::npos) ::usleep(1000);
  EXPECT_EQ(exit_of(step({"sh", "-c", "tr '\\0' ' ' < /proc/$PPID/cmdline"})).code, 0);
  EXPECT_EQ(output(), "lockstep-shim 7-1-0 ");
  ::sleep(1);  // so often a new one is tried
  EXPECT_EQ(exit_of(step({"true"}, 1)).code, 0);
  const pid_t next = child_with_option(kNurseryOption);
  EXPECT_GT(next, 0);
  EXPECT_NE(next, nursery);
}

TEST_F(ShimsTest, ANurseryThatStandsStillIsReplaced) {
  const pid_t nursery = child_with_option(kNurseryOption);
  ::kill(nursery, SIGSTOP);
  shims_->start(step({"true"}));
  loop_->after(seconds(20), [this] { loop_->stop(); });
  while (events_.empty()) loop_->run();
  EXPECT_EQ(events_.at(0).what, ShimEvent::What::kFailed);
  events_.clear();
  EXPECT_EQ(exit_of(step({"sh", "-c", "exit 3"}, 1)).code, 3);
  EXPECT_NE(child_with_option(kNurseryOption), nursery);
}

TEST_F(ShimsTest, WhatANurseryWasAskedForRunsWithoutTheAgent) {
  const pid_t nursery = child_with_option(kNurseryOption);
  ::kill(nursery, SIGSTOP);
  const ShimStart start = step({"sh", "-c", "sleep 0.2; exit 7"});
  shims_->start(start);
  ::kill(nursery, SIGCONT);
  restart_agent();
  ASSERT_EQ(shims_->recover().value(), std::vector{start.key});
  EXPECT_EQ(await(ShimEvent::What::kEnded).results.at(0).exit.code, 7);
}

TEST_F(ShimsTest, ClientGetsOutputAndExit) {
  ShimStart start = step({"sh", "-c", "echo out; echo err >&2; exit 4"});
  start.launch.process.std_out.clear();
  start.launch.to_client = true;
  exit_of(start);  // it ends before anybody listens
  Client client(dir_, start.key);
  ASSERT_TRUE(client.until(IoFrame::kExited));
  EXPECT_EQ(client.last.payload, std::string("\x04\0\0", 3));
  EXPECT_EQ((client.output[{0, 1}]), "out\n");
  EXPECT_EQ((client.output[{0, 2}]), "err\n");
}

TEST_F(ShimsTest, ClientResumesWhereItStopped) {
  ShimStart start = step({"sh", "-c", "printf 0123456789; read x; printf $x"});
  start.launch.process.std_out.clear();
  start.launch.to_client = true;
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  {
    Client client(dir_, start.key);
    ASSERT_TRUE(client.until(IoFrame::kOutput));
    client.send(IoFrame::kOutputAck, 0, number(1, 1) + number(4, 8));
    client.send(IoFrame::kStdin, kAllRanks, number(0, 8) + "ab");
    ASSERT_TRUE(client.until(IoFrame::kStdinAck));
    EXPECT_EQ(client.last.payload, number(2, 8));
  }
  Client client(dir_, start.key, "{\"have\":{\"0\":[4,0]}}");
  client.send(IoFrame::kStdin, 0, number(0, 8) + "abc\n");  // the first two are known
  ASSERT_TRUE(client.until(IoFrame::kExited));
  EXPECT_EQ((client.output[{0, 1}]), "456789abc");
}

TEST_F(ShimsTest, StdinToEveryRankAndItsEnd) {
  ShimStart start = step({"cat"});
  start.launch.ranks = {0, 1};
  start.launch.process.std_out.clear();
  start.launch.to_client = true;
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  Client client(dir_, start.key);
  client.send(IoFrame::kStdin, kAllRanks, number(0, 8) + "text");
  client.send(IoFrame::kStdinEof, kAllRanks, number(4, 8));
  ASSERT_TRUE(client.until(IoFrame::kExited, 2));
  EXPECT_EQ((client.output[{0, 1}]), "text");
  EXPECT_EQ((client.output[{1, 1}]), "text");
}

TEST_F(ShimsTest, MuchOutputWaitsForALateClient) {
  ShimStart start = step({"sh", "-c", "head -c 20000000 /dev/zero"});
  start.launch.process.std_out.clear();
  start.launch.to_client = true;
  EXPECT_EQ(exit_of(start).code, 0);
  Client client(dir_, start.key);
  ASSERT_TRUE(client.until(IoFrame::kExited));
  EXPECT_EQ((client.output[{0, 1}].size()), 20000000u);
}

TEST_F(ShimsTest, TerminalHasItsSizeAndEchoes) {
  ShimStart start = step({"sh", "-c", "stty size; read x; stty size; test -t 0 && test -t 1 && test -t 2 && exit 9"});
  start.launch.process.std_out.clear();
  start.launch.to_client = start.launch.pty = true;
  start.launch.rows = 33;
  start.launch.columns = 101;
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  Client client(dir_, start.key);
  ASSERT_TRUE(client.until(IoFrame::kOutput));
  client.send(IoFrame::kWindowSize, 0, number(40, 2) + number(90, 2));
  client.send(IoFrame::kStdin, 0, number(0, 8) + "go\n");
  ASSERT_TRUE(client.until(IoFrame::kExited));
  EXPECT_EQ(client.last.payload[0], 9);
  EXPECT_EQ((client.output[{0, 1}]), "33 101\r\ngo\r\n40 90\r\n");
}

TEST_F(ShimsTest, ClientSignalsOneRank) {
  ShimStart start = step({"sleep", "1000"});
  start.launch.ranks = {0, 1};
  start.launch.to_client = true;
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  Client client(dir_, start.key);
  client.send(IoFrame::kSignal, 1, number(SIGTERM, 1));
  ASSERT_TRUE(client.until(IoFrame::kExited));
  EXPECT_EQ(client.last.stream, 1u);
  client.send(IoFrame::kSignal, kAllRanks, number(SIGINT, 1));
  const ShimEvent event = await(ShimEvent::What::kEnded);
  EXPECT_EQ(event.results[0].exit.signal, SIGINT);
  EXPECT_EQ(event.results[1].exit.signal, SIGTERM);
}

TEST_F(ShimsTest, NonsenseOnTheSocketHarmsNobody) {
  ShimStart start = step({"sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; exit 5"});
  start.launch.to_client = true;
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\xff\xff\xff\xff\xff\xff"),
                                  std::string("lockstep-shim/1\nstop\nsignal x\nsignal 99\n\nfly 7\n"),
                                  encode_frame(1, kAllRanks, "{\"have\":{\"0\":[1"), encode_frame(2, 0, "x"),
                                  encode_frame(9, 0, "xx"), encode_frame(6, 0, std::string(9, '\x7f'))}) {
    const auto fd = connect_to_shim(dir_, start.key);
    ASSERT_TRUE(fd.ok());
    ASSERT_GT(::send(*fd, text.data(), text.size(), MSG_NOSIGNAL), 0);
    ::close(*fd);
  }
  std::ofstream(dir_ + "/go") << "x";
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.code, 5);
}

TEST_F(ShimsTest, FenceStopsWorkWithoutAnAgent) {
  ShimStart start = step({"sleep", "1000"});
  start.fence_after = millis(400);
  ASSERT_TRUE(write_lease(dir_, Instant{boot_clock_us()}).ok());
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.signal, SIGTERM);
}

// --- what a hostile user tries ---

// Runs the loop for a while; the events that came stay.
#define RUN_FOR(duration)        \
  do {                           \
    bool over = false;           \
    loop_->after(duration, [&] { \
      over = true;               \
      loop_->stop();             \
    });                          \
    while (!over) loop_->run();  \
  } while (false)

TEST_F(ShimsTest, AFifoWithoutAWriterDoesNotHoldUpTheShim) {
  ASSERT_EQ(::mkfifo((dir_ + "/fifo").c_str(), 0666), 0);
  for (const bool input : {true, false}) {
    ShimStart start = step({"cat"}, input ? 0 : 1);
    (input ? start.launch.process.std_in : start.launch.process.std_out) = dir_ + "/fifo";
    start.launch.ranks = {0, 1};
    shims_->start(start);
    await(ShimEvent::What::kStarted);  // it counts as started, so that limits count too
    shims_->stop(start.key, seconds(30));
    const ShimEvent event = await(ShimEvent::What::kEnded);
    ASSERT_EQ(event.results.size(), 2u);
    EXPECT_EQ(event.results[0].exit.signal, SIGTERM);
    EXPECT_EQ(event.results[1].exit.signal, SIGTERM);  // called off
  }
}

TEST_F(ShimsTest, AFifoIsReadOnceSomebodyWrites) {
  ASSERT_EQ(::mkfifo((dir_ + "/fifo").c_str(), 0666), 0);
  ShimStart start = step({"cat"});
  start.launch.process.std_in = dir_ + "/fifo";
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  std::ofstream(dir_ + "/fifo") << "late words";
  EXPECT_TRUE(await(ShimEvent::What::kEnded).results[0].exit.ok());
  EXPECT_EQ(output(), "late words");
}

TEST_F(ShimsTest, APausedStepStartsNothingMore) {
  ASSERT_EQ(::mkfifo((dir_ + "/fifo").c_str(), 0666), 0);
  ShimStart start = step({"sh", "-c", "echo rank $RANK"});
  start.launch.process.task_env = {"RANK=\x01t"};
  start.launch.process.std_in = dir_ + "/fifo";
  start.launch.ranks = {0, 1};
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  shims_->pause(start.key, true, 1);
  EXPECT_EQ(await(ShimEvent::What::kPaused).number, 1u);
  const int fifo = ::open((dir_ + "/fifo").c_str(), O_RDWR | O_CLOEXEC);
  RUN_FOR(millis(50));
  EXPECT_EQ(output(), "");
  shims_->pause(start.key, false, 2);
  await(ShimEvent::What::kEnded);
  const std::string said = output();  // they run beside each other
  EXPECT_TRUE(said == "rank 0\nrank 1\n" || said == "rank 1\nrank 0\n") << said;
  ::close(fifo);
}

TEST_F(ShimsTest, AMonthOfKillWaitIsNotObeyed) {
  shims_->start(step({"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"}));
  await(ShimEvent::What::kStarted);
  while (output().empty()) ::usleep(1000);
  const WorkId key{JobId(7), 1, StepPart{0}};
  EXPECT_LE(bounded_kill_wait(millis(30 * 86'400'000ll)), hours(1));
  shims_->stop(key, seconds(30 * 86'400));  // was not understood at all: it ignored TERM and every later limit
  shims_->stop(key, millis(50));            // an impatient administrator's
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.signal, SIGKILL);
}

TEST_F(ShimsTest, ATaskHasNothingThatTheAgentHadOpen) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const int file = ::open("/etc/passwd", O_RDONLY);
  ASSERT_GE(::dup2(file, 300), 0);
  ShimStart start = script("#!/bin/sh\nls -l /proc/self/fd; ls -l /proc/$PPID/fd | wc -l\n");
  EXPECT_EQ(exit_of(start).code, 0);
  for (const int fd : {ends[0], ends[1], file, 300}) ::close(fd);
  EXPECT_EQ(output().find("socket:"), std::string::npos) << output();
  EXPECT_EQ(output().find("/etc/passwd"), std::string::npos) << output();
  EXPECT_EQ(output().find("300 ->"), std::string::npos) << output();
}

TEST_F(ShimsTest, ATaskHasAKeyringOfItsOwn) {
  if (::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, "lockstep-test") < 0)
    GTEST_SKIP() << "no keyrings here";
  ASSERT_GT(::syscall(SYS_add_key, "user", "lockstep-secret", "x", 1, KEY_SPEC_SESSION_KEYRING), 0);
  ASSERT_NE(text_of_file("/proc/keys").find("lockstep-secret"), std::string::npos);
  EXPECT_EQ(exit_of(step({"cat", "/proc/keys"})).code, 0);  // those it may see
  EXPECT_NE(output().find("_ses"), std::string::npos) << output();
  ShimStart other = step({"cat", "/proc/keys"}, 1);
  other.launch.process.uid = other.launch.process.gid = 12345;
  other.launch.process.work_dir = "/";
  other.launch.process.std_out = dir_ + "/other";
  ::chmod(dir_.c_str(), 0777);
  EXPECT_EQ(exit_of(other).code, 0);
  EXPECT_EQ(text_of_file(dir_ + "/other").find("lockstep-secret"), std::string::npos);
}

// Double forks into new sessions with an empty environment, two hundred times: nothing of it outlives the shim.
TEST_F(ShimsTest, AKilledShimLeavesNobody) {
  constexpr int kRounds = 50, kAtOnce = 4;
  const auto try_number = [](int round, int i) { return round * kAtOnce + i; };
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = format("9{:04}", round);  // of the sleepers: how long they would sleep
    for (int i = 0; i < kAtOnce; ++i)
      shims_->start(
          step({"sh", "-c",
                format("(setsid sh -c '(setsid env -i /bin/sleep {0} & env -i /bin/sleep {0} &) ; exec env -i "
                       "/bin/sleep {0}' &) ; echo made > made{1}; exec sleep {0}",
                       name, try_number(round, i))},
               try_number(round, i)));
    for (int i = 0; i < kAtOnce; ++i) {
      await(ShimEvent::What::kStarted);
      while (text_of_file(dir_ + format("/made{}", try_number(round, i))).empty()) ::usleep(200);
    }
    for (const auto& [pid, facts] : all_processes())
      if (facts.parent == ::getpid() && !facts.zombie)
        ::kill(pid, SIGKILL);
    for (int i = 0; i < kAtOnce; ++i) ASSERT_EQ(await(ShimEvent::What::kEnded).results[0].exit.signal, SIGKILL);
    for (const auto& [pid, facts] : all_processes()) {
      const std::string words = read_proc_text(format("/proc/{}/cmdline", pid));
      ASSERT_EQ(words.find(name), std::string::npos) << "round " << round << ", parent " << facts.parent;
    }
    for (int i = 0; i < kAtOnce; ++i) shims_->forget({JobId(7), 1, StepPart{try_number(round, i)}});
  }
}

TEST_F(ShimsTest, AShimKilledBesideALiveOneLeavesThatAlone) {
  const ShimStart live = step({"sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; exit 5"}, 1);
  shims_->start(live);
  await(ShimEvent::What::kStarted);
  restart_agent();  // the live one is known by its connection only
  ASSERT_EQ(shims_->recover()->size(), 1u);
  const ShimStart start = step({"sh", "-c", "setsid sleep 1000 & echo $$; wait"});
  shims_->start(start);
  while (await(ShimEvent::What::kStarted).key != start.key) {}  // its record names its tasks
  while (output().empty()) RUN_FOR(millis(2));
  const pid_t shim = parent_of(::atoi(output().c_str()));
  ASSERT_GT(shim, 1);
  ::kill(shim, SIGKILL);
  ShimEvent ended = await(ShimEvent::What::kEnded);
  EXPECT_EQ(ended.key, start.key);
  std::ofstream(dir_ + "/go") << "x";
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.code, 5);
}

TEST_F(ShimsTest, OutputThatNobodyReadsWaitsAndIsNotLost) {
  constexpr std::size_t kBytes = 100'000'000;
  ShimStart start = step({"sh", "-c", format("head -c {} /dev/zero", kBytes)});
  start.launch.process.std_out.clear();
  start.launch.to_client = true;
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  RUN_FOR(millis(1500));
  EXPECT_TRUE(events_.empty());  // it ended by now when a gigabyte was kept
  Client client(dir_, start.key);
  std::size_t got = 0;
  while (client.until(IoFrame::kOutput) && got < kBytes) {
    got = client.output[{0, 1}].size();
    client.send(IoFrame::kOutputAck, 0, number(1, 1) + number(got, 8));
    if (got == kBytes)
      break;
  }
  EXPECT_EQ(got, kBytes);
  EXPECT_TRUE(await(ShimEvent::What::kEnded).results[0].exit.ok());
}

TEST_F(ShimsTest, ACrowdOnTheSocketDoesNotShutOutTheAgent) {
  ShimStart start = step({"sleep", "1000"});
  start.launch.to_client = true;
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  std::vector<int> crowd;
  for (int i = 0; i < 200; ++i) {
    const auto fd = connect_to_shim(dir_, start.key);
    if (!fd.ok())
      continue;
    if (i % 2) {
      const std::string attach = encode_frame(static_cast<std::uint8_t>(IoFrame::kAttach), kAllRanks, "{}");
      (void)!::send(*fd, attach.data(), attach.size(), MSG_NOSIGNAL);
    }
    crowd.push_back(*fd);
    ::usleep(500);
  }
  restart_agent();
  ASSERT_EQ(shims_->recover()->size(), 1u);
  await(ShimEvent::What::kStarted);
  shims_->stop(start.key, {});
  EXPECT_EQ(await(ShimEvent::What::kEnded).results[0].exit.signal, SIGKILL);
  for (const int fd : crowd) ::close(fd);
}

TEST_F(ShimsTest, WhatReallyRunsIsFoundWithoutAnyJournal) {
  const ShimStart start = step({"sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; exit 5"});
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  restart_agent();
  auto found = find_shims(dir_);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, start.key);
  EXPECT_TRUE(found[0].known && found[0].launched && found[0].reachable);
  EXPECT_GT(found[0].live, 0);
  EXPECT_GT(found[0].began, Instant{});
  EXPECT_LE(found[0].began, Instant{boot_clock_us()});
  EXPECT_EQ(found[0].start.launch.ranks, start.launch.ranks);
  EXPECT_EQ(found[0].start.launch.process.uid, start.launch.process.uid);
  ASSERT_EQ(shims_->recover()->size(), 1u);
  await(ShimEvent::What::kStarted);
  std::ofstream(dir_ + "/go") << "x";
  await(ShimEvent::What::kEnded);
  found = find_shims(dir_);
  ASSERT_EQ(found.size(), 1u) << "its result has not been taken yet";
  EXPECT_TRUE(found[0].known);
}

TEST_F(ShimsTest, AShimWithoutItsFolderIsFoundAndEnded) {
  const ShimStart start = step({"sh", "-c", "(trap '' TERM HUP; setsid sleep 1000) & echo $!; wait"});
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  while (output().empty()) ::usleep(1000);
  const pid_t inner = ::atoi(output().c_str());
  restart_agent();
  const std::string folder = dir_ + "/shims/" + text_of(start.key);
  for (const char* file : {"/record", "/io.sock", "/slurm_script"}) ::unlink((folder + file).c_str());
  ASSERT_EQ(::rmdir(folder.c_str()), 0);
  const auto found = find_shims(dir_);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, start.key);
  EXPECT_TRUE(found[0].known && found[0].launched) << "the shim holds its record open";
  EXPECT_FALSE(found[0].reachable);
  ASSERT_GT(found[0].live, 0);
  end_unreachable(found[0]);
  EXPECT_TRUE(is_dead(inner));
  EXPECT_TRUE(is_dead(found[0].live));
  EXPECT_TRUE(find_shims(dir_).empty());
}

TEST_F(ShimsTest, WhatAKilledShimWithoutItsFolderLeftIsEnded) {
  const ShimStart start = step({"sh", "-c", "(trap '' TERM HUP; setsid sleep 1000) & echo $!; wait"});
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  while (output().empty()) ::usleep(1000);
  const pid_t inner = ::atoi(output().c_str());
  const auto before = find_shims(dir_);
  ASSERT_EQ(before.size(), 1u);
  shims_.reset();  // the agent is gone
  const std::string folder = dir_ + "/shims/" + text_of(start.key);
  for (const char* file : {"/record", "/io.sock", "/slurm_script"}) ::unlink((folder + file).c_str());
  ASSERT_EQ(::rmdir(folder.c_str()), 0);
  ::kill(before[0].live, SIGKILL);
  while (!is_dead(before[0].live)) ::usleep(1000);
  const auto after = find_shims(dir_);
  EXPECT_TRUE(after.empty()) << "nothing tells of it";
  EXPECT_TRUE(end_orphans(after));
  EXPECT_TRUE(is_dead(inner));
  EXPECT_FALSE(end_orphans(after));
  restart_agent();
}

TEST_F(ShimsTest, AShimTellsWhenItsTasksEnded) {
  const ShimStart start = step({"true"});
  const std::int64_t before = boot_clock_us();
  shims_->start(start);
  await(ShimEvent::What::kStarted);
  const ShimEvent live = await(ShimEvent::What::kEnded);
  EXPECT_GE(live.at.us, before);
  EXPECT_LE(live.at.us, boot_clock_us());
  restart_agent();
  ASSERT_EQ(shims_->recover()->size(), 1u);
  EXPECT_EQ(await(ShimEvent::What::kEnded).at, live.at) << "whoever asks, and however late";
}

}  // namespace
}  // namespace lockstep
