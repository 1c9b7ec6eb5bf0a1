#include "frontends/slurm/client/options.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace lockstep::slurm {
namespace {

// Reads words as the given command would; the error's message is left in `why`.
struct Reader {
  explicit Reader(SlurmCommand command) : options(command) {}
  Reader& line(std::vector<std::string> words, unsigned number = 3) {
    note(options.read_directive(words, number));
    return *this;
  }
  Reader& environment(std::map<std::string, std::string> variables) {
    note(options.read_environment([&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    }));
    return *this;
  }
  Reader& command_line(std::vector<std::string> words) {
    words.insert(words.begin(), "command");
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    auto read = options.read_command_line(static_cast<int>(words.size()), argv.data());
    first = read ? *read : -1;
    if (!read)
      why = read.error().message;
    return *this;
  }
  void note(const Result<void>& result) {
    if (!result)
      why = result.error().message;
  }
  OptionSet options;
  std::string why;
  int first = 0;
};

TEST(Options, ShortLongAndAbbreviated) {
  Reader r(SlurmCommand::kSbatch);
  r.command_line(
      {"-N2", "-n", "8", "--cpus-per-task", "4", "--err=e.txt", "--mail-use=me", "-Hk", "job.sh", "-x", "a"});
  ASSERT_EQ(r.why, "");
  EXPECT_EQ(r.options.text("nodes"), "2");
  EXPECT_EQ(r.options.text("ntasks"), "8");
  EXPECT_EQ(r.options.text("cpus-per-task"), "4");
  EXPECT_EQ(r.options.text("error"), "e.txt");
  EXPECT_TRUE(r.options.has("mail-user"));
  EXPECT_TRUE(r.options.has("hold"));
  EXPECT_TRUE(r.options.has("no-kill"));
  EXPECT_FALSE(r.options.has("exclude"));  // after the script's name everything is the script's
  EXPECT_EQ(r.first, 9);
}

TEST(Options, UnknownOnesFailAsSlurms) {
  EXPECT_EQ(Reader(SlurmCommand::kSbatch).command_line({"--main-user=x"}).why,
            "unrecognized option '--main-user=x'; did you mean '--mail-user'?");
  EXPECT_EQ(Reader(SlurmCommand::kSbatch).command_line({"--foo"}).why, "unrecognized option '--foo'");
  EXPECT_EQ(Reader(SlurmCommand::kSbatch).command_line({"-y"}).why, "invalid option -- 'y'");
  EXPECT_EQ(Reader(SlurmCommand::kSbatch).command_line({"--nodes"}).why, "option '--nodes' requires an argument");
  EXPECT_EQ(Reader(SlurmCommand::kSbatch).command_line({"-N"}).why, "option requires an argument -- 'N'");
  EXPECT_EQ(Reader(SlurmCommand::kSbatch).command_line({"--hold=1"}).why, "option '--hold' doesn't allow an argument");
  EXPECT_EQ(Reader(SlurmCommand::kSbatch).line({"--foo"}, 7).why, "unrecognized option '--foo' (script line 7)");
  EXPECT_NE(Reader(SlurmCommand::kSbatch).command_line({"--mem-per=1"}).why.find("is ambiguous"), std::string::npos);
  EXPECT_EQ(Reader(SlurmCommand::kSbatch).command_line({"--pty"}).why, "unrecognized option '--pty'");  // srun's
}

TEST(Options, CommandLineBeatsEnvironmentBeatsDirective) {
  Reader r(SlurmCommand::kSbatch);
  r.command_line({"-p", "line"}).environment({{"SBATCH_PARTITION", "variable"}, {"SBATCH_QOS", "variable"}});
  r.line({"-p", "script", "-q", "script", "-J", "script"});
  EXPECT_EQ(r.options.text("partition"), "line");
  EXPECT_EQ(r.options.text("qos"), "variable");
  EXPECT_EQ(r.options.text("job-name"), "script");
}

TEST(Options, LaterOnOneLevelWins) {
  Reader r(SlurmCommand::kSbatch);
  r.line({"--time=1"}, 2).line({"--time=2"}, 3);
  EXPECT_EQ(r.options.text("time"), "2");
  EXPECT_EQ(r.options.find("time")->line, 3u);
}

TEST(Options, OneWayOfSayingMemory) {
  Reader script_and_line(SlurmCommand::kSbatch);
  script_and_line.command_line({"--mem-per-cpu=2G"}).line({"--mem=8G"});
  EXPECT_FALSE(script_and_line.options.has("mem"));
  EXPECT_TRUE(script_and_line.options.has("mem-per-cpu"));
  EXPECT_NE(Reader(SlurmCommand::kSbatch).command_line({"--mem=1", "--mem-per-gpu=2"}).why.find("mutually exclusive"),
            std::string::npos);
}

TEST(Options, RequeueAndItsOpposite) {
  Reader r(SlurmCommand::kSbatch);
  r.line({"--no-requeue"}).line({"--requeue"}, 4);
  EXPECT_TRUE(r.options.has("requeue"));
  EXPECT_FALSE(r.options.has("no-requeue"));
}

TEST(Options, EnvironmentFlagsHaveValues) {
  EXPECT_TRUE(Reader(SlurmCommand::kSrun).environment({{"SLURM_LABELIO", "1"}}).options.has("label"));
  EXPECT_FALSE(Reader(SlurmCommand::kSrun).environment({{"SLURM_LABELIO", "0"}}).options.has("label"));
  EXPECT_TRUE(Reader(SlurmCommand::kSbatch).environment({{"SBATCH_REQUEUE", ""}}).options.has("requeue"));
  EXPECT_NE(Reader(SlurmCommand::kSrun).environment({{"SLURM_LABELIO", "purple"}}).why, "");
}

TEST(Options, SrunReadsItsJobsVariables) {
  Reader r(SlurmCommand::kSrun);
  r.environment({{"SLURM_JOB_ID", "12"},
                 {"SLURM_NNODES", "4"},
                 {"SLURM_NTASKS", "32"},
                 {"SLURM_NPROCS", "31"},
                 {"SLURM_CPUS_PER_TASK", "2"},
                 {"SRUN_CPUS_PER_TASK", "3"}});
  EXPECT_EQ(r.options.text("jobid"), "12");
  EXPECT_EQ(r.options.text("nodes"), "4");
  EXPECT_EQ(r.options.text("ntasks"), "32");
  EXPECT_EQ(r.options.text("cpus-per-task"), "3");
  EXPECT_FALSE(Reader(SlurmCommand::kSbatch).environment({{"SLURM_NTASKS", "32"}}).options.has("ntasks"));
}

TEST(Options, OfTwoSpellingsOfAVariableTheNewerCounts) {
  Reader r(SlurmCommand::kSrun);
  r.environment({{"SLURM_JOB_ID", "12"},
                 {"SLURM_JOBID", "7"},
                 {"SLURM_JOB_NUM_NODES", "4"},
                 {"SLURM_NNODES", "3"},
                 {"SRUN_OUTPUT", "out"},
                 {"SLURM_STDOUTMODE", "all"},
                 {"SRUN_INPUT", "in"},
                 {"SRUN_ERROR", "err"}});
  EXPECT_EQ(r.options.text("jobid"), "12");
  EXPECT_EQ(r.options.text("nodes"), "4");
  EXPECT_EQ(r.options.text("output"), "out");
  EXPECT_EQ(r.options.text("input"), "in");
  EXPECT_EQ(r.options.text("error"), "err");
  EXPECT_EQ(Reader(SlurmCommand::kSrun).environment({{"SLURM_JOBID", "7"}}).options.text("jobid"), "7");
}

TEST(Options, RefusedOnesNameThemselves) {
  EXPECT_EQ(Reader(SlurmCommand::kSbatch).line({"--bbf=spec"}, 9).why,
            "--bbf (script line 9): there are no burst buffers");
  EXPECT_NE(Reader(SlurmCommand::kSrun).command_line({"--bcast=/tmp/x", "a.out"}).why, "");
}

TEST(Options, AdvisoryOnesSaySoOnce) {
  Reader r(SlurmCommand::kSbatch);
  r.line({"--mail-type=END"}, 2).line({"--mail-type=ALL"}, 3);
  EXPECT_EQ(r.why, "");
  EXPECT_EQ(r.options.notes().size(), 1u);
}

TEST(Options, LeftoverWordsOfADirectiveAreReported) {
  Reader r(SlurmCommand::kSbatch);
  r.line({"-J", "my", "job", "--time=5"}, 4);
  EXPECT_EQ(r.options.text("job-name"), "my");
  EXPECT_EQ(r.options.text("time"), "5");
  ASSERT_EQ(r.options.notes().size(), 1u);
  EXPECT_EQ(r.options.notes()[0], "script line 4: \"job\" is no option and is ignored");
}

TEST(Options, ControlCharactersAreRefused) {
  EXPECT_NE(Reader(SlurmCommand::kSbatch).command_line({"-J", "a\x01"}).why, "");
}

TEST(OptionTable, EveryOptionOfTheManualsIsKnown) {
  // As the manuals of Slurm 24.11 list them.
  const std::map<SlurmCommand, std::vector<std::string_view>> manuals = {
      {SlurmCommand::kSbatch,
       {"output",
        "time",
        "nodes",
        "error",
        "wrap",
        "ntasks",
        "exclusive",
        "job-name",
        "nodelist",
        "array",
        "gres",
        "account",
        "partition",
        "mem",
        "cpus-per-task",
        "mem-per-cpu",
        "begin",
        "deadline",
        "distribution",
        "ntasks-per-node",
        "requeue",
        "constraint",
        "oversubscribe",
        "reservation",
        "clusters",
        "gpus",
        "overcommit",
        "dependency",
        "extra",
        "sockets-per-node",
        "wait",
        "core-spec",
        "help",
        "gpus-per-task",
        "hint",
        "mcs-label",
        "bb",
        "container",
        "gpus-per-node",
        "gpus-per-socket",
        "qos",
        "comment",
        "ntasks-per-core",
        "time-min",
        "cpus-per-gpu",
        "gpu-freq",
        "ntasks-per-socket",
        "profile",
        "acctg-freq",
        "cluster-constraint",
        "exclude",
        "licenses",
        "mail-type",
        "nice",
        "cores-per-socket",
        "export",
        "input",
        "bbf",
        "no-requeue",
        "switches",
        "thread-spec",
        "threads-per-core",
        "tres-per-task",
        "verbose",
        "wait-all-nodes",
        "wckey",
        "contiguous",
        "gpu-bind",
        "mail-user",
        "mem-per-gpu",
        "mincpus",
        "open-mode",
        "usage",
        "version",
        "extra-node-info",
        "ignore-pbs",
        "no-kill",
        "quiet",
        "signal",
        "test-only",
        "batch",
        "mem-bind",
        "network",
        "nodefile",
        "ntasks-per-gpu",
        "propagate",
        "reboot",
        "tmp",
        "uid",
        "use-min-nodes",
        "chdir",
        "delay-boot",
        "export-file",
        "get-user-env",
        "gid",
        "parsable",
        "priority",
        "resv-ports",
        "container-id",
        "cpu-freq",
        "gres-flags",
        "kill-on-invalid-dep",
        "oom-kill-step",
        "prefer",
        "segment",
        "spread-job",
        "stepmgr",
        "tres-bind",
        "hold"}},
      {SlurmCommand::kSrun,
       {"label",
        "cpu-bind",
        "mpi",
        "het-group",
        "input",
        "overlap",
        "immediate",
        "jobid",
        "unbuffered",
        "wait",
        "no-allocate",
        "pty",
        "exact",
        "task-epilog",
        "task-prolog",
        "threads",
        "kill-on-bad-exit",
        "multi-prog",
        "quit-on-interrupt",
        "slurmd-debug",
        "preserve-env",
        "bcast",
        "external-launcher",
        "relative",
        "disable-status",
        "epilog",
        "prolog",
        "x11",
        "msg-timeout",
        "bcast-exclude",
        "compress",
        "send-libs",
        "treewidth",
        "nodes",
        "ntasks",
        "gpus",
        "gres",
        "mem",
        "output",
        "error",
        "test-only"}},
      {SlurmCommand::kSalloc,
       {"no-shell", "bell", "no-bell", "kill-command", "immediate", "x11", "nodes", "ntasks", "gpus", "gres", "mem",
        "wait-all-nodes", "licenses", "time"}}};
  for (const auto& [command, names] : manuals) {
    std::set<std::string_view> known;
    for (const auto& def : option_table())
      if (def.commands & static_cast<unsigned>(command))
        known.insert(def.name);
    for (const auto name : names) EXPECT_TRUE(known.contains(name)) << name_of(command) << " --" << name;
  }
}

TEST(OptionTable, NoLetterOrNameTwice) {
  for (const auto command : {SlurmCommand::kSbatch, SlurmCommand::kSrun, SlurmCommand::kSalloc}) {
    std::set<std::string> names;
    std::set<char> letters;
    for (const auto& def : option_table()) {
      if (!(def.commands & static_cast<unsigned>(command)))
        continue;
      EXPECT_TRUE(names.insert(def.name).second) << def.name;
      if (def.letter) {
        EXPECT_TRUE(letters.insert(def.letter).second) << def.letter << " of " << def.name;
      }
    }
  }
}

TEST(OptionTable, HelpNamesEveryEffectiveOption) {
  const std::string help = help_text(SlurmCommand::kSrun);
  EXPECT_NE(help.find("--gpus-per-node"), std::string::npos);
  EXPECT_NE(help.find("Examples"), std::string::npos);
  EXPECT_EQ(help.find("--parsable"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::slurm
