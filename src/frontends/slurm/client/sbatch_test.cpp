// sbatch and scancel against a cluster that only records what it is asked.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/text.h"
#include "frontends/slurm/client/context.h"
#include "frontends/slurm/client/shell_word.h"
#include "model/job.h"
#include "wire/api.h"
#include "wire/whole_answers.h"

namespace lockstep::slurm {
namespace {

struct FakeCluster {
  std::vector<std::string> asked;  // "POST /v1/jobs"
  std::vector<std::string> bodies;
  std::function<ApiClient::Reply(std::string_view method, std::string_view target)> answer;
  ClientContext context{[this] { return connect(); }};

  struct Client final : ApiClient {
    explicit Client(FakeCluster& owner) : cluster(owner) {}
    Result<Reply> call(std::string_view method, std::string_view target, std::string_view body, Duration) override {
      cluster.asked.push_back(format("{} {}", method, target));
      cluster.bodies.emplace_back(body);
      return cluster.answer(method, target);
    }
    Result<int> upgrade(std::string_view, std::string_view, std::string_view) override { return not_found("io"); }
    FakeCluster& cluster;
  };
  Result<std::unique_ptr<ApiClient>> connect() { return std::unique_ptr<ApiClient>(new Client(*this)); }
};

struct Run {
  int code = 0;
  std::string out, err;
};

Run run(int (*command)(const ClientContext&, int, char**), FakeCluster& cluster, std::vector<std::string> words) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Run result;
  result.code = command(cluster.context, static_cast<int>(words.size()), argv.data());
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

class Sbatch : public testing::Test {
 protected:
  Sbatch() {
    cluster.answer = [](std::string_view, std::string_view) {
      return ApiClient::Reply{200, "application/json", encode_submitted(JobId(12))};
    };
    char name[] = "/tmp/sbatch-test-XXXXXX";
    folder = ::mkdtemp(name);
  }
  ~Sbatch() override {
    ::unlink((folder + "/job.sh").c_str());
    ::rmdir(folder.c_str());
  }
  std::string script(const std::string& text) {
    const std::string path = folder + "/job.sh";
    std::ofstream(path) << text;
    return path;
  }
  SubmitRequest submitted() {
    EXPECT_FALSE(cluster.bodies.empty());
    auto request = decode_submit(cluster.bodies.empty() ? "" : cluster.bodies.back());
    EXPECT_TRUE(request.ok());
    return request ? *request : SubmitRequest{};
  }
  FakeCluster cluster;
  std::string folder;
};

TEST_F(Sbatch, SaysExactlyWhatToolsParse) {
  EXPECT_EQ(run(sbatch_main, cluster, {"sbatch", "--wrap", "true"}).out, "Submitted batch job 12\n");
  EXPECT_EQ(run(sbatch_main, cluster, {"sbatch", "--parsable", "--wrap", "true"}).out, "12\n");
  ASSERT_EQ(cluster.asked.size(), 2u);
  for (const std::string& asked : cluster.asked) EXPECT_TRUE(asked.starts_with("POST /v1/jobs?request=")) << asked;
  EXPECT_NE(cluster.asked[0], cluster.asked[1]) << "each submission has a name of its own";
}

TEST_F(Sbatch, TheRequestHoldsScriptArgumentsAndEnvironment) {
  ::setenv("SBATCH_TEST_KEEP", "kept", 1);
  const auto path = script("#!/bin/bash\n#SBATCH -J named -N 2 --gpus-per-node=8 # eight\necho $1\n");
  const auto result = run(sbatch_main, cluster, {"sbatch", "-N3", path, "one", "two words"});
  EXPECT_EQ(result.code, 0) << result.err;
  const SubmitRequest request = submitted();
  EXPECT_EQ(request.spec.name, "named");
  EXPECT_EQ(request.spec.command, path);
  ASSERT_EQ(request.spec.groups.size(), 1u);
  EXPECT_EQ(request.spec.groups[0].launch, Launch::kScript);
  EXPECT_EQ(request.spec.groups[0].nodes.min, 3u);
  EXPECT_EQ(request.spec.groups[0].argv, (std::vector<std::string>{"one", "two words"}));
  EXPECT_NE(request.script.find("echo $1"), std::string::npos);
  EXPECT_NE(request.environment.find(std::string("SBATCH_TEST_KEEP=kept\0", 22)), std::string::npos);
}

TEST_F(Sbatch, WrapAndHetjob) {
  run(sbatch_main, cluster, {"sbatch", "--wrap", "sleep 1"});
  EXPECT_EQ(submitted().script, "#!/bin/sh\n# This script was created by sbatch --wrap.\n\nsleep 1\n");
  EXPECT_EQ(submitted().spec.name, "wrap");
  run(sbatch_main, cluster, {"sbatch", script("#!/bin/sh\n#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -N 2\n")});
  ASSERT_EQ(submitted().spec.groups.size(), 2u);
  EXPECT_EQ(submitted().spec.groups[1].nodes.min, 2u);
  EXPECT_EQ(submitted().spec.groups[1].launch, Launch::kNothing);
}

TEST_F(Sbatch, NothingIsSubmittedWhenTheInputIsWrong) {
  EXPECT_EQ(run(sbatch_main, cluster, {"sbatch", script("echo no interpreter\n")}).err,
            "sbatch: error: This does not look like a batch script.  The first\n"
            "sbatch: error: line must start with #! followed by the path to an interpreter.\n"
            "sbatch: error: For instance: #!/bin/sh\n");
  const std::string program = script("echo no interpreter\n");
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  const auto said = run(sbatch_main, cluster, {"sbatch", program, "it's", "a b"}).err;
  const std::string command = shell_quoted(format("{} {} 'a b'", program, shell_quoted("it's")));
  EXPECT_NE(said.find("sbatch --wrap " + command + "\n"), std::string::npos) << said;
  EXPECT_EQ(run(sbatch_main, cluster, {"sbatch", "--foo", "x"}).err,
            "sbatch: unrecognized option '--foo'\nTry \"sbatch --help\" for more information\n");
  EXPECT_EQ(run(sbatch_main, cluster, {"sbatch", "/no/such/file.sh"}).err,
            "sbatch: error: Unable to open file /no/such/file.sh\n");
  EXPECT_EQ(run(sbatch_main, cluster, {"sbatch", script("#!/bin/sh\n\n#SBATCH --time=soon\n")}).err,
            "sbatch: error: Invalid --time (script line 3) specification \"soon\"\n");
  EXPECT_EQ(run(sbatch_main, cluster, {"sbatch", "--array=5-1", "--wrap", "true"}).err,
            "sbatch: error: Invalid --array specification: \"5-1\": a range goes upwards\n"
            "sbatch: error: Batch job submission failed: Invalid job array specification\n");
  EXPECT_EQ(run(sbatch_main, cluster, {"sbatch", "--wrap", "true", "x.sh"}).code, 1);
  EXPECT_EQ(run(sbatch_main, cluster, {"sbatch", folder}).code, 1);
  EXPECT_TRUE(cluster.asked.empty());
}

TEST_F(Sbatch, RefusalsHaveSlurmsSentence) {
  cluster.answer = [](std::string_view, std::string_view) {
    return ApiClient::Reply{400, "application/json",
                            encode_error({Errc::kNotFound, "there is no partition \"nope\"", "partitions"})};
  };
  const auto result = run(sbatch_main, cluster, {"sbatch", "-p", "nope", "--wrap", "true"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "sbatch: error: there is no partition \"nope\"\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified\n");
}

std::string ended(JobState state, ExitStatus exit) {
  auto job = std::make_shared<Job>();
  auto spec = std::make_shared<JobSpec>();
  spec->groups.emplace_back();
  job->id = JobId(12);
  job->spec = spec;
  job->state = state;
  job->exit = exit;
  return encode(JobDetail{job, {}, {}, {}});
}

TEST_F(Sbatch, WaitReturnsTheJobsCode) {
  const auto code = [&](JobState state, ExitStatus exit) {
    int polls = 0;
    cluster.answer = [&, polls](std::string_view, std::string_view target) mutable -> ApiClient::Reply {
      if (target.starts_with("/v1/jobs?request="))
        return {200, "application/json", encode_submitted(JobId(12))};
      if (polls++ == 0)
        return {204, "application/json", ""};
      return {200, "application/json", ended(state, exit)};
    };
    return run(sbatch_main, cluster, {"sbatch", "--wait", "--wrap", "x"}).code;
  };
  EXPECT_EQ(code(JobState::kCompleted, {}), 0);
  EXPECT_EQ(code(JobState::kFailed, {5, 0, false}), 5);
  EXPECT_EQ(code(JobState::kFailed, {0, 9, false}), 1);
  EXPECT_EQ(code(JobState::kCancelled, {}), 1);
}

TEST_F(Sbatch, WarnsOfAJobThatWasTakenAndWillNotStart) {
  cluster.answer = [](std::string_view, std::string_view) {
    return ApiClient::Reply{200, "application/json", encode_submitted(JobId(12), "give it a time limit")};
  };
  const auto result = run(sbatch_main, cluster, {"sbatch", "--wrap", "true"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "Submitted batch job 12\n");
  EXPECT_EQ(result.err, "sbatch: warning: job 12: give it a time limit\n");
}

TEST_F(Sbatch, TestOnlySaysWhatWouldHappen) {
  cluster.answer = [](std::string_view, std::string_view) {
    return ApiClient::Reply{200, "application/json", R"({"message":"Job 13 to start at now"})"};
  };
  const auto result = run(sbatch_main, cluster, {"sbatch", "--test-only", "--wrap", "true"});
  EXPECT_EQ(result.err, "sbatch: Job 13 to start at now\n");
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(submitted().test_only);
}

// What the cluster says of a request to cancel many.
ApiClient::Reply cancelled(std::vector<CancelledMany::Failure> failed = {}) {
  return {200, "application/json", encode(CancelledMany{0, std::move(failed)})};
}

TEST_F(Sbatch, ScancelNamesItsTargets) {
  cluster.answer = [](std::string_view, std::string_view) { return cancelled(); };
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "7", "8_3,12_[1-4]"}).code, 0);
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "9", "--signal", "SIGUSR1"}).code, 0);
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "-b", "-s", "15", "10"}).code, 0);
  ASSERT_EQ(cluster.asked, std::vector<std::string>(3, "POST /v1/jobs/cancel"));
  const auto ask = [&](std::size_t i) { return *decode_cancel_many(cluster.bodies[i]); };
  EXPECT_EQ(ask(0).targets, (std::vector<std::string>{"7", "8_3", "12_[1-4]"}));
  EXPECT_EQ(ask(0).signal, 0);
  EXPECT_EQ(ask(1).signal, 10);
  EXPECT_EQ(ask(2).reach, SignalReach::kScript);
}

TEST_F(Sbatch, ScancelLetsTheClusterLookUpWhatMatches) {
  cluster.answer = [](std::string_view, std::string_view) { return cancelled(); };
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "-u", "ann", "-t", "PD,R", "-p", "gpu", "-w", "n[1-2]", "12"}).code,
            0);
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "--me", "-q", "normal"}).code, 0);
  ASSERT_EQ(cluster.asked, std::vector<std::string>(2, "POST /v1/jobs/cancel"));
  const auto first = *decode_cancel_many(cluster.bodies[0]), second = *decode_cancel_many(cluster.bodies[1]);
  EXPECT_EQ(first.targets, std::vector<std::string>{"12"});
  EXPECT_EQ(first.users, std::vector<std::string>{"ann"});
  EXPECT_EQ(first.states, (std::vector<std::string>{"pending", "starting", "running"}));
  EXPECT_EQ(first.partitions, std::vector<std::string>{"gpu"});
  EXPECT_EQ(first.nodes, "n1,n2");
  EXPECT_TRUE(second.targets.empty());
  EXPECT_EQ(second.users, std::vector<std::string>{std::to_string(getuid())});
  EXPECT_EQ(second.qos, (std::vector<std::string>{"normal", ""}));
}

TEST_F(Sbatch, ScancelOfWhatIsNotThereIsSilent) {
  cluster.answer = [](std::string_view, std::string_view) {
    return cancelled({{"99", {Errc::kNotFound, "no job 99", ""}}});
  };
  const auto quiet = run(scancel_main, cluster, {"scancel", "99"});
  EXPECT_EQ(quiet.code, 0);
  EXPECT_EQ(quiet.err, "");
  EXPECT_NE(run(scancel_main, cluster, {"scancel", "-v", "99"}).err.find("Invalid job id specified"),
            std::string::npos);
  EXPECT_EQ(run(scancel_main, cluster, {"scancel"}).code, 1);
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "banana"}).err, "scancel: error: Invalid job id banana\n");
}

// One environment variable for a command, gone with the object.
struct Variable {
  Variable(const char* name, const char* value) : name(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  const char* name;
};

TEST_F(Sbatch, AFilterOfScancelThatNamesNothingCancelsNothing) {
  cluster.answer = [](std::string_view, std::string_view) { return cancelled(); };
  for (const char* name :
       {"--name=", "--partition=", "--qos=", "--account=", "--reservation=", "--wckey=", "--name=,", "-p,"})
    for (const bool named : {true, false}) {
      std::vector<std::string> words = {"scancel", name, "--me"};
      if (named)
        words.emplace_back("12");
      EXPECT_EQ(run(scancel_main, cluster, words).code, 0) << name;
    }
  for (const char* variable :
       {"SCANCEL_NAME", "SCANCEL_PARTITION", "SCANCEL_ACCOUNT", "SCANCEL_QOS", "SCANCEL_WCKEY"}) {
    const Variable set(variable, "");
    EXPECT_EQ(run(scancel_main, cluster, {"scancel", "--me"}).code, 0) << variable;
  }
  EXPECT_TRUE(cluster.asked.empty());
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "--name=a,,b"}).code, 0);
  EXPECT_EQ(decode_cancel_many(cluster.bodies[0])->names, (std::vector<std::string>{"a", "b"}));
  const Variable set("SCANCEL_NAME", "");
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "--name=a"}).code, 0);  // the command line counts
  EXPECT_EQ(cluster.asked.size(), 2u);
}

TEST_F(Sbatch, ScancelRefusesAnEmptyUserOrState) {
  cluster.answer = [](std::string_view, std::string_view) { return cancelled(); };
  const auto refused = [&](std::vector<std::string> words) {
    const auto result = run(scancel_main, cluster, std::move(words));
    EXPECT_EQ(result.code, 1);
    return result.err;
  };
  EXPECT_EQ(refused({"scancel", "-u", ""}), "scancel: error: Invalid user name: \n");
  EXPECT_EQ(refused({"scancel", "--user=", "-t", "PD"}), "scancel: error: Invalid user name: \n");
  EXPECT_EQ(refused({"scancel", "--state=", "-u", "ann"}), "scancel: error: Invalid job state specified: \n");
  EXPECT_EQ(refused({"scancel", "-w", "", "-u", "ann"}), "scancel: error: Invalid node list: \n");
  {
    const Variable set("SCANCEL_USER", "");
    EXPECT_EQ(refused({"scancel", "--me"}), "scancel: error: Invalid user name: \n");
  }
  for (const char* state : {"", "SLEEPING", ","}) {
    const Variable set("SCANCEL_STATE", state);
    EXPECT_TRUE(refused({"scancel", "--me"}).starts_with("scancel: error: Invalid job state specified: ")) << state;
  }
  EXPECT_TRUE(cluster.asked.empty());
}

TEST_F(Sbatch, WhatScancelSignalsMustBeThere) {
  Error error{Errc::kNotFound, "no job 99", ""};
  cluster.answer = [&](std::string_view method, std::string_view) {
    return method == "GET" ? ApiClient::Reply{200, "application/json", R"({"jobs":[]})"} : cancelled({{"99", error}});
  };
  const std::string gone = "scancel: error: Kill job error on job id 99: Invalid job id specified\n";
  for (const char* how : {"-sUSR1", "-sKILL", "-b", "-i"}) {
    const auto result = run(scancel_main, cluster, {"scancel", how, "99"});
    EXPECT_EQ(result.code, 1) << how;
    EXPECT_EQ(result.err, gone) << how;
  }
  error = {Errc::kConflict, "it has ended", "ended"};
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "-sUSR1", "99"}).err, gone);
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "99"}).code, 0);
  error = {Errc::kConflict, "it is not running", ""};
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "-sUSR1", "99"}).code, 0);
}

TEST_F(Sbatch, ScancelNamesElementsAndStepsThatNeverWere) {
  cluster.answer = [&](std::string_view, std::string_view target) {
    if (target != "/v1/jobs/cancel")
      return ApiClient::Reply{404, "application/json", R"({"error":{"code":"not_found","message":"no such step"}})"};
    return cancelled({{"443_9", {Errc::kNotFound, "no such element", ""}}});
  };
  const auto element = run(scancel_main, cluster, {"scancel", "443_9"});
  EXPECT_EQ(element.code, 1);
  EXPECT_EQ(element.err, "scancel: error: Kill job error on job id 443_9: Invalid job id specified\n");
  const auto step = run(scancel_main, cluster, {"scancel", "443.99"});
  EXPECT_EQ(step.code, 1);
  EXPECT_EQ(step.err, "scancel: error: Kill job error on job step id 443.99: Invalid job id specified\n");
}

TEST_F(Sbatch, CommandsForAnotherClusterAreRefused) {
  cluster.answer = [](std::string_view, std::string_view) {
    return ApiClient::Reply{200, "application/json", R"({"cluster":"ours"})"};
  };
  const std::pair<const char*, int (*)(const ClientContext&, int, char**)> commands[] = {
      {"squeue", squeue_main}, {"sinfo", sinfo_main},     {"sacct", sacct_main},      {"sprio", sprio_main},
      {"sshare", sshare_main}, {"scancel", scancel_main}, {"scontrol", scontrol_main}};
  for (const auto& [name, command] : commands) {
    const std::string refusal = format("{}: error: No cluster 'foo' known by database: this one is 'ours'.\n", name);
    const std::string last = name == std::string_view("scancel")    ? "12"
                             : name == std::string_view("scontrol") ? "ping"
                                                                    : "";
    std::vector<std::string> words = {name, "-M", "foo"}, bare = {name};
    if (!last.empty())
      words.push_back(last), bare.push_back(last);
    const auto by_option = run(command, cluster, words);
    EXPECT_EQ(by_option.code, 1) << name;
    EXPECT_EQ(by_option.err, refusal);
    const Variable set("SLURM_CLUSTERS", "foo");
    const auto by_variable = run(command, cluster, bare);
    EXPECT_EQ(by_variable.code, 1) << name;
    EXPECT_EQ(by_variable.err, refusal);
  }
  EXPECT_EQ(cluster.asked, std::vector<std::string>(2 * std::size(commands), "GET /v1/ping"));
}

TEST_F(Sbatch, ListingsOfANamedClusterSayItsName) {
  cluster.answer = [](std::string_view, std::string_view target) {
    return target == "/v1/ping" ? ApiClient::Reply{200, "application/json", R"({"cluster":"ours"})"}
                                : ApiClient::Reply{200, "text/plain", ""};
  };
  EXPECT_EQ(run(squeue_main, cluster, {"squeue", "-M", "ours", "-o", "%i"}).out, "CLUSTER: ours\nJOBID\n");
  EXPECT_EQ(run(squeue_main, cluster, {"squeue", "-M", "all", "-o", "%i"}).out, "CLUSTER: ours\nJOBID\n");
  EXPECT_EQ(run(squeue_main, cluster, {"squeue", "-M", "ours", "-h", "-o", "%i"}).out, "");
  EXPECT_EQ(run(squeue_main, cluster, {"squeue", "-o", "%i"}).out, "JOBID\n");
  EXPECT_EQ(run(sinfo_main, cluster, {"sinfo", "--clusters=ours", "-o", "%D"}).out, "CLUSTER: ours\nNODES\n");
  EXPECT_EQ(run(sinfo_main, cluster, {"sinfo", "-h", "-M", "ours", "-o", "%D"}).out, "");
  EXPECT_TRUE(run(sshare_main, cluster, {"sshare", "-M", "ours"}).out.starts_with("CLUSTER: ours\n"));
}

TEST_F(Sbatch, OnlyJobStateGoesWithJobsAndStates) {
  cluster.answer = [](std::string_view, std::string_view) { return ApiClient::Reply{200, "text/plain", "12\tR\n"}; };
  EXPECT_EQ(run(squeue_main, cluster, {"squeue", "--only-job-state", "-h", "-j", "12"}).out, "                12  R\n");
  EXPECT_EQ(cluster.asked.back(),
            "GET /slurm/v1/squeue?columns=jobarrayid,statecompact,partition,stateorder,"
            "prioritylong&jobs=12");
  const auto refused = run(squeue_main, cluster, {"squeue", "--only-job-state", "-u", "ann"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(refused.err.starts_with("squeue: fatal: Option --only-job-state only works alone")) << refused.err;
}

// Programs know a controller that is away by these words at the very beginning, and ask again.
TEST_F(Sbatch, AControllerThatIsAwayIsToldInSlurmsWords) {
  Errc why = Errc::kUnavailable;
  cluster.context.connect = [&]() -> Result<std::unique_ptr<ApiClient>> {
    return Error{why, "why: nobody listens", {}};
  };
  using Main = int (*)(const ClientContext&, int, char**);
  const std::tuple<Main, std::vector<std::string>, std::string> commands[] = {
      {squeue_main, {"squeue"}, "slurm_load_jobs error: "},
      {squeue_main, {"squeue", "-M", "ours"}, "slurm_load_jobs error: "},
      {squeue_main, {"squeue", "-s"}, "slurm_get_job_steps error: "},
      {squeue_main, {"squeue", "--json"}, "slurm_load_jobs error: "},
      {sinfo_main, {"sinfo"}, "slurm_load_partitions: "},
      {sinfo_main, {"sinfo", "-T"}, "slurm_load_reservations: "},
      {scontrol_main, {"scontrol", "show", "job", "1"}, "slurm_load_jobs error: "},
      {scontrol_main, {"scontrol", "show", "jobid", "-dd", "1"}, "slurm_load_jobs error: "},
      {scontrol_main, {"scontrol", "show", "nodes"}, "slurm_load_node error: "},
      {scontrol_main, {"scontrol", "show", "config"}, "slurm_load_ctl_conf error: "},
      {scontrol_main, {"scontrol", "update", "jobid=1", "timelimit=7"}, "slurm_update error: "},
      {scontrol_main, {"scontrol", "wait_job", "1"}, "slurm_load_jobs error: "},
      {scontrol_main, {"scontrol", "hold", "1"}, "hold 1: "},
      {sacct_main, {"sacct"}, "sacct: error: Problem talking to the database: "},
      {sacctmgr_main, {"sacctmgr", "show", "user"}, "sacctmgr: error: Problem talking to the database: "},
      {sacctmgr_main, {"sacctmgr", "-i", "add", "account", "a"}, "sacctmgr: error: Problem talking to the database: "},
      {scontrol_main, {"scontrol", "delete", "reservationname=r"}, "scontrol: error: Error deleting the reservation: "},
      {seff_main, {"seff", "1"}, "slurm_load_jobs error: "},
      {sstat_main, {"sstat", "-j", "1"}, "slurm_get_job_steps error: "},
      {sprio_main, {"sprio"}, "Couldn't get priority factors from controller: "},
      {sshare_main, {"sshare"}, "sshare: error: Couldn't get shares from controller: "},
      {scancel_main, {"scancel", "1"}, "scancel: error: Kill job error on job id 1: "},
      {scancel_main, {"scancel", "1.0"}, "scancel: error: Kill job error on job step id 1.0: "},
      {scancel_main, {"scancel", "-u", "ann"}, "slurm_load_jobs error: "},
      {scancel_main, {"scancel", "-i", "1"}, "slurm_load_jobs error: "}};
  for (const auto& [command, words, what] : commands) {
    why = Errc::kUnavailable;
    const auto absent = run(command, cluster, words);
    EXPECT_EQ(absent.code, 1) << join(words, " ");
    EXPECT_TRUE(absent.err.starts_with(what + "Unable to contact slurm controller (connect failure)\n"))
        << join(words, " ") << ": " << absent.err;
    EXPECT_NE(absent.err.find("nobody listens"), std::string::npos) << absent.err;
    why = Errc::kTimeout;
    EXPECT_TRUE(run(command, cluster, words).err.starts_with(what + "Socket timed out on send/recv operation\n"))
        << join(words, " ");
  }
  why = Errc::kUnavailable;
  const auto submission = run(sbatch_main, cluster, {"sbatch", "--wrap", "true"});
  EXPECT_EQ(submission.code, 1);
  EXPECT_TRUE(
      submission.err.ends_with("sbatch: error: Batch job submission failed: Unable to contact slurm controller "
                               "(connect failure)\n"))
      << submission.err;
}

TEST_F(Sbatch, LinesOfOtherSchedulersAreRead) {
  const auto path = script("#!/bin/sh\n#SBATCH -J named\n#PBS -N pbs\n#PBS -l nodes=2:ppn=4,feature=x\ntrue\n");
  const auto result = run(sbatch_main, cluster, {"sbatch", path});
  EXPECT_EQ(result.err, "sbatch: warning: script line 4: #PBS -l feature=x has no meaning here and is ignored\n");
  EXPECT_EQ(submitted().spec.name, "pbs");
  EXPECT_EQ(submitted().spec.groups[0].nodes.min, 2u);
  EXPECT_EQ(submitted().spec.groups[0].tasks.min, 8u);
  run(sbatch_main, cluster, {"sbatch", "-J", "mine", path});
  EXPECT_EQ(submitted().spec.name, "mine");
  run(sbatch_main, cluster, {"sbatch", "--ignore-pbs", path});
  EXPECT_EQ(submitted().spec.name, "named");
}

TEST_F(Sbatch, ListingsSayThatAFilterNamesNothing) {
  cluster.answer = [](std::string_view, std::string_view) { return ApiClient::Reply{200, "text/plain", ""}; };
  (void)run(sinfo_main, cluster, {"sinfo", "-h", "-o", "%D", "-p", ""});
  (void)run(sinfo_main, cluster, {"sinfo", "-h", "-o", "%D", "-t", ""});
  const Variable set("SQUEUE_STATES", "");
  (void)run(squeue_main, cluster, {"squeue", "-h", "-o", "%i", "-S", "i"});
  EXPECT_EQ(cluster.asked[0], "GET /slurm/v1/sinfo?columns=nodes&partition=");
  EXPECT_EQ(cluster.asked[1], "GET /slurm/v1/sinfo?columns=nodes&states=");
  EXPECT_TRUE(cluster.asked[2].ends_with("&states=")) << cluster.asked[2];
}

// $SINFO_FORMAT and $SQUEUE_FORMAT stand for the plain list, and for -l of sinfo.
TEST_F(Sbatch, LayoutsOfTheirOwnAreNotReplacedByTheEnvironment) {
  cluster.answer = [](std::string_view, std::string_view) { return ApiClient::Reply{200, "text/plain", ""}; };
  const Variable of_sinfo("SINFO_FORMAT", "%D"), of_squeue("SQUEUE_FORMAT", "%i");
  for (const char* option : {"-R", "-s", "-N"})
    EXPECT_NE(run(sinfo_main, cluster, {"sinfo", option}).out, "NODES\n") << option;
  EXPECT_EQ(run(sinfo_main, cluster, {"sinfo"}).out, "NODES\n");
  EXPECT_TRUE(run(sinfo_main, cluster, {"sinfo", "-l"}).out.ends_with("\nNODES\n"));
  EXPECT_EQ(run(sinfo_main, cluster, {"sinfo", "-s", "-o", "%D"}).out, "NODES\n");
  for (const char* option : {"-l", "--start", "-s"})
    EXPECT_FALSE(run(squeue_main, cluster, {"squeue", option}).out.ends_with("\nJOBID\n") ||
                 run(squeue_main, cluster, {"squeue", option}).out.starts_with("JOBID\n"))
        << option;
  EXPECT_EQ(run(squeue_main, cluster, {"squeue"}).out, "JOBID\n");
  EXPECT_TRUE(run(squeue_main, cluster, {"squeue", "-l", "-o", "%i"}).out.ends_with("\nJOBID\n"));
}

TEST_F(Sbatch, SurplusWordsAreRefused) {
  const std::vector<std::vector<std::string>> shows = {
      {"job", "1", "2"}, {"node", "a", "b"}, {"hostnames", "a", "b"}, {"hostlist", "a", "b"}, {"partition", "a", "b"}};
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "scontrol");
    const auto result = run(scontrol_main, cluster, std::move(words));
    EXPECT_EQ(result.code, 1);
    return result.err;
  };
  for (std::vector<std::string> words : shows) {
    words.insert(words.begin(), "show");
    EXPECT_EQ(refused(words), "too many arguments for keyword:show\n");
  }
  EXPECT_EQ(refused({"ping", "x"}), "too many arguments for keyword:ping\n");
  EXPECT_EQ(refused({"write", "batch_script", "1", "x", "extra"}), "too many arguments for keyword:write\n");
  EXPECT_EQ(run(sprio_main, cluster, {"sprio", "extra"}).code, 1);
  EXPECT_EQ(run(scontrol_main, cluster, {"scontrol", "show", "hostnames", "n[1-2]"}).out, "n1\nn2\n");
  EXPECT_TRUE(cluster.asked.empty());
}

TEST_F(Sbatch, ScontrolTakesKeysAndNumbersInTwoWords) {
  cluster.answer = [](std::string_view, std::string_view) { return ApiClient::Reply{200, "application/json", "{}"}; };
  EXPECT_EQ(run(scontrol_main, cluster, {"scontrol", "update", "job", "527", "timelimit=7"}).code, 0);
  EXPECT_EQ(run(scontrol_main, cluster, {"scontrol", "release", "jobid=527"}).code, 0);
  EXPECT_EQ(run(scontrol_main, cluster, {"scontrol", "hold", "JobId=527"}).code, 0);
  EXPECT_EQ(run(scontrol_main, cluster, {"scontrol", "requeue", "job=527,528"}).code, 0);
  EXPECT_EQ(cluster.asked,
            (std::vector<std::string>{"POST /v1/jobs/527/update", "POST /v1/jobs/527/release", "POST /v1/jobs/527/hold",
                                      "POST /v1/jobs/527/requeue", "POST /v1/jobs/528/requeue"}));
  EXPECT_NE(cluster.bodies[0].find("420"), std::string::npos) << cluster.bodies[0];  // seconds
}

TEST_F(Sbatch, AnEmptyNameIsNobodys) {
  const auto refused = [&](int (*command)(const ClientContext&, int, char**), std::vector<std::string> words) {
    const auto result = run(command, cluster, std::move(words));
    EXPECT_EQ(result.code, 1);
    return result.err;
  };
  EXPECT_EQ(refused(scontrol_main, {"scontrol", "update", "nodename=", "state=resume"}),
            "slurm_update error: Invalid node name specified\n");
  EXPECT_EQ(refused(scontrol_main, {"scontrol", "update", "jobid=", "timelimit=7"}),
            "slurm_update error: Invalid job id specified\n");
  EXPECT_EQ(refused(scontrol_main, {"scontrol", "update", "partitionname=", "state=down"}),
            "slurm_update error: Invalid partition name specified\n");
  EXPECT_EQ(refused(scontrol_main, {"scontrol", "delete", "nodename="}),
            "slurm_update error: Invalid node name specified\n");
  EXPECT_EQ(refused(scontrol_main, {"scontrol", "delete", "reservation"}),
            "scontrol: error: Error deleting the reservation: Requested reservation is invalid\n");
  EXPECT_EQ(refused(scontrol_main, {"scontrol", "delete", "reservationname="}),
            "scontrol: error: Error deleting the reservation: Requested reservation is invalid\n");
  for (const char* entity : {"account", "user", "qos", "coordinator", "resource"})
    EXPECT_EQ(refused(sacctmgr_main, {"sacctmgr", "-i", "delete", entity, "name="}),
              "sacctmgr: error:  name= names nothing: give a name\n");
  for (const char* entity : {"account", "user", "qos"}) {
    EXPECT_EQ(refused(sacctmgr_main, {"sacctmgr", "-i", "modify", entity, "name=", "set", "fairshare=5"}),
              "sacctmgr: error:  name= names nothing: give a name\n");
    EXPECT_EQ(refused(sacctmgr_main, {"sacctmgr", "-i", "modify", entity, "", "set", "fairshare=5"}),
              "sacctmgr: error:  an empty word names nothing: give a name\n");
  }
  EXPECT_EQ(refused(sacctmgr_main, {"sacctmgr", "-i", "modify", "user", "ann", "account=", "set", "fairshare=5"}),
            "sacctmgr: error:  account= names nothing: give a name\n");
  EXPECT_TRUE(cluster.asked.empty());
}

TEST_F(Sbatch, ScancelOfAnothersJobFails) {
  cluster.answer = [](std::string_view, std::string_view) {
    return cancelled({{"5", {Errc::kDenied, "job 5 belongs to bob", ""}}, {"6", {Errc::kNotFound, "no job 6", ""}}});
  };
  const auto result = run(scancel_main, cluster, {"scancel", "5", "6", "7"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "scancel: error: Kill job error on job id 5: Access/permission denied\n");
  EXPECT_EQ(run(scancel_main, cluster, {"scancel", "-Q", "5"}).err, "");
}

TEST_F(Sbatch, ScancelShowsWhatAReadOnlyClusterSaysOfTheRest) {
  cluster.answer = [](std::string_view, std::string_view) {
    return cancelled({{"5", {Errc::kUnavailable, "it is read-only; 2 more were not tried", ""}}});
  };
  const auto result = run(scancel_main, cluster, {"scancel", "5", "6", "7"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "scancel: error: Kill job error on job id 5: it is read-only; 2 more were not tried\n");
}

}  // namespace
}  // namespace lockstep::slurm
