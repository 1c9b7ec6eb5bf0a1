// srun and salloc whole, against a cluster that plays its part from a script: submission, grant, step I/O, end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "base/text.h"
#include "frontends/slurm/client/context.h"
#include "frontends/slurm/client/step_output.h"
#include "wire/api.h"

namespace lockstep {
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
  std::vector<int> ends;  // our ends of those connections
  EndJob ended;
  SubmitRequest submitted;
  StepRequest step_request;
  JobState state = JobState::kRunning;
  StepState step_state = StepState::kRunning;
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
    out->places.push_back({NodeId(1), 0, {0, 1}, {}, {}, 0, MemberState::kRunning});
    if (!recorded.ok())
      out->failures.emplace_back(0, recorded);
    out->exit = recorded;
    return out;
  }

  struct Client final : ApiClient {
    explicit Client(World& w) : world(w) {}
    Result<Reply> call(std::string_view method, std::string_view target, std::string_view body, Duration) override {
      if (target.starts_with("/v1/jobs/12/wait?for=ended"))
        for (;;) ::pause();  // the job does not end by itself
      const std::lock_guard lock(world.mutex);
      world.asked.push_back(format("{} {}", method, target));
      const auto good = [](std::string text) { return Reply{200, "application/json", std::move(text)}; };
      if (target == "/v1/jobs") {
        world.submitted = *decode_submit(body);
        return good(encode_submitted(JobId(12)));
      }
      if (target.starts_with("/v1/jobs/12/wait?for=allocated"))
        return good(encode(JobDetail{world.job(), {world.step()}, {}, {}}));
      if (target.starts_with("/v1/jobs/12/steps")) {
        world.step_request = *decode_step_request(body);
        return good(encode(Started{world.job(), world.step()}));
      }
      if (target == "/v1/jobs/12/end") {
        world.ended = *decode_end(body);
        return good("{}");
      }
      if (target == "/v1/steps/12.0")
        return good(encode_record(Record(world.step())));
      if (target == "/v1/nodes") {
        auto node = std::make_shared<Node>();
        node->id = NodeId(1);
        node->meta.name = "n1";
        return good(encode_records(Kind::kNode, {Record(Ref<Node>(node))}));
      }
      if (target == "/slurm/v1/environment?job=12")
        return good(std::string("SLURM_NNODES=2\0", 15));
      return Reply{404, "application/json", encode_error(not_found(std::string(target)))};
    }
    Result<int> upgrade(std::string_view target, std::string_view protocol, std::string_view) override {
      const std::lock_guard lock(world.mutex);
      EXPECT_EQ(target, "/v1/steps/12.0/io");
      EXPECT_EQ(protocol, "lockstep-stepio/1");
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return Error{Errc::kIo, "socketpair", {}};
      const std::size_t at = std::min(world.streams_used++, world.streams.size() - 1);
      (void)!::write(pair[1], world.streams[at].data(), world.streams[at].size());
      ::shutdown(pair[1], SHUT_WR);
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
  EXPECT_EQ(world.asked.front(), "POST /v1/jobs/12/steps?wait=started");
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

TEST(Srun, MpiList) {
  static World& world = *new World;
  EXPECT_EQ(run(srun_main, world, {"srun", "--mpi=list"}).out, "MPI plugin types are...\n\tnone\n");
}

TEST(Srun, WrongUse) {
  static World& world = *new World;
  EXPECT_EQ(run(srun_main, world, {"srun"}).err, "srun: error: No command given to execute.\n");
  EXPECT_EQ(run(srun_main, world, {"srun", "--mpi=pmix", "x"}).code, 1);
  EXPECT_EQ(run(srun_main, world, {"srun", "-n", "0", "x"}).code, 1);
  EXPECT_EQ(run(srun_main, world, {"srun", "a", ":", "b"}).code, 1);
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
}  // namespace lockstep
