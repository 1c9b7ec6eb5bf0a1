// The words of `lockstep`: verbs, help, completion and manual pages.
#include <gtest/gtest.h>

#include <cstdio>

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

TEST(Verbs, SlurmsCommandsHaveOtherNames) {
  EXPECT_EQ(lockstep({"jobs", "--help"}).out, lockstep({"squeue", "--help"}).out);
  EXPECT_TRUE(lockstep({"show", "--help"}).out.starts_with("Usage: scontrol"));
  const Said shown = lockstep({"show", "hostnames", "n[1-2]"});
  EXPECT_EQ(shown.out, "n1\nn2\n");
  const Said none = lockstep({"jobs"});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.err, "squeue: error: no cluster\n");
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
  EXPECT_NE(text.find("sbatch:-p) sinfo"), std::string::npos);
  EXPECT_NE(text.find("srun:-t) : ;;"), std::string::npos);  // a time, of which nobody knows values
  EXPECT_NE(text.find("*:--states"), std::string::npos);
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
                            {"up", "--frob"},
                            {"up", "now"}}) {
    const Said said = lockstep(words);
    EXPECT_EQ(said.code, 2) << join(words, " ");
    EXPECT_NE(said.err.find("lockstep up: "), std::string::npos) << join(words, " ");
  }
}

}  // namespace
}  // namespace lockstep
