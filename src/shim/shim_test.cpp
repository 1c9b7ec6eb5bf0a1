// A shim in a process of its own, as a nursery leaves it, and this test as its agent and its clients: the turns that it
// takes, what it says to whom, and in which order it acts. What agents do with that is the business of io/shims_test.
#include "shim/shim.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <functional>
#include <iterator>

#include "base/text.h"
#include "ports/lingering_step.h"
#include "shim/process_tree.h"
#include "shim/protocol.h"
#include "wire/frame.h"

namespace lockstep {
namespace {

constexpr int kPatienceMs = 30'000;

std::string text_in(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool becomes(const std::function<bool()>& what) {
  for (int i = 0; i < kPatienceMs / 5; ++i, ::usleep(5'000))
    if (what())
      return true;
  return false;
}

// One end of a connection to the shim.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  Wire(Wire&& other) noexcept : fd_(std::exchange(other.fd_, -1)), read_(std::move(other.read_)) {}
  ~Wire() { hang_up(); }
  void hang_up() {
    if (fd_ >= 0)
      ::close(std::exchange(fd_, -1));
  }
  void say(std::string_view bytes) const {
    ASSERT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void frame(IoFrame type, std::uint64_t stream, const std::string& payload) const {
    say(encode_frame(static_cast<std::uint8_t>(type), stream, payload));
  }
  // The next line; "at …", which is a time, is passed over. "": the other side has hung up.
  std::string line() {
    for (;;) {
      while (read_.find('\n') == std::string::npos)
        if (!more())
          return {};
      const std::string line = read_.substr(0, read_.find('\n'));
      read_.erase(0, line.size() + 1);
      if (line.starts_with("used "))
        used = line.substr(5);
      else if (!line.starts_with("at "))
        return line;
    }
  }
  // The line that tells of the end, behind the one that tells of the start once more.
  std::string end() {
    const std::string first = line();
    return first == "started" ? line() : first;
  }
  // Frames up to one of this type; false: the other side has hung up before. What ranks wrote is kept.
  bool until(IoFrame type) {
    for (;;) {
      while (!frames_.empty()) {
        const Frame frame = std::move(frames_.front());
        frames_.erase(frames_.begin());
        if (frame.type == static_cast<std::uint8_t>(IoFrame::kOutput))
          output += frame.payload.substr(9);
        if (frame.type == static_cast<std::uint8_t>(type))
          return true;
      }
      if (!more())
        return false;
      EXPECT_TRUE(reader_.feed(std::exchange(read_, {}), [this](Frame f) { frames_.push_back(std::move(f)); }).ok());
    }
  }
  bool hung_up() {
    while (more()) read_.clear();
    return true;
  }
  std::string output;
  std::string used;  // what was said of it before the last line

 private:
  bool more() {
    pollfd wait{fd_, POLLIN, 0};
    char chunk[64 << 10];
    const bool ready = ::poll(&wait, 1, kPatienceMs) > 0;
    EXPECT_TRUE(ready) << "nothing comes";
    const ssize_t n = ready ? ::recv(fd_, chunk, sizeof chunk, 0) : 0;
    if (n > 0)
      read_.append(chunk, static_cast<std::size_t>(n));
    return n > 0;
  }
  int fd_;
  std::string read_;
  FrameReader reader_{step_frame_bound};
  std::vector<Frame> frames_;
};

class ShimTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-shim-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    folder_ = dir_ + "/shims/7-1-0";
    ASSERT_EQ(::system(("mkdir -p " + folder_).c_str()), 0);
  }
  void TearDown() override {
    if (pid_ > 0) {
      kill_tasks();
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    EXPECT_EQ(::system(("rm -rf " + dir_).c_str()), 0);
  }

  ShimStart step(const std::string& shell) const {
    ShimStart start;
    start.launch.ranks = {0};
    start.launch.to_client = false;
    start.launch.process.uid = ::geteuid();
    start.launch.process.gid = ::getegid();
    start.launch.process.argv = {"sh", "-c", shell};
    start.launch.process.env = {"PATH=/usr/bin:/bin"};
    start.launch.process.work_dir = dir_;
    start.launch.process.std_out = dir_ + "/out";
    return start;
  }

  // The agent's end of the control channel.
  Wire begin(const std::string& record_bytes) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const int record = ::open((folder_ + "/record").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(::write(record, record_bytes.data(), record_bytes.size()), static_cast<ssize_t>(record_bytes.size()));
    pid_ = ::fork();
    if (pid_ == 0) {
      // Out of the way of the numbers that they get.
      const int high_record = ::fcntl(record, F_DUPFD, 100), high_control = ::fcntl(ends[1], F_DUPFD, 100);
      const bool placed = ::dup2(high_record, kShimRecordFd) >= 0 && ::dup2(high_control, kShimControlFd) >= 0;
      ::setsid();
      settle_shim();
      ::_exit(placed && ::chdir(folder_.c_str()) == 0 ? run_shim({}) : 99);
    }
    ::close(record);
    ::close(ends[1]);
    return Wire(ends[0]);
  }
  Wire begin(const ShimStart& start) { return begin(encode_launch_record(start)); }

  // Another connection, once the shim has made its socket.
  Wire connect() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_ + "/io.sock";
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_TRUE(becomes([&] { return ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0; }));
    return Wire(fd);
  }
  Wire connect_agent() const {
    Wire agent = connect();
    agent.say(kShimHello);
    return agent;
  }

  int exit_code() {
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(pid_, 0), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void kill_tasks() const {
    for (const pid_t pid : descendants_of(pid_)) ::kill(pid, SIGKILL);
  }
  ShimRecords records() const {
    auto found = decode_shim_records(text_in(folder_ + "/record"));
    EXPECT_TRUE(found.ok());
    return found.ok() ? std::move(*found) : ShimRecords{};
  }
  std::string out() const { return text_in(dir_ + "/out"); }
  bool is_written(const std::string& what) const {
    return becomes([&] { return out().find(what) != std::string::npos; });
  }

  std::string dir_, folder_;
  pid_t pid_ = 0;
};

const std::string kHello(kShimHello.substr(0, kShimHello.size() - 1));

// --- a life ---

TEST_F(ShimTest, TellsTheAgentOfItsStartAndItsEndAndGoes) {
  Wire agent = begin(step("until [ -e go ]; do sleep 0.01; done; echo hello; exit 7"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  std::ofstream(dir_ + "/go");  // so that the task lives when the shim writes down its process
  EXPECT_EQ(agent.line(), "started") << "an end says all there is to know";
  EXPECT_EQ(agent.line(), "ended 0:7:0:0");
  EXPECT_EQ(agent.line(), "") << "nothing is left to do";
  EXPECT_EQ(exit_code(), 0);
  EXPECT_EQ(out(), "hello\n");
  const ShimRecords kept = records();
  EXPECT_EQ(kept.pids.size(), 1u);
  EXPECT_GT(kept.ended_us, 0);
  ASSERT_TRUE(kept.results);
  EXPECT_EQ(kept.results->at(0).exit.code, 7);
}

TEST_F(ShimTest, ALaunchThatCannotBeReadIsAFailure) {
  Wire agent = begin("no record");
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_TRUE(agent.line().starts_with("failed "));
  EXPECT_EQ(exit_code(), 1);
  EXPECT_FALSE(records().results);
}

TEST_F(ShimTest, EndsOnlyWhenNothingOfTheStepIsLeft) {
  Wire agent = begin(step("(trap '' TERM HUP; setsid sleep 1000) & echo ready; exit 3"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), "ended 0:3:0:0");
  EXPECT_EQ(exit_code(), 0);
  for (const ShimPid& task : records().pids) EXPECT_EQ(kill_sessions({task}), 0u);
}

TEST_F(ShimTest, WhatALingeringStepLeavesBehindGoesOn) {
  ShimStart start = step("env | grep LINGERS; (trap '' TERM HUP; exec setsid sleep 1000) & echo left; exit 3");
  start.launch.process.env.push_back(format("{}=1", kLingerVariable));
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("left\n"));
  ASSERT_TRUE(becomes([&] { return descendants_of(pid_).size() == 1; })) << "the task has ended, the other has not";
  Wire later = connect_agent();
  EXPECT_EQ(later.line(), kHello);
  EXPECT_EQ(later.line(), "started");
  kill_tasks();
  EXPECT_EQ(later.end(), "ended 0:3:0:0");
  EXPECT_EQ(agent.end(), "ended 0:3:0:0");
  EXPECT_EQ(out(), "left\n") << "it is not told";
}

TEST_F(ShimTest, ALingeringStepEndsWhenItIsToldTo) {
  ShimStart start = step("(trap '' TERM HUP; exec setsid sleep 1000) & echo left");
  start.launch.process.env.push_back(format("{}=1", kLingerVariable));
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("left\n"));
  ASSERT_TRUE(becomes([&] { return descendants_of(pid_).size() == 1; }));
  agent.say("stop 0\n");
  EXPECT_EQ(agent.end(), "ended 0:0:0:0");
}

// It hands on what it is sent to its step, which has a signal to all of the job already.
TEST_F(ShimTest, ASignalToAllOfAScriptIsMarkedForWhatAccompaniesSteps) {
  folder_ = dir_ + "/shims/7-1-batch";
  ASSERT_EQ(::system(("mkdir -p " + folder_).c_str()), 0);
  const std::string told =
      "import os, signal\n"
      "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
      "print('up', flush=True)\n"
      "print(os.path.basename(__file__), signal.sigwaitinfo([signal.SIGUSR1]).si_code, flush=True)\n";
  for (const char* name : {"srun", "other"}) {
    std::ofstream(dir_ + "/" + name) << "#!/usr/bin/python3\n" << told;
    ASSERT_EQ(::chmod((dir_ + "/" + name).c_str(), 0755), 0);
  }
  Wire agent = begin(step("trap '' USR1; ./srun & ./other & wait"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("up\nup\n"));
  agent.say("signal 10\n");
  EXPECT_EQ(agent.end(), "ended 0:0:0:0");
  EXPECT_NE(out().find(format("srun {}\n", SI_QUEUE)), std::string::npos) << out();
  EXPECT_NE(out().find(format("other {}\n", SI_USER)), std::string::npos) << out();
}

TEST_F(ShimTest, EveryRankHasItsOwnEnd) {
  ShimStart start = step("exit \"$CODE\"");
  start.launch.ranks = {4, 9};
  start.launch.env_by_rank = {{"CODE=1"}, {"CODE=2"}};
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), "ended 4:1:0:0 9:2:0:0");
}

TEST_F(ShimTest, TellsWhatItsTasksHaveUsed) {
  ShimStart start = step("i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; (exec setsid true) & exit 0");
  start.launch.ranks = {4, 9};
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), "ended 4:0:0:0 9:0:0:0");
  const auto use = parse_work_use(agent.used);
  ASSERT_TRUE(use) << agent.used;
  EXPECT_EQ(use->tasks, 2u);
  EXPECT_GT((use->user + use->system).us, 2 * use->least_cpu.us - 1);
  EXPECT_GT(use->least_cpu.us, 0);
  EXPECT_GT(use->memory_peak, 0);
  EXPECT_GE(use->memory_sum, use->memory_peak);
  EXPECT_TRUE(use->memory_peak_rank == 4 || use->memory_peak_rank == 9);
  EXPECT_EQ(records().use, *use);
}

TEST_F(ShimTest, TasksEnterTheirGroupsBeforeAnythingElse) {
  ShimStart start = step("cat " + dir_ + "/tasks");
  std::ofstream(dir_ + "/tasks");
  start.enter = {dir_ + "/tasks"};
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), "ended 0:0:0:0");
  EXPECT_EQ(out(), "0");
}

TEST_F(ShimTest, TasksRunOnTheirProcessors) {
  cpu_set_t own;
  ASSERT_EQ(::sched_getaffinity(0, sizeof own, &own), 0);
  std::uint32_t first = 0;
  while (!CPU_ISSET(first, &own)) ++first;
  ShimStart start = step("grep Cpus_allowed_list /proc/self/status");
  start.launch.cores_by_rank.resize(1);
  start.launch.cores_by_rank[0].set(first);
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), "ended 0:0:0:0");
  EXPECT_EQ(out(), format("Cpus_allowed_list:\t{}\n", first));
}

TEST_F(ShimTest, WhatCannotEnterItsGroupDoesNotRun) {
  ShimStart start = step("echo ran");
  start.enter = {dir_ + "/no/such/group/tasks"};
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), "ended 0:1:0:0");
  EXPECT_EQ(out().find("ran"), std::string::npos);
}

TEST_F(ShimTest, WhatTheKernelKillsForMemoryIsOutOfMemory) {
  const std::string events = dir_ + "/memory.events";
  std::ofstream(events) << "max 3\noom_kill 1\n";
  ShimStart start = step("[ $RANK = 9 ] || exit 0; printf 'max 3\noom_kill 2\n' > " + events + "; kill -9 $$");
  start.launch.ranks = {4, 9};
  start.launch.env_by_rank = {{"RANK=4"}, {"RANK=9"}};
  start.oom_file = events;
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), "ended 4:0:0:0 9:0:9:1");
}

TEST_F(ShimTest, AKilledChildMakesATaskThatEndsWellOutOfMemory) {
  const std::string events = dir_ + "/memory.events";
  std::ofstream(events) << "oom_kill 0\n";
  ShimStart start = step("printf 'oom_kill 1\n' > " + events);
  start.oom_file = events;
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), "ended 0:0:0:1");
}

TEST_F(ShimTest, AStartThatFailsIsAnEndOfItsOwnKind) {
  ShimStart start = step("true");
  start.launch.process.std_out = dir_ + "/no/such/folder";
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), format("ended 0:0:{}:2", kNotOpenedSignal));
}

// --- agents come and go ---

TEST_F(ShimTest, AnAgentThatComesLaterHearsHowFarItIs) {
  Wire agent = begin(step("echo ready; exec sleep 1000"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  agent.hang_up();
  Wire next = connect_agent();
  EXPECT_EQ(next.line(), kHello);
  EXPECT_EQ(next.line(), "started");
  next.say("stop 0\n");
  EXPECT_EQ(next.end(), "ended 0:0:9:0");
  EXPECT_EQ(exit_code(), 0);
}

TEST_F(ShimTest, ResultsAreOnDiskWhenNobodyListens) {
  ASSERT_EQ(::mkfifo((dir_ + "/gate").c_str(), 0600), 0);
  Wire agent = begin(step("read line < " + dir_ + "/gate; exit 5"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  agent.hang_up();
  const int gate = ::open((dir_ + "/gate").c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(::write(gate, "go\n", 3), 3);
  ::close(gate);
  EXPECT_EQ(exit_code(), 0);
  ASSERT_TRUE(records().results);
  EXPECT_EQ(records().results->at(0).exit.code, 5);
}

TEST_F(ShimTest, WhileItWaitsForAClientAnAgentHearsTheEnd) {
  ShimStart start = step("echo words; exit 2");
  start.launch.to_client = true;
  start.launch.process.std_out.clear();
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), "ended 0:2:0:0");
  Wire next = connect_agent();
  EXPECT_EQ(next.line(), kHello);
  EXPECT_EQ(next.line(), "started");
  EXPECT_EQ(next.end(), "ended 0:2:0:0");
  // Words that come too late: all of it is over.
  next.say("pause 1\nresume 2\nsignal 9\nstop 0\nforget\n");
  Wire client = connect();
  client.frame(IoFrame::kAttach, kAllRanks, "{}");
  EXPECT_TRUE(client.until(IoFrame::kExited));
  EXPECT_EQ(client.output, "words\n");
  client.frame(IoFrame::kOutputAck, 0, std::string("\1\0\0\0\0\0\0\0\6", 9));
  client.hang_up();
  EXPECT_EQ(next.line(), "") << "no answer to what came too late";
  EXPECT_EQ(exit_code(), 0);
}

TEST_F(ShimTest, OfManyAgentsTheLatestStay) {
  Wire first = begin(step("exec sleep 1000"));
  EXPECT_EQ(first.line(), kHello);
  EXPECT_EQ(first.line(), "started");
  std::deque<Wire> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(connect_agent());
    EXPECT_EQ(others.back().line(), kHello);
    EXPECT_EQ(others.back().line(), "started");
  }
  EXPECT_EQ(first.line(), "") << "four are enough";
  others.back().say("stop 0\n");
  for (Wire& agent : others) EXPECT_EQ(agent.end(), "ended 0:0:9:0");
}

TEST_F(ShimTest, WordsThatMeanNothingChangeNothing) {
  Wire agent = begin(step("exec sleep 1000"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  agent.say(
      "\n fly 1\nsignal\nsignal 65\nsignal x\nsignal-first 99999999999999999999\npause\nstop\nstop x 3\nforget\n");
  agent.say("pau");
  agent.say("se 4\n");
  EXPECT_EQ(agent.line(), "paused 4") << "a line may come in pieces";
  agent.say("stop 0 99\n");
  EXPECT_EQ(agent.end(), "ended 0:0:9:0") << "a reason that nobody knows is none";
}

TEST_F(ShimTest, ALineWithoutEndEndsTheAgentThatSaysIt) {
  Wire agent = begin(step("exec sleep 1000"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  Wire endless = connect_agent();
  EXPECT_EQ(endless.line(), kHello);
  EXPECT_EQ(endless.line(), "started");
  const std::string words(32 << 10, 'x');
  endless.say(words);
  endless.say(words);
  endless.say(words);
  EXPECT_TRUE(endless.hung_up());
  agent.say("stop 0\n");
  EXPECT_EQ(agent.end(), "ended 0:0:9:0");
}

// --- signals in their order ---

// A shell that tells of each signal it gets, and ends at TERM.
constexpr const char* kTeller =
    "trap 'echo cont' CONT; trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; sleep 1000 & echo ready; "
    "while :; do wait; done";

TEST_F(ShimTest, StopIsTermAndThenKill) {
  Wire agent = begin(step("trap '' TERM; echo ready; while :; do sleep 1000; done"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("ready"));
  agent.say("stop 20\n");
  EXPECT_EQ(agent.end(), "ended 0:0:9:0");
}

TEST_F(ShimTest, WhoWatchesItsStopFileReadsWhenAndWhy) {
  Wire agent =
      begin(step("echo ready; trap '' TERM; while ! [ -e \"$LOCKSTEP_STOP_FILE\" ]; do sleep 0.01; done; cat "
                 "\"$LOCKSTEP_STOP_FILE\"; date +%s"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("ready"));
  agent.say("stop 60000 2\n");
  EXPECT_EQ(agent.end(), "ended 0:0:0:0");
  // The shim's own word of the end is written by another process: it may stand before or behind.
  auto lines = split(out(), '\n');
  EXPECT_EQ(std::erase_if(lines, [](const std::string& line) { return line.starts_with("slurmstepd: "); }), 1u)
      << out();
  ASSERT_GE(lines.size(), 4u) << out();
  ASSERT_TRUE(lines[1].starts_with("LOCKSTEP_STOP_AT=")) << out();
  EXPECT_EQ(lines[2], "LOCKSTEP_STOP_REASON=time_limit");
  const auto at = parse_int(lines[1].substr(17)), now = parse_int(lines[3]);
  ASSERT_TRUE(at && now);
  EXPECT_GE(*at, *now + 50);
  EXPECT_LE(*at, *now + 61);
}

TEST_F(ShimTest, TermIsAChanceToEndOneself) {
  Wire agent = begin(step(kTeller));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("ready"));
  agent.say("stop 60000\n");
  EXPECT_EQ(agent.end(), "ended 0:5:0:0");
}

TEST_F(ShimTest, ASecondStopMayOnlyShortenTheFirst) {
  Wire agent = begin(step("trap '' TERM; echo ready; while :; do sleep 1000; done"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("ready"));
  agent.say("stop 3600000\nstop 0\nstop 3600000\n");
  EXPECT_EQ(agent.end(), "ended 0:0:9:0");
}

TEST_F(ShimTest, WhatIsPausedIsWokenToEndWhereItHasTime) {
  Wire agent = begin(step(kTeller));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("ready"));
  agent.say("pause 1\n");
  EXPECT_EQ(agent.line(), "paused 1");
  agent.say("stop 60000\n");
  EXPECT_EQ(agent.end(), "ended 0:5:0:0");
  EXPECT_NE(out().find("term"), std::string::npos);
}

TEST_F(ShimTest, WhatIsPausedAndHasNoTimeEndsWhereItIs) {
  Wire agent = begin(step(kTeller));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("ready"));
  agent.say("pause 1\n");
  EXPECT_EQ(agent.line(), "paused 1");
  agent.say("stop 0 1\n");
  EXPECT_EQ(agent.end(), "ended 0:0:9:0");
  EXPECT_EQ(out().find("cont"), std::string::npos);
  EXPECT_EQ(out().find("term"), std::string::npos);
}

TEST_F(ShimTest, NobodyWakesWhatIsPausedBeforeItMayGoOn) {
  Wire agent = begin(step(kTeller));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("ready"));
  agent.say("pause 1\n");
  EXPECT_EQ(agent.line(), "paused 1");
  // USR1 waits for it; CONT would let it run.
  agent.say(format("signal {}\nsignal-first {}\nsignal {}\npause 2\n", SIGCONT, SIGCONT, SIGUSR1));
  EXPECT_EQ(agent.line(), "paused 2");
  EXPECT_EQ(out(), "ready\n");
  agent.say("resume 3\n");
  EXPECT_EQ(agent.line(), "resumed 3");
  EXPECT_TRUE(is_written("usr1"));
  agent.say("stop 60000\n");
  EXPECT_EQ(agent.end(), "ended 0:5:0:0");
}

TEST_F(ShimTest, AnAgentThatComesInAPauseAsksForItAgain) {
  Wire agent = begin(step(kTeller));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("ready"));
  agent.say("pause 1\n");
  EXPECT_EQ(agent.line(), "paused 1");
  agent.hang_up();
  Wire next = connect_agent();
  EXPECT_EQ(next.line(), kHello);
  EXPECT_EQ(next.line(), "started");
  next.say("pause 1\n");
  EXPECT_EQ(next.line(), "paused 1");
  next.say("resume 2\n");
  EXPECT_EQ(next.line(), "resumed 2");
  EXPECT_TRUE(is_written("cont"));
}

// The first of two tasks waits for its input, and the second for the first.
TEST_F(ShimTest, ASignalForATaskThatHasNotBegunWaitsForIt) {
  ASSERT_EQ(::mkfifo((dir_ + "/in-4").c_str(), 0600), 0);
  std::ofstream(dir_ + "/in-9");
  ShimStart start = step("[ $RANK = 4 ] || exec sleep 1000");
  start.launch.ranks = {4, 9};
  start.launch.env_by_rank = {{"RANK=4"}, {"RANK=9"}};
  start.launch.process.std_in = dir_ + "/in-\1t";
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  Wire client = connect();
  client.frame(IoFrame::kAttach, kAllRanks, "{}");
  client.frame(IoFrame::kSignal, 9, std::string(1, SIGUSR1));
  client.frame(IoFrame::kSignal, 9, "");  // it is dropped for that, so what stands before has been read
  EXPECT_TRUE(client.hung_up());
  ::close(::open((dir_ + "/in-4").c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), format("ended 4:0:0:0 9:0:{}:0", SIGUSR1));
}

TEST_F(ShimTest, ASignalForAllReachesThoseWhoHaveNotBegunToo) {
  ASSERT_EQ(::mkfifo((dir_ + "/in-4").c_str(), 0600), 0);
  std::ofstream(dir_ + "/in-9");
  ShimStart start = step("exec sleep 1000");
  start.launch.ranks = {4, 9};
  start.launch.process.std_in = dir_ + "/in-\1t";
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  ASSERT_TRUE(becomes([&] { return descendants_of(pid_).size() == 1; }));
  agent.say(format("signal {}\n", SIGUSR1));
  EXPECT_EQ(agent.line(), "started");
  EXPECT_EQ(agent.end(), format("ended 4:0:{0}:0 9:0:{0}:0", SIGUSR1));
}

TEST_F(ShimTest, ASignalForTheFirstReachesTheShellAlone) {
  Wire agent =
      begin(step("sh -c \"trap 'echo child' USR1; echo in; while :; do sleep 0.01; done\" & "
                 "trap 'echo shell' USR1; echo ready; while :; do wait; done"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("ready"));
  ASSERT_TRUE(is_written("in\n"));
  agent.say(format("signal-first {}\n", SIGUSR1));
  EXPECT_TRUE(is_written("shell"));
  EXPECT_EQ(out().find("child"), std::string::npos);
  agent.say(format("signal {}\n", SIGUSR1));
  EXPECT_TRUE(is_written("child"));
}

// As a service manager ends it with everything else of its service.
TEST_F(ShimTest, ATermOfItsOwnStopsTheStep) {
  Wire agent = begin(step(kTeller));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  ASSERT_TRUE(is_written("ready"));
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) ::kill(pid_, signal);
  EXPECT_EQ(agent.end(), "ended 0:5:0:0");
}

TEST_F(ShimTest, ItsOwnFenceStopsWhatNobodyRenews) {
  ShimStart start = step(kTeller);
  start.fence_after = millis(1);
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  EXPECT_TRUE(agent.end().starts_with("ended 0:"));
}

// --- clients, and what they may cost ---

TEST_F(ShimTest, MoreClientsThanItServesAreTurnedAway) {
  ShimStart start = step("echo words; exec sleep 1000");
  start.launch.to_client = true;
  start.launch.process.std_out.clear();
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  std::deque<Wire> clients;
  for (int i = 0; i < 32; ++i) {
    clients.push_back(connect());
    clients.back().frame(IoFrame::kAttach, kAllRanks, "{}");
    ASSERT_TRUE(clients.back().until(IoFrame::kStarted)) << i;
  }
  Wire late = connect();
  late.frame(IoFrame::kAttach, kAllRanks, "{}");
  EXPECT_FALSE(late.until(IoFrame::kStarted));
  agent.say("stop 0\n");
  EXPECT_EQ(agent.end(), "ended 0:0:9:0") << "the agent is none of them";
  for (Wire& client : clients) {
    EXPECT_TRUE(client.until(IoFrame::kExited));
    EXPECT_EQ(client.output, "words\n");
  }
}

// Those go first who have not said what they are: there is always a place for the agent.
TEST_F(ShimTest, ACrowdThatSaysNothingGivesWay) {
  Wire agent = begin(step("exec sleep 1000"));
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  std::deque<Wire> crowd;
  for (int i = 0; i < 80; ++i) crowd.push_back(connect());
  Wire next = connect_agent();
  EXPECT_EQ(next.line(), kHello);
  EXPECT_EQ(next.line(), "started");
  EXPECT_TRUE(crowd.front().hung_up());
  agent.say("stop 0\n");
  EXPECT_EQ(agent.end(), "ended 0:0:9:0");
}

TEST_F(ShimTest, AClientThatLiesIsDroppedAndTheStepGoesOn) {
  ShimStart start = step("echo words; exec sleep 1000");
  start.launch.to_client = true;
  start.launch.process.std_out.clear();
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  EXPECT_EQ(agent.line(), "started");
  for (const auto& [type, payload] :
       {std::pair{IoFrame::kAttach, std::string("{\"have\":{\"0\":[99,0]}}")},
        std::pair{IoFrame::kSignal, std::string("\x7f")}, std::pair{IoFrame::kSignal, std::string()},
        std::pair{IoFrame::kStdin, std::string("x")}, std::pair{IoFrame::kOutputAck, std::string(9, '\1')}}) {
    Wire liar = connect();
    liar.frame(type, kAllRanks, payload);
    EXPECT_TRUE(liar.hung_up());
  }
  Wire honest = connect();
  honest.frame(IoFrame::kAttach, kAllRanks, "{}");
  EXPECT_TRUE(honest.until(IoFrame::kOutput));
  EXPECT_EQ(honest.output, "words\n");
  agent.say("stop 0\n");
  EXPECT_EQ(agent.end(), "ended 0:0:9:0");
}

// One who asks and does not read costs a bound of memory, not the others' output.
TEST_F(ShimTest, OneSlowClientDoesNotHoldUpTheOther) {
  constexpr std::size_t kBytes = 3 << 20;
  ShimStart start = step(format("head -c {} /dev/zero", kBytes));
  start.launch.to_client = true;
  start.launch.process.std_out.clear();
  Wire agent = begin(start);
  EXPECT_EQ(agent.line(), kHello);
  Wire slow = connect(), quick = connect();
  slow.frame(IoFrame::kAttach, kAllRanks, "{}");
  quick.frame(IoFrame::kAttach, kAllRanks, "{}");
  EXPECT_TRUE(quick.until(IoFrame::kExited));
  EXPECT_EQ(quick.output.size(), kBytes);
  EXPECT_TRUE(slow.until(IoFrame::kExited));
  EXPECT_EQ(slow.output.size(), kBytes);
}

}  // namespace
}  // namespace lockstep
