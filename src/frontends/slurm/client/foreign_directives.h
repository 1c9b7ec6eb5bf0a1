// Lines of other schedulers' scripts, which Slurm's sbatch reads where it finds them: "#BSUB -n 4" of LSF, or else
// "#PBS -l nodes=2:ppn=8" of PBS and Torque, each as the sbatch options of the same meaning. They count over #SBATCH
// lines, and less than the environment and the command line. Whatever has no such option is told of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontends/slurm/client/script.h"

namespace lockstep::slurm {

struct ForeignOptions {
  std::vector<Directive> directives;  // words of sbatch
  std::vector<std::string> notes;     // warnings for people
};
Result<ForeignOptions> read_foreign_directives(std::string_view script);

}  // namespace lockstep::slurm
