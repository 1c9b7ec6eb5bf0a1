// The words of `lockstep`: verbs, help, completion and manual pages.
#include <gtest/gtest.h>

#include <cstdio>
#include <tuple>

#include "base/text.h"
#include "cli/cli.h"
#include "frontends/slurm/client/options.h"

namespace lockstep {
namespace {

struct Said {
  int code = 0;
  std::string out, err;
};

Said lockstep(std::vector<std::string> words) {
  words.insert(words.begin(), "lockstep");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const slurm::ClientContext context{[] {
    return Result<std::unique_ptr<ApiClient>>(Error{Errc::kUnavailable, "no cluster", {}});
  }};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Said said;
  said.code = cli_main(context, static_cast<int>(words.size()), argv.data());
  std::fflush(stdout);
  said.out = testing::internal::GetCapturedStdout();
  said.err = testing::internal::GetCapturedStderr();
  return said;
}

TEST(Verbs, HelpListsThem) {
  const std::string help = lockstep({}).out;
  EXPECT_EQ(lockstep({"help"}).out, help);
  EXPECT_EQ(lockstep({"help", "help"}).out, help);
  EXPECT_EQ(lockstep({"-h"}).out, help);
  for (const char* verb : {"up", "down", "submit", "explain"})
    EXPECT_NE(help.find(format("\n  {} ", verb)), std::string::npos) << verb;
  EXPECT_EQ(lockstep({"help", "down"}).out, lockstep({"down", "--help"}).out);
  EXPECT_TRUE(lockstep({"version"}).out.starts_with("lockstep "));
}

TEST(Verbs, UnknownOnesAreGuessed) {
  const Said said = lockstep({"stauts"});
  EXPECT_EQ(said.code, 2);
  EXPECT_EQ(said.err, "lockstep: no such verb: stauts\nDid you mean `lockstep status`?\nTry `lockstep help`.\n");
}

TEST(Verbs, AnEmptyDirectoryIsNotTheDefaultOne) {
  for (const auto& words : {std::vector<std::string>{"down", "--dir="}, {"status", "--dir", ""}}) {
    const Said said = lockstep(words);
    EXPECT_EQ(said.code, 2);
    EXPECT_TRUE(said.err.starts_with("lockstep: --dir is empty")) << said.err;
  }
}

// Each would act on something else, as if the word had not been there.
TEST(Verbs, AWordThatIsNotTakenIsRefused) {
  using Words = std::vector<std::string>;
  const std::string dir = "; to name a directory: --dir DIR", one = "; one job at a time";
  const std::tuple<Words, const char*, std::string> kCases[] = {
      {{"down", "x", "--delete"}, "down", dir},
      {{"down", "--delete", "x"}, "down", dir},
      {{"up", "x"}, "up", dir},
      {{"status", "x"}, "status", dir},
      {{"env", "x"}, "env", dir},
      {{"logs", "controller", "x"}, "logs", dir},
      {{"topology", "clear", "x"}, "topology", dir},
      {{"topology", "show", "x"}, "topology", dir},
      {{"topology", "help", "x"}, "topology", dir},
      {{"topology", "load", "file", "x"}, "topology", dir},
      {{"topology", "check", "file", "x"}, "topology", dir},
      {{"node", "token", "x"}, "node", "; to name nodes: --node NAMES"},
      {{"node", "help", "x"}, "node", ""},
      {{"apply", "x"}, "apply", "; to name a file: -f FILE"},
      {{"diff", "-f", "f", "x"}, "diff", "; to name a file: -f FILE"},
      {{"explain", "12", "x"}, "explain", one},
      {{"checkpoint", "12", "x"}, "checkpoint", one},
      {{"tasks", "12", "x"}, "tasks", one},
      {{"whatif", "--file", "f", "x"}, "whatif", "; changes: --file CHANGES"},
      {{"completion", "bash", "x"}, "completion", ""},
      {{"man", "srun", "x"}, "man", ""},
      {{"import", "slurm.conf", "x"}, "import", ""},
      {{"version", "x"}, "version", ""},
      {{"--version", "x"}, "version", ""},
      {{"help", "down", "x"}, "help", ""},
      {{"--help", "x"}, "help", ""},
  };
  for (const auto& [words, verb, instead] : kCases) {
    const Said said = lockstep(words);
    EXPECT_EQ(said.code, 2) << join(words, " ");
    EXPECT_EQ(said.out, "") << join(words, " ");
    EXPECT_EQ(said.err, format("lockstep {0}: unexpected argument: x{1}\nTry `lockstep {0} --help`.\n", verb, instead));
  }
}

TEST(Verbs, AnOptionThatIsNotTakenIsRefusedInTheSameWords) {
  for (const char* verb : {"up",     "down",       "status", "env",     "node", "topology", "logs",       "explain",
                           "whatif", "checkpoint", "get",    "apply",   "diff", "import",   "backup",     "restore",
                           "doctor", "completion", "man",    "version", "help", "tasks",    "kubeconfig", "health"}) {
    std::vector<std::string> words{verb, "--bogus"};
    if (verb == std::string_view("node") || verb == std::string_view("topology"))
      words.insert(words.begin() + 1, "help");
    const Said said = lockstep(words);
    EXPECT_EQ(said.code, 2) << verb;
    EXPECT_EQ(said.err, format("lockstep {0}: unrecognized option '--bogus'\nTry `lockstep {0} --help`.\n", verb));
    EXPECT_EQ(lockstep({verb, "--help"}).code, 0) << verb;
  }
}

TEST(Apply, SaysWhichFileIsMissingOrWhy) {
  EXPECT_EQ(lockstep({"apply"}).err, "lockstep apply: say which file: -f cluster.yaml\nTry `lockstep apply --help`.\n");
  EXPECT_EQ(lockstep({"apply"}).code, 2);
  EXPECT_EQ(lockstep({"diff", "-f", "-", "-f", "-"}).code, 2);
  EXPECT_EQ(lockstep({"apply", "-f", "/no/such/file"}).err,
            "lockstep apply: cannot open /no/such/file: No such file or directory\n");
  EXPECT_EQ(lockstep({"diff", "-f", "/no/such/file"}).code, 2);
  EXPECT_EQ(lockstep({"apply", "-f", "/"}).err, "lockstep apply: / is a directory, not a file\n");
  EXPECT_TRUE(lockstep({"apply", "--schema"}).out.starts_with("{\"$schema\""));
  EXPECT_NE(lockstep({"apply", "--keys"}).out.find("| `time_max` | duration | unlimited |"), std::string::npos);
  EXPECT_EQ(lockstep({"get", "partition"}).err,
            "lockstep get: no kind \"partition\" is known: did you mean \"partitions\"?\n");
  EXPECT_EQ(lockstep({"get", "-o", "xml"}).code, 2);
}

TEST(Node, ATokenIsAskedForWithOptions) {
  const Said none = lockstep({"node", "token"});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err,
            "lockstep node: say which names the token may give: --node NAMES (n5, gpu[1-8]), or --any-name\n");
  EXPECT_NE(lockstep({"node", "token", "--any-name", "--node", "n1"}).err.find("not both"), std::string::npos);
  EXPECT_NE(lockstep({"node", "token", "--any-name", "--replace"}).err.find("--node NAMES"), std::string::npos);
}

TEST(Node, WhatJoinsAndLeavesIsCheckedFirst) {
  const std::string token = "a.b." + std::string(64, '0');
  for (const auto& [words, told] : {std::pair<std::vector<std::string>, const char*>{{}, "--controller HOST:PORT and"},
                                    {{"--controller", "x", "--token", token}, "write HOST:PORT"},
                                    {{"--controller", "x:0", "--token", token}, "write HOST:PORT"},
                                    {{"--controller", "x:1", "--token", "a.b.c"}, "no token of"},
                                    {{"--controller", "x:1", "--token", token, "--peer-port", "x"}, "from 0 to 65535"},
                                    {{"n1"}, "unexpected argument"},
                                    {{"--frob"}, "unrecognized option"}}) {
    std::vector<std::string> all{"node", "join"};
    all.insert(all.end(), words.begin(), words.end());
    const Said said = lockstep(all);
    EXPECT_EQ(said.code, 2) << join(words, " ");
    EXPECT_NE(said.err.find(told), std::string::npos) << said.err;
  }
  EXPECT_TRUE(lockstep({"node", "join", "--help"}).out.starts_with("Usage: lockstep node join"));
  EXPECT_TRUE(lockstep({"node", "leave", "--help"}).out.starts_with("Usage: lockstep node leave"));
  EXPECT_EQ(lockstep({"node", "leave", "n1"}).code, 2);
}

TEST(Verbs, SlurmsCommandsHaveOtherNames) {
  EXPECT_EQ(lockstep({"jobs", "--help"}).out, lockstep({"squeue", "--help"}).out);
  EXPECT_TRUE(lockstep({"show", "--help"}).out.starts_with("Usage: scontrol"));
  const Said shown = lockstep({"show", "hostnames", "n[1-2]"});
  EXPECT_EQ(shown.out, "n1\nn2\n");
  const Said none = lockstep({"jobs"});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.err,
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
            "squeue: error: no cluster\n");
}

TEST(Completion, OfEachShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Said said = lockstep({"completion", shell});
    EXPECT_EQ(said.code, 0) << shell;
    EXPECT_NE(said.out.find(shell), std::string::npos);
  }
  EXPECT_EQ(lockstep({"completion", "tcsh"}).code, 2);
  EXPECT_EQ(lockstep({"completion"}).code, 2);
  EXPECT_EQ(lockstep({"completion", "--help"}).code, 0);
}

TEST(Completion, ALetterMeansWhatItsCommandMeans) {
  const std::string text = lockstep({"completion", "bash"}).out;
  const auto follows = [&](const std::string& option) {  // of this case
    const auto line = text.substr(text.find(option));
    const auto from = line.find(") ");
    return line.substr(from + 2, line.find(" ;;") - from - 2);
  };
  const std::string nodes = "sinfo -h -N -o %N 2> /dev/null";
  EXPECT_TRUE(follows("sbatch:-p)").starts_with("sinfo -h -o %R"));
  for (const char* command : {"sbatch", "srun", "salloc"}) {
    EXPECT_EQ(follows(format("{}:--nodes ", command)), ":") << command;  // a number
    EXPECT_EQ(follows(format("{}:-N)", command)), ":") << command;
    EXPECT_EQ(follows(format("{}:-t)", command)), ":") << command;  // a time, of which nobody knows values
    EXPECT_EQ(follows(format("{}:-w)", command)), nodes) << command;
  }
  EXPECT_EQ(text.find("sbatch:--output"), std::string::npos) << "a file, which the shell completes";
  EXPECT_EQ(text.find("*:-"), std::string::npos) << "no option means the same everywhere";
  EXPECT_TRUE(follows("squeue:-n)").starts_with("squeue -h -o %j"));
  EXPECT_EQ(follows("sinfo:-n)"), nodes);
  EXPECT_NE(follows("squeue:-t)").find(" COMPLETED "), std::string::npos);
  EXPECT_EQ(follows("scancel:-t)"), "printf '%s\\n' PENDING RUNNING SUSPENDED 2> /dev/null");
  EXPECT_TRUE(follows("sinfo:-t)").starts_with("printf '%s\\n' idle alloc mix down drain "));
  for (const auto& verb : all_verbs()) EXPECT_NE(text.find(verb), std::string::npos) << verb;
}

TEST(Completion, FishKnowsEveryOptionThatIsTaken) {
  const std::string text = lockstep({"completion", "fish"}).out;
  using enum slurm::SlurmCommand;
  for (const auto command : {kSbatch, kSrun, kSalloc})
    for (const auto& def : slurm::option_table()) {
      if (!(def.commands & static_cast<unsigned>(command)))
        continue;
      const bool is_offered =
          text.find(format("complete -c {} -l {} ", slurm::name_of(command), def.name)) != std::string::npos;
      const bool is_taken = !def.same_as && def.standing != slurm::Standing::kRefused && *def.about != '\0';
      EXPECT_EQ(is_offered, is_taken) << slurm::name_of(command) << " --" << def.name;
    }
  EXPECT_NE(text.find("complete -c srun -l nodes -s N -x -d "), std::string::npos) << "a number";
  EXPECT_NE(text.find("complete -c sbatch -l output -s o -r -d "), std::string::npos) << "a file";
  EXPECT_EQ(text.find("complete -c scancel -l states"), std::string::npos);
  EXPECT_EQ(text.find("complete -c sshare -s p"), std::string::npos) << "it takes none";
}

TEST(Care, WordsAreCheckedBeforeAnythingIsDone) {
  const std::pair<std::vector<std::string>, const char*> kBad[] = {
      {{"backup"}, "where to?"},
      {{"backup", "/x", "--keep", "0"}, "--keep 0: a number"},
      {{"backup", "/x", "--rate", "fast"}, "--rate fast: a number"},
      {{"backup", "/x", "-o", "yaml"}, "write table or json"},
      {{"backup", "/x", "/y"}, "/y"},
      {{"restore"}, "which backup?"},
      {{"restore", "/x"}, "Say --dir NEW"},
      {{"restore", "--take-over", "--replace"}, "which backup?"},
      {{"doctor", "disk"}, "disk is no check: did you mean \"disks\"?"},
      {{"doctor", "-o", "xml"}, "write table or json"},
      {{"doctor", "--settings", "/nowhere/agent.json"}, "there is no /nowhere/agent.json"},
  };
  for (const auto& [words, says] : kBad) {
    const Said said = lockstep(words);
    EXPECT_EQ(said.code, 2) << join(words, " ");
    EXPECT_NE(said.err.find(says), std::string::npos) << said.err;
  }
  const std::string listed = lockstep({"doctor", "--list"}).out;
  for (const auto& check : doctor_checks())
    EXPECT_NE(listed.find("\n" + std::string(check) + " "), std::string::npos) << check;
}

TEST(Man, PagesOfTheTableNameEveryOption) {
  const Said said = lockstep({"man", "sbatch"});
  EXPECT_EQ(said.code, 0);
  EXPECT_TRUE(said.out.starts_with(".TH SBATCH 1"));
  EXPECT_NE(said.out.find("\\fB\\-\\-gpus\\-per\\-node\\fR"), std::string::npos);
  EXPECT_NE(said.out.find("SBATCH_PARTITION"), std::string::npos);
  EXPECT_EQ(lockstep({"man", "nosuch"}).code, 1);
  EXPECT_EQ(lockstep({"man", "--frob"}).code, 2);
}

TEST(Up, OptionsAreCheckedBeforeAnythingIsMade) {
  for (const auto& words : {std::vector<std::string>{"up", "--cpus", "0"},
                            {"up", "--cpus", "513"},
                            {"up", "--port", "70000"},
                            {"up", "--gpus", "x"},
                            {"up", "--gpus", "8xh100"},
                            {"up", "--memory", "lots"},
                            {"up", "--name", "a/b"},
                            {"up", "--defragment=0"},
                            {"up", "--listen", "host"},
                            {"up", "--listen", "127.0.0.1:0"},
                            {"up", "--listen", "127.0.0.1", "--port", "7000"},
                            {"up", "--frob"},
                            {"up", "now"}}) {
    const Said said = lockstep(words);
    EXPECT_EQ(said.code, 2) << join(words, " ");
    EXPECT_NE(said.err.find("lockstep up: "), std::string::npos) << join(words, " ");
  }
}

}  // namespace
}  // namespace lockstep
