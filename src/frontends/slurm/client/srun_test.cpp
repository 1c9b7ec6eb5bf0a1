// srun and salloc whole, against a cluster that plays its part from a script: submission, grant, step I/O, end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "base/text.h"
#include "frontends/slurm/client/context.h"
#include "frontends/slurm/client/step_output.h"
#include "frontends/slurm/client/unsent_signals.h"
#include "model/job.h"
#include "pmi/message.h"
#include "wire/api.h"
#include "wire/pmi_frame.h"
#include "wire/whole_answers.h"

namespace lockstep::slurm {
namespace {

std::string output(std::uint64_t rank, int fd, std::uint64_t offset, std::string_view bytes) {
  return encode_frame(static_cast<std::uint8_t>(IoFrame::kOutput), rank,
                      frame_number(static_cast<std::uint64_t>(fd), 1) + frame_number(offset, 8) + std::string(bytes));
}
std::string exited(std::uint64_t rank, unsigned char code, unsigned char signal = 0) {
  return encode_frame(static_cast<std::uint8_t>(IoFrame::kExited), rank,
                      frame_number(code, 1) + frame_number(signal, 1) + frame_number(0, 1));
}

// Two tasks on node n1 (id 1). Called from several threads: srun watches its job on a connection of its own, until the
// process ends; so a world is never destroyed.
struct World {
  std::mutex mutex;
  std::vector<std::string> asked;
  std::vector<std::string> streams;  // what each connection to the step's I/O says before it closes
  std::size_t streams_used = 0;
  std::vector<int> ends;           // our ends of those connections
  bool streams_stay = false;       // and are silent then
  std::size_t streams_broken = 0;  // so many of them take nothing, and break at once
  bool waits = false;              // the job is pending, and SIGTERM comes to ourselves as it is waited for
  int cancels_lost =
      0;            // so many times the controller is away when the job is cancelled; -1: for good, and SIGTERM comes
  int cancels = 0;  // that arrived
  std::vector<int> signals_on_attach;  // to ourselves, once
  std::string signal_on_ask;           // SIGTERM to ourselves over this question
  bool end_hangs = false;
  std::size_t streams_most = SIZE_MAX, streams_refused = 0;  // beyond so many connections the controller is away
  EndJob ended;
  bool no_room = false;  // for a step
  int ends_lost = 0;     // so many times the controller is away when the end is told
  SubmitRequest submitted;
  StepRequest step_request;
  JobState state = JobState::kRunning;
  StepState step_state = StepState::kRunning;
  bool has_places = true;
  ExitStatus recorded;
  ClientContext context{[this] { return std::unique_ptr<ApiClient>(new Client(*this)); }};

  Ref<Job> job() const {
    auto out = std::make_shared<Job>();
    auto spec = std::make_shared<JobSpec>();
    spec->groups.emplace_back();
    spec->name = "named";
    out->id = JobId(12);
    out->spec = spec;
    out->state = state;
    return out;
  }
  Ref<Step> step() const {
    auto out = std::make_shared<Step>();
    auto spec = std::make_shared<StepSpec>(submitted.first_step ? *submitted.first_step : step_request.spec);
    if (spec->argv.empty())
      spec->argv = {"x"};
    out->job = JobId(12);
    out->number = 0;
    out->spec = spec;
    out->state = step_state;
    if (has_places) {
      out->places.push_back({NodeId(1), 0, {0, 1}, {}, {}, {}, 0});
      out->members = {MemberState::kRunning};
    }
    if (!recorded.ok())
      out->failures.emplace_back(0, recorded);
    out->exit = recorded;
    return out;
  }

  Result<ApiClient::Reply> cancel() {
    if (cancels_lost == -1)
      ::kill(::getpid(), SIGTERM);
    if (cancels_lost != 0) {
      --cancels_lost;
      return Error{Errc::kUnavailable, "the connection broke", {}};
    }
    ++cancels;
    return ApiClient::Reply{200, "application/json", "{}"};
  }

  struct Client final : ApiClient {
    explicit Client(World& w) : world(w) {}
    Result<Reply> call(std::string_view method, std::string_view target, std::string_view body, Duration) override {
      if (target.starts_with("/v1/jobs/12/wait?for=ended"))
        for (;;) ::pause();  // the job does not end by itself
      if (world.waits && target.starts_with("/v1/jobs/12/wait?for=allocated")) {
        ::kill(::getpid(), SIGTERM);
        for (;;) ::pause();
      }
      const std::lock_guard lock(world.mutex);
      world.asked.push_back(format("{} {}", method, target));
      if (world.streams_refused > 0 && target == "/v1/steps/12.0")
        return Error{Errc::kUnavailable, "the controller is away", {}};
      if (!world.signal_on_ask.empty() && target.substr(0, target.find('?')) == world.signal_on_ask)
        ::kill(::getpid(), SIGTERM);
      if (target == "/v1/jobs/12/cancel")
        return world.cancel();
      const auto good = [](std::string text) { return Reply{200, "application/json", std::move(text)}; };
      if (target.starts_with("/v1/jobs?request=")) {
        world.submitted = *decode_submit(body);
        return good(encode_submitted(JobId(12)));
      }
      if (target.starts_with("/v1/jobs/12/wait?for=allocated"))
        return good(encode(JobDetail{world.job(), {world.step()}, {}, {}}));
      if (target.starts_with("/v1/jobs/12/steps") && world.no_room)
        return Reply{503, "application/json",
                     encode_error({Errc::kUnavailable, "Requested nodes are busy: job 12", "immediate"})};
      if (target.starts_with("/v1/jobs/12/steps")) {
        world.step_request = *decode_step_request(body);
        return good(encode(Started{world.job(), world.step()}));
      }
      while (target == "/v1/jobs/12/end" && world.end_hangs) ::pause();
      if (target == "/v1/jobs/12/end") {
        if (world.ends_lost-- > 0)
          return Error{Errc::kUnavailable, "the connection broke", {}};
        world.ended = *decode_end(body);
        return good("{}");
      }
      if (target == "/v1/steps/12.0")
        return good(encode_whole(Record(world.step())));
      if (target == "/v1/nodes") {
        auto node = std::make_shared<Node>();
        node->id = NodeId(1);
        node->meta.name = "n1";
        return good(encode_records(Kind::kNode, std::vector<Record>{Ref<Node>(node)}));
      }
      if (target == "/slurm/v1/environment?job=12")
        return good(std::string("SLURM_NNODES=2\0", 15));
      return Reply{404, "application/json", encode_error(not_found(std::string(target)))};
    }
    Result<int> upgrade(std::string_view target, std::string_view protocol, std::string_view) override {
      const std::lock_guard lock(world.mutex);
      EXPECT_EQ(target, "/v1/steps/12.0/io");
      EXPECT_EQ(protocol, "lockstep-stepio/1");
      if (world.streams_used >= world.streams_most) {
        ++world.streams_refused;
        return Error{Errc::kUnavailable, "the controller is away", {}};
      }
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return Error{Errc::kIo, "socketpair", {}};
      const std::size_t at = std::min(world.streams_used++, world.streams.size() - 1);
      if (at < world.streams_broken) {
        ::close(pair[1]);
        for (const int signal : std::exchange(world.signals_on_attach, {})) ::kill(::getpid(), signal);
        return pair[0];
      }
      (void)!::write(pair[1], world.streams[at].data(), world.streams[at].size());
      if (!world.streams_stay)
        ::shutdown(pair[1], SHUT_WR);
      for (const int signal : std::exchange(world.signals_on_attach, {})) ::kill(::getpid(), signal);
      world.ends.push_back(pair[1]);
      return pair[0];
    }
    World& world;
  };
};

struct Ended {
  int code = 0;
  std::string out, err;
};

Ended run(int (*command)(const ClientContext&, int, char**), World& world, std::vector<std::string> words) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ended result;
  result.code = command(world.context, static_cast<int>(words.size()), argv.data());
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

TEST(Srun, MakesItsOwnAllocationAndEndsIt) {
  static World& world = *new World;
  world.streams = {output(0, 1, 0, "zero\n") + output(1, 1, 0, "one\n") + exited(0, 0) + exited(1, 0)};
  const auto result = run(srun_main, world, {"srun", "-n2", "-l", "-i", "none", "hostname", "-s"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "0: zero\n1: one\n");
  ASSERT_TRUE(world.submitted.first_step);
  EXPECT_EQ(world.submitted.first_step->argv, (std::vector<std::string>{"hostname", "-s"}));
  EXPECT_TRUE(world.submitted.spec.interactive);
  EXPECT_EQ(world.submitted.spec.name, "hostname");
  EXPECT_EQ(world.submitted.spec.groups[0].launch, Launch::kNothing);
  EXPECT_EQ(world.asked.back(), "POST /v1/jobs/12/end");
}

TEST(Srun, ReturnsTheHighestCodeAndNamesTheFailedTasks) {
  static World& world = *new World;
  world.streams = {exited(0, 3) + exited(1, 4)};
  const auto result = run(srun_main, world, {"srun", "-n2", "-i", "none", "x"});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.err,
            "srun: error: n1: task 0: Exited with exit code 3\nsrun: error: n1: task 1: Exited with exit code 4\n");
  EXPECT_EQ(world.ended.exit.code, 4);
}

TEST(Srun, AKilledTaskIs128PlusItsSignal) {
  static World& world = *new World;
  world.streams = {exited(0, 0, 9) + exited(1, 0, 9)};
  const auto result = run(srun_main, world, {"srun", "-n2", "-i", "none", "x"});
  EXPECT_EQ(result.code, 137);
  EXPECT_EQ(result.err, "srun: error: n1: tasks 0-1: Killed\n");
}

TEST(Srun, ALostConnectionIsMadeAgainWithoutLossOrRepeat) {
  static World& world = *new World;
  world.streams = {output(0, 1, 0, "first half, "),
                   output(0, 1, 0, "first half, second half\n") + exited(0, 0) + exited(1, 0)};
  const auto result = run(srun_main, world, {"srun", "-n2", "-u", "-i", "none", "x"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "first half, second half\n");
  EXPECT_EQ(world.streams_used, 2u);
}

TEST(Srun, AStepThatHasEndedAndIsForgottenIsNoNodeFailure) {
  static World& world = *new World;
  world.step_state = StepState::kEnded;
  world.recorded = {6, 0, false};
  world.streams = {encode_frame(static_cast<std::uint8_t>(IoFrame::kNodeGone), 0, "n1")};
  const auto result = run(srun_main, world, {"srun", "-n2", "-i", "none", "x"});
  EXPECT_EQ(result.code, 6);
  EXPECT_EQ(result.err, "srun: error: n1: task 0: Exited with exit code 6\n");
}

TEST(Srun, InsideAnAllocationItMakesAStep) {
  static World& world = *new World;
  world.streams = {exited(0, 0) + exited(1, 0)};
  const auto result = run(srun_main, world, {"srun", "--jobid=12", "--overlap", "-n2", "-i", "none", "nvidia-smi"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(world.asked.front().starts_with("POST /v1/jobs/12/steps?wait=started&presence=1&request="))
      << world.asked.front();
  EXPECT_TRUE(world.step_request.spec.overlap);
  EXPECT_EQ(world.step_request.spec.name, "nvidia-smi");
  for (const auto& asked : world.asked) EXPECT_NE(asked, "POST /v1/jobs/12/end");
}

TEST(Srun, WhatCannotBeWrittenIsSaidAndIsAFailure) {
  static World& world = *new World;
  world.streams = {output(0, 1, 0, "zero\n") + output(1, 1, 0, "one\n") + exited(0, 0) + exited(1, 0)};
  auto result = run(srun_main, world, {"srun", "-n2", "-o", "/dev/full", "-i", "none", "x"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "srun: error: /dev/full could not be written: No space left on device. What else the tasks of StepId=12.0 "
            "write there is lost\n");
  EXPECT_EQ(world.ended.exit.code, 0) << "the step itself was good";
  world.streams_used = 0;
  world.streams = {output(0, 1, 0, "zero\n") + exited(0, 7) + exited(1, 0)};
  result = run(srun_main, world, {"srun", "-n2", "-o", "/dev/full", "-i", "none", "x"});
  EXPECT_EQ(result.code, 7) << result.err;
}

TEST(Srun, AFileThatCannotBeOpenedStopsItBeforeAnythingIsAsked) {
  static World& world = *new World;
  world.streams = {exited(0, 0) + exited(1, 0)};
  for (const char* where : {"-o", "-e"}) {
    const auto result = run(srun_main, world, {"srun", "-n2", where, "/no/such/dir/out", "x"});
    EXPECT_EQ(result.code, 1);
    EXPECT_NE(result.err.find("Could not open stdout file /no/such/dir/out"), std::string::npos) << result.err;
  }
  EXPECT_EQ(run(srun_main, world, {"srun", "--jobid=12", "-n2", "-o", "/no/such/dir/out", "x"}).code, 1);
  EXPECT_EQ(run(srun_main, world, {"srun", "--jobid=12", "-n2", "-o", "/no/such/dir/out-%J", "x"}).code, 1);
  EXPECT_TRUE(world.asked.empty()) << world.asked.front();
}

TEST(Srun, AFileNamedAfterTheJobIsOpenedBeforeTheStepIsMade) {
  static World& world = *new World;
  world.streams = {output(0, 1, 0, "zero\n") + exited(0, 0) + exited(1, 0)};
  char folder[] = "/tmp/srun-test-XXXXXX";
  ASSERT_TRUE(::mkdtemp(folder));
  const std::string name = std::string(folder) + "/out-%j.%s";
  auto result = run(srun_main, world, {"srun", "-n2", "-o", name, "-i", "none", "x"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(world.submitted.first_step);
  EXPECT_EQ(world.step_request.spec.argv, std::vector<std::string>{"x"});
  EXPECT_TRUE(world.step_request.spec.sole) << "the job ends as this step does, whoever tells";
  EXPECT_EQ(::unlink((std::string(folder) + "/out-12.0").c_str()), 0);
  world.asked.clear();
  result = run(srun_main, world, {"srun", "-n2", "-o", std::string(folder) + "/no/%j", "-i", "none", "x"});
  EXPECT_EQ(result.code, 1);
  for (const auto& asked : world.asked) EXPECT_EQ(asked.find("/steps"), std::string::npos) << asked;
  EXPECT_EQ(world.asked.back(), "POST /v1/jobs/12/end");
  EXPECT_EQ(world.ended.exit.code, 1);
  ::rmdir(folder);
}

TEST(Srun, APipeNobodyReadsKeepsNeitherStepNorAllocation) {
  static World& world = *new World;
  world.streams = {output(0, 1, 0, "zero\n") + exited(0, 0) + exited(1, 0)};
  char folder[] = "/tmp/srun-test-XXXXXX";
  ASSERT_TRUE(::mkdtemp(folder));
  const std::string pipe = std::string(folder) + "/p";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // Reads once the allocation has been given back, which must not wait for that.
  std::thread late([&] {
    for (;;) {
      {
        const std::lock_guard lock(world.mutex);
        if (!world.asked.empty() && world.asked.back() == "POST /v1/jobs/12/end")
          break;
      }
      ::usleep(1000);
    }
    const int fd = ::open(pipe.c_str(), O_RDONLY);
    char text[16];
    const ssize_t n = ::read(fd, text, sizeof text);
    EXPECT_EQ(std::string(text, static_cast<std::size_t>(std::max<ssize_t>(n, 0))), "zero\n");
    ::close(fd);
  });
  const auto result = run(srun_main, world, {"srun", "-n2", "-o", pipe, "-i", "none", "x"});
  late.join();
  EXPECT_EQ(result.code, 0) << result.err;
  ::unlink(pipe.c_str());
  ::rmdir(folder);
}

TEST(Srun, ANodeThatDoesNotAnswerKeepsNobodyWhoWantsTheEnd) {
  for (const int signal : {SIGTERM, SIGQUIT, SIGHUP}) {
    World& world = *new World;
    world.context.end_patience = millis(500);
    world.streams_stay = true;
    world.streams = {encode_frame(static_cast<std::uint8_t>(IoFrame::kStarted), 0, "1234"), exited(1, 0)};
    world.signals_on_attach = {signal};
    const auto result = run(srun_main, world, {"srun", "-n2", "-i", "none", "x"});
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_NE(result.err.find("no answer of task 0"), std::string::npos) << result.err;
    EXPECT_EQ(world.streams_used, 2u) << "it is asked once more, on a new connection";
    EXPECT_EQ(world.asked.back(), "POST /v1/jobs/12/end");
    EXPECT_TRUE(std::find(world.asked.begin(), world.asked.end(), "POST /v1/steps/12.0/signal") != world.asked.end());
  }
}

TEST(Srun, AConnectionThatWorksIsKeptWhileTheControllerIsAway) {
  World& world = *new World;
  world.context.end_patience = millis(100);
  world.streams_stay = true;
  world.streams_most = 1;
  world.streams = {encode_frame(static_cast<std::uint8_t>(IoFrame::kStarted), 0, "1234")};
  world.signals_on_attach = {SIGTERM};
  ::sigset_t term, before;  // the signal is srun's, not that of the thread that plays the tasks
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, &before);
  std::thread tasks([&] {  // say nothing until another connection was tried, and again
    for (int fd = -1; fd < 0;) {
      ::usleep(1000);
      const std::lock_guard lock(world.mutex);
      if (world.streams_refused < 2)
        continue;
      fd = world.ends.front();
      const std::string words = output(0, 1, 0, "saved\n") + exited(0, 0) + exited(1, 0);
      (void)!::send(fd, words.data(), words.size(), MSG_NOSIGNAL);
    }
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const auto result = run(srun_main, world, {"srun", "-n2", "-i", "none", "x"});
  tasks.join();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "saved\n");
  EXPECT_EQ(result.err.find("no answer"), std::string::npos) << result.err;
}

TEST(Srun, AnEndThatNobodyHeardOfIsNoSuccess) {
  World& world = *new World;
  world.context.end_patience = millis(100);
  world.streams_stay = true;
  world.streams = {exited(1, 0)};
  world.signals_on_attach = {SIGTERM};
  EXPECT_EQ(run(srun_main, world, {"srun", "-n2", "-i", "none", "x"}).code, 1);
  EXPECT_EQ(world.ended.exit, (ExitStatus{1, 0, false}));
}

TEST(Srun, ASignalThatComesAsAllIsOverLeavesTheClusterToldOfIt) {
  static World& world = *new World;
  world.streams = {exited(0, 3) + exited(1, 0)};
  world.signal_on_ask = "/v1/nodes";  // to say where the failed task was
  std::vector<std::string> words{"srun", "-n2", "-i", "none", "x"};
  std::vector<char*> argv{words[0].data(), words[1].data(), words[2].data(), words[3].data(), words[4].data(), nullptr};
  EXPECT_EXIT(
      {
        const int code = srun_main(world.context, 5, argv.data());
        ::_exit(world.asked.back() == "POST /v1/jobs/12/end" ? code : 99);
      },
      testing::ExitedWithCode(3), "");
  world.signal_on_ask = "/v1/jobs/12/end";
  world.end_hangs = true;
  EXPECT_EXIT(srun_main(world.context, 5, argv.data()), testing::KilledBySignal(SIGTERM),
              "ended before the cluster knew of the step's end");
}

// What the tasks hear: the first signal that comes over a connection; 0: none.
int first_signal(int fd) {
  int heard = 0;
  FrameReader reader;
  char chunk[4096];
  for (::pollfd wait{fd, POLLIN, 0}; heard == 0 && ::poll(&wait, 1, 20'000) > 0;) {
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n <= 0)
      break;
    (void)reader.feed({chunk, static_cast<std::size_t>(n)}, [&](const Frame& frame) {
      if (frame.type == static_cast<std::uint8_t>(IoFrame::kSignal))
        heard = static_cast<int>(*read_frame_number(frame.payload, 0, 1));
    });
  }
  return heard;
}

TEST(Srun, ASignalThatFindsNoConnectionIsDeliveredOverTheNext) {
  for (const std::size_t broken : {0u, 1u, 2u})  // with 0 it comes before the first connection is there
    for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
      World& world = *new World;
      world.streams_stay = true;
      world.streams_broken = broken;
      world.streams = {"", "", ""};
      world.signals_on_attach = {signal};
      int heard = 0;
      ::sigset_t one, before;  // the signal is srun's, not that of the thread that plays the tasks
      ::sigemptyset(&one);
      ::sigaddset(&one, signal);
      ::pthread_sigmask(SIG_BLOCK, &one, &before);
      std::thread tasks([&] {
        int fd = -1;
        while (fd < 0) {
          ::usleep(1000);
          const std::lock_guard lock(world.mutex);
          if (!world.ends.empty())
            fd = world.ends.front();
        }
        heard = first_signal(fd);
        const std::string words = exited(0, 0) + exited(1, 0);
        (void)!::write(fd, words.data(), words.size());
      });
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      const auto result = run(srun_main, world, {"srun", "--jobid=12", "-n2", "-i", "none", "x"});
      tasks.join();
      EXPECT_EQ(heard, signal) << broken << " " << result.err;
      EXPECT_EQ(result.code, 0) << result.err;
    }
}

// Looks without taking: the bytes stay unread.
void wait_for_unread(int fd, const std::string& frame) {
  std::string seen;
  while (seen.find(frame) == std::string::npos) {
    ::usleep(1000);
    seen.resize(4096);
    seen.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::recv(fd, seen.data(), seen.size(), MSG_PEEK))));
  }
}

TEST(Srun, ASignalThatADyingControllerDidNotReadIsSentAgain) {
  World& world = *new World;
  world.streams_stay = true;
  world.streams = {encode_frame(static_cast<std::uint8_t>(IoFrame::kStarted), 0, "1234"), ""};
  world.signals_on_attach = {SIGUSR1};
  const std::string frame =
      encode_frame(static_cast<std::uint8_t>(IoFrame::kSignal), kAllRanks, frame_number(SIGUSR1, 1));
  ::sigset_t one, before;
  ::sigemptyset(&one);
  ::sigaddset(&one, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &one, &before);
  int heard = 0;
  std::thread tasks([&] {
    const auto end = [&](std::size_t at) {
      for (;; ::usleep(1000)) {
        const std::lock_guard lock(world.mutex);
        if (world.ends.size() > at)
          return world.ends[at];
      }
    };
    wait_for_unread(end(0), frame);
    ::close(end(0));
    heard = first_signal(end(1));
    const std::string words = exited(0, 0) + exited(1, 0);
    (void)!::write(end(1), words.data(), words.size());
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const auto result = run(srun_main, world, {"srun", "--jobid=12", "-n2", "-i", "none", "x"});
  tasks.join();
  EXPECT_EQ(heard, SIGUSR1) << result.err;
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(Srun, UnsentSignalsAreThoseWhoseFramesHaveNotLeftWhole) {
  UnsentSignals unsent;
  unsent.add(SIGTERM, 10);
  unsent.add(SIGUSR1, 20);
  unsent.add(SIGTERM, 30);
  unsent.sent(9);
  EXPECT_TRUE(unsent.has(SIGTERM));
  unsent.sent(1);
  EXPECT_FALSE(unsent.has(SIGTERM));
  EXPECT_EQ(unsent.take(), std::vector<int>{SIGUSR1});
  EXPECT_TRUE(unsent.take().empty());
  unsent.add(SIGUSR2, 5);
  unsent.sent(5);
  unsent.was_read();
  unsent.was_not_read();
  EXPECT_TRUE(unsent.all().empty()) << "it was";
  unsent.add(SIGUSR2, 5);
  unsent.sent(5);
  unsent.was_not_read();
  EXPECT_EQ(unsent.all(), std::vector<int>{SIGUSR2});
}

TEST(Srun, AWaitIsTakenBackHoweverOftenTheControllerWasAway) {
  for (const auto command : {srun_main, salloc_main}) {
    World& world = *new World;
    world.waits = true;
    world.cancels_lost = 3;
    const auto result = run(command, world, {"x", "true"});
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(world.cancels, 1) << result.err;
    EXPECT_NE(result.err.find("Job allocation 12 has been revoked."), std::string::npos) << result.err;
  }
}

TEST(Srun, ASecondSignalLeavesAJobThatCannotBeTakenBackAndSaysSo) {
  for (const auto command : {srun_main, salloc_main}) {
    World& world = *new World;
    world.waits = true;
    world.cancels_lost = -1;
    const auto result = run(command, world, {"x", "true"});
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(result.err.find("revoked"), std::string::npos) << result.err;
    EXPECT_NE(
        result.err.find(
            "whether job 12 is cancelled is not known: the controller has not answered yet. `scancel 12` makes sure"),
        std::string::npos)
        << result.err;
  }
}

TEST(Srun, AStepThatFindsNoRoomAtOnceSaysSo) {
  static World& world = *new World;
  world.no_room = true;
  const auto result = run(srun_main, world, {"srun", "--jobid=12", "--immediate=1", "x"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("srun: error: Unable to create step for job 12: Requested nodes are busy\n"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(result.err.find("contact"), std::string::npos) << result.err;
}

TEST(Srun, AStepHasATimeLimitOfItsOwn) {
  static World& world = *new World;
  world.streams_stay = true;
  world.context.end_patience = millis(100);
  world.streams = {encode_frame(static_cast<std::uint8_t>(IoFrame::kStarted), 0, "1234"),
                   exited(0, 0, 15) + exited(1, 0, 15)};
  setenv("LOCKSTEP_LIMIT_SECONDS", "1", 1);
  const auto result = run(srun_main, world, {"srun", "--jobid=12", "-t", "0:01", "-n2", "-i", "none", "x"});
  unsetenv("LOCKSTEP_LIMIT_SECONDS");
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_NE(result.err.find("srun: error: *** STEP 12.0 CANCELLED DUE TO TIME LIMIT ***"), std::string::npos);
  EXPECT_TRUE(std::find(world.asked.begin(), world.asked.end(), "POST /v1/steps/12.0/signal") != world.asked.end());
  EXPECT_EQ(run(srun_main, world, {"srun", "--jobid=12", "-t", "purple", "x"}).code, 255);
}

TEST(Srun, TasksThatTakeLongToEndAreWaitedFor) {
  static World& world = *new World;
  world.context.end_patience = millis(500);
  world.streams_stay = true;
  const std::string started = encode_frame(static_cast<std::uint8_t>(IoFrame::kStarted), 0, "1234") +
                              encode_frame(static_cast<std::uint8_t>(IoFrame::kStarted), 1, "1235");
  world.streams = {started, started, started, started, exited(0, 3) + exited(1, 0)};
  world.signals_on_attach = {SIGTERM};
  const auto result = run(srun_main, world, {"srun", "-n2", "-i", "none", "x"});
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_EQ(result.err.find("no answer"), std::string::npos) << result.err;
}

TEST(Srun, ASubmissionThatIsNotAnsweredCanBeLeft) {
  static World& world = *new World;
  world.signal_on_ask = "/v1/jobs";
  std::vector<std::string> words{"x", "true"};
  std::vector<char*> argv{words[0].data(), words[1].data(), nullptr};
  for (const auto command : {srun_main, salloc_main})
    EXPECT_EXIT(command(world.context, 2, argv.data()), testing::KilledBySignal(SIGTERM),
                "Whether the job was submitted is not known");
}

TEST(Srun, AnInputFileThatIsNotThereStopsItBeforeAnythingIsAsked) {
  static World& world = *new World;
  world.streams = {exited(0, 0) + exited(1, 0)};
  for (const char* job : {"--jobid=12", "-n2"}) {
    const auto result = run(srun_main, world, {"srun", job, "-n2", "-i", "/no/such/file", "x"});
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(result.err, "srun: error: Could not open stdin file /no/such/file: No such file or directory\n");
  }
  EXPECT_TRUE(world.asked.empty());
}

TEST(Srun, AnInputFileIsLookedForWhereTheNodesOpenIt) {
  static World& world = *new World;
  world.streams = {exited(0, 0) + exited(1, 0)};
  char folder[] = "/tmp/srun-test-XXXXXX";
  ASSERT_TRUE(::mkdtemp(folder));
  const std::string path = std::string(folder) + "/only-there";
  ::close(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  for (const char* job : {"--jobid=12", "-n2"}) {
    const auto result = run(srun_main, world, {"srun", job, "-n2", "-D", folder, "-i", "only-there", "x"});
    EXPECT_EQ(result.code, 0) << result.err;
  }
  ::unlink(path.c_str());
  ::rmdir(folder);
}

TEST(Srun, SeveralProgramsAreOneStep) {
  static World& world = *new World;
  world.streams = {exited(0, 0) + exited(1, 0)};
  const auto result = run(srun_main, world, {"srun", "-l", "-i", "none", "a", "1", ":", "-n1", "b"});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_TRUE(world.submitted.first_step);
  const std::vector<std::vector<std::string>> programs = {{"a", "1"}, {"b"}};
  EXPECT_EQ(world.submitted.first_step->multi_prog, programs);
  EXPECT_EQ(world.submitted.first_step->tasks, 2u);
  EXPECT_EQ(world.submitted.spec.groups[0].tasks.min, 2u);
}

TEST(Srun, MpiList) {
  static World& world = *new World;
  EXPECT_EQ(run(srun_main, world, {"srun", "--mpi=list"}).out,
            "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions available: "
            "pmix_v2,pmix_v3,pmix_v4,pmix_v5\n");
}

TEST(Srun, MpiTypesAsSlurmNamesThem) {
  const std::pair<const char*, Pmi> kTypes[] = {
      {"none", Pmi::kNone}, {"pmi2", Pmi::kPmi2}, {"pmix", Pmi::kPmix}, {"pmix_v3", Pmi::kPmix}, {"PMIx", Pmi::kPmix}};
  for (const auto& [type, pmi] : kTypes) {
    static World* world;
    world = new World;
    world->streams = {exited(0, 0) + exited(1, 0)};
    const auto result = run(srun_main, *world, {"srun", "-n2", "-i", "none", format("--mpi={}", type), "x"});
    EXPECT_EQ(result.code, 0) << result.err;
    ASSERT_TRUE(world->submitted.first_step);
    EXPECT_EQ(world->submitted.first_step->pmi, pmi) << type;
  }
  static World& world = *new World;
  EXPECT_EQ(run(srun_main, world, {"srun", "--mpi=lam", "x"}).err,
            "srun: error: Invalid MPI type 'lam', --mpi=list for acceptable types\n");
}

std::string says_of_world(std::uint64_t offset, bool fresh, std::string_view bytes) {
  return encode_frame(static_cast<std::uint8_t>(IoFrame::kPmi), 0, encode(PmiUp{offset, 0, 0, fresh, bytes}));
}

// The rank that was the reason gives the exit code, whatever became of the others.
TEST(Srun, AWorldEndsAsOneOfItsRanksSays) {
  static World& world = *new World;
  const std::string joined = encode_pmi_message(PmiJoined{});
  const std::string abort = encode_pmi_message(PmiAbort{3, "task 1 on n1 called MPI_Abort (exit code 3)"});
  world.streams = {says_of_world(0, true, joined + abort.substr(0, 9)),  // the connection breaks in the middle of it
                   says_of_world(0, true, joined + abort), exited(1, 3) + exited(0, 0, 15)};
  const auto result = run(srun_main, world, {"srun", "-n2", "-i", "none", "--mpi=pmix", "x"});
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_NE(
      result.err.find("srun: error: task 1 on n1 called MPI_Abort (exit code 3)\nsrun: Terminating StepId=12.0\n"),
      result.err.npos)
      << result.err;
  EXPECT_EQ(world.ended.exit.code, 3);
  EXPECT_EQ(world.ended.exit.signal, 0);
}

TEST(Srun, OutsideAnAllocationThereAreNoNodesToCountOff) {
  static World& world = *new World;
  for (const auto& words : {std::vector<std::string>{"srun", "-r1", "x"}, {"srun", "--relative=0", "-N2", "x"}}) {
    const auto result = run(srun_main, world, words);
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(result.err, "srun: fatal: --relative option invalid for job allocation request\n");
  }
  EXPECT_TRUE(world.asked.empty());
}

TEST(Srun, OutsideAnAllocationThereAreNoComponents) {
  static World& world = *new World;
  world.streams = {output(0, 1, 0, "zero\n") + exited(0, 0) + exited(1, 0)};
  const auto result = run(srun_main, world, {"srun", "-n2", "--het-group=1", "-i", "none", "hostname"});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_TRUE(world.submitted.first_step);
  EXPECT_EQ(world.submitted.first_step->group, 0);
}

TEST(Srun, AStepThatEndedWithoutANodeIsNotWaitedFor) {
  static World& world = *new World;
  world.has_places = false;
  world.step_state = StepState::kEnded;
  const auto result = run(srun_main, world, {"srun", "-n2", "-i", "none", "hostname"});
  EXPECT_NE(result.code, 0);
  EXPECT_EQ(result.err, "srun: error: Step 12.0 was refused or cancelled before it had a node\n");
  EXPECT_EQ(world.asked.back(), "POST /v1/jobs/12/end");
}

TEST(Srun, WrongUse) {
  static World& world = *new World;
  EXPECT_EQ(run(srun_main, world, {"srun"}).err, "srun: error: No command given to execute.\n");
  EXPECT_EQ(run(srun_main, world, {"srun", "--mpi=pmi", "x"}).code, 1);
  EXPECT_EQ(run(srun_main, world, {"srun", "-n", "0", "x"}).code, 1);
  EXPECT_EQ(run(srun_main, world, {"srun", "-c2", "a", ":", "b"}).code, 1);
  EXPECT_EQ(run(srun_main, world, {"srun", "a", ":", "-n2"}).code, 1);
  EXPECT_EQ(run(srun_main, world, {"srun", "a", ":", "-n2000000000", "b"}).code, 1);
  EXPECT_TRUE(world.asked.empty());
}

TEST(Salloc, RunsTheCommandAndGivesTheAllocationBack) {
  static World& world = *new World;
  const auto result =
      run(salloc_main, world, {"salloc", "-N2", "sh", "-c", "echo $SLURM_JOB_ID $SLURM_NNODES; exit 7"});
  EXPECT_EQ(result.code, 7);
  EXPECT_EQ(result.out, "12 2\n");
  EXPECT_EQ(world.ended.exit.code, 7);
  EXPECT_NE(result.err.find("salloc: Granted job allocation 12\n"), std::string::npos);
  EXPECT_NE(result.err.find("salloc: Relinquishing job allocation 12\n"), std::string::npos);
}

TEST(Salloc, ACommandThatASignalEndedGivesTheJobThatSignal) {
  static World& world = *new World;
  for (const int signal : {SIGKILL, SIGTERM}) {
    const auto result = run(salloc_main, world, {"salloc", "sh", "-c", format("kill -{} $$", signal)});
    EXPECT_EQ(result.code, 128 + signal);
    EXPECT_EQ(world.ended.exit, (ExitStatus{0, signal, false}));
  }
}

TEST(Salloc, TellsAControllerThatWasAwayHowLongAgoItEnded) {
  static World& world = *new World;
  world.ends_lost = 2;
  const auto result = run(salloc_main, world, {"salloc", "-N2", "sh", "-c", "exit 7"});
  EXPECT_EQ(result.code, 7);
  EXPECT_EQ(std::count(world.asked.begin(), world.asked.end(), "POST /v1/jobs/12/end"), 3) << result.err;
  EXPECT_GE(world.ended.ago.us, 200'000) << "two pauses of 100 ms between the three";
  EXPECT_EQ(result.err.find("Unable to end"), std::string::npos) << result.err;
}

TEST(Salloc, NoShellLeavesTheAllocation) {
  static World& world = *new World;
  const auto result = run(salloc_main, world, {"salloc", "-N2", "--no-shell"});
  EXPECT_EQ(result.code, 0);
  EXPECT_FALSE(world.submitted.spec.interactive);
  EXPECT_NE(world.asked.back(), "POST /v1/jobs/12/end");
}

TEST(Salloc, AMissingCommandGivesTheAllocationBackToo) {
  static World& world = *new World;
  const auto result = run(salloc_main, world, {"salloc", "no-such-program-here"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("No such file or directory"), std::string::npos);
  EXPECT_EQ(world.asked.back(), "POST /v1/jobs/12/end");
}

}  // namespace
}  // namespace lockstep::slurm
