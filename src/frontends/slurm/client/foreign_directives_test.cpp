#include "frontends/slurm/client/foreign_directives.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "frontends/slurm/client/options.h"

namespace lockstep::slurm {
namespace {

// The words of sbatch that a script's lines stand for, then what is told.
std::string translated(std::string_view script) {
  const auto read = read_foreign_directives(script);
  if (!read)
    return "error: " + read.error().message;
  std::string out;
  OptionSet options(SlurmCommand::kSbatch);
  for (const Directive& directive : read->directives) {
    out += (out.empty() ? "" : " ") + join(directive.words, " ");
    if (const auto taken = options.read_directive(directive.words, directive.line); !taken)
      out += " [sbatch: " + taken.error().message + "]";
  }
  for (const std::string& note : read->notes) out += "; " + note;
  return out;
}

std::string pbs(const std::string& line) { return translated("#!/bin/sh\n#PBS " + line + "\ntrue\n"); }
std::string bsub(const std::string& line) { return translated("#!/bin/sh\n#BSUB " + line + "\ntrue\n"); }

TEST(ForeignDirectives, PbsLinesAreTheSbatchOptionsOfTheSameMeaning) {
  EXPECT_EQ(pbs("-N train"), "--job-name=train");
  EXPECT_EQ(pbs("-q gpu -A lab"), "--partition=gpu --account=lab");
  EXPECT_EQ(pbs("-l nodes=2:ppn=8,walltime=01:30:00"), "--nodes=2 --ntasks=16 --time=01:30:00");
  EXPECT_EQ(pbs("-l nodes=2:ppn=4:gpus=2"), "--gpus-per-node=2 --nodes=2 --ntasks=8");
  EXPECT_EQ(pbs("-l nodes=n1+n2:ppn=3"), "--ntasks=3 --nodelist=n1,n2");
  EXPECT_EQ(pbs("-l mem=16gb"), "--mem=16g");
  EXPECT_EQ(pbs("-l select=2:ncpus=8:mpiprocs=4:ngpus=1:mem=8gb"),
            "--nodes=2 --mincpus=8 --ntasks-per-node=4 --gpus-per-node=1 --mem=8g --cpus-per-task=2");
  EXPECT_EQ(pbs("-t 1-5 -o out.log"), "--array=1-5 --output=out.log");
  EXPECT_EQ(pbs("-m abe -M me@example.org"), "--mail-type=BEGIN,END,FAIL --mail-user=me@example.org");
  EXPECT_EQ(pbs("-W depend=afterok:12 -h"), "--dependency=afterok:12 --hold");
  EXPECT_EQ(pbs("-v A,B=1 -v C"), "--export=A,B=1 --export=A,B=1,C");
  EXPECT_EQ(pbs("-j oe -V -k oe -r n -S /bin/bash"), "");
}

TEST(ForeignDirectives, WhatHasNoMeaningHereIsToldOf) {
  EXPECT_EQ(pbs("-l feature=x,walltime=10"),
            "--time=10; script line 2: #PBS -l feature=x has no meaning here and is ignored");
  EXPECT_EQ(pbs("-W group_list=lab"), "; script line 2: #PBS -W group_list=lab has no meaning here and is ignored");
  EXPECT_EQ(pbs("-Q"), "error: script line 2: #PBS: invalid option -- 'Q'");
  EXPECT_EQ(pbs("-N a b"), "error: script line 2: #PBS: Invalid argument: b");
  EXPECT_EQ(pbs("-l nodes=2:ppn=many"),
            "error: script line 2: nodes=2:ppn=many: \"ppn=many\" is no number of nodes, no "
            "ppn=N, gpus=N and no name");
  EXPECT_EQ(pbs("-l walltime="), "error: script line 2: No value given for walltime");
}

TEST(ForeignDirectives, BsubLines) {
  EXPECT_EQ(bsub("-J train -n 2,8 -W 30 -q gpu"), "--job-name=train --ntasks=8 --time=30 --partition=gpu");
  EXPECT_EQ(bsub("-M 4096 -x -m \"n1 n2\" -cwd /tmp"), "--mem-per-cpu=4096K --exclusive --nodelist=n1,n2 --chdir=/tmp");
  EXPECT_EQ(bsub("-n 2,"), "error: script line 2: #BSUB -n format not correct given: '2,'");
}

TEST(ForeignDirectives, OfOneSchedulerAloneAndNotFarBelow) {
  EXPECT_EQ(translated("#!/bin/sh\n#PBS -N a\n#BSUB -J b\n"), "--job-name=b");
  EXPECT_EQ(translated("#!/bin/sh\necho\n#PBS -N a\n"), "--job-name=a");
  std::string far = "#!/bin/sh\n";
  for (int i = 0; i < 101; ++i) far += "echo\n";
  EXPECT_EQ(translated(far + "#PBS -N a\n"), "");
  EXPECT_EQ(translated("#!/bin/sh\n##PBS -N a\n # PBS -N b\n"), "");
}

}  // namespace
}  // namespace lockstep::slurm
