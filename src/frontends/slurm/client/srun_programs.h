// srun A : B : one step whose ranks run different programs, one component after the other.
#pragma once

#include "frontends/slurm/client/invocation.h"

namespace lockstep::slurm {

struct Programs {
  OptionSet options;                              // of the whole: the first component's, with everybody's tasks
  std::vector<std::vector<std::string>> by_rank;  // argv
};
// What can be one step: components that differ in their number of tasks and in their program only. Inside of a het job
// each would need a component of the job for itself.
Result<Programs> programs_of(const Invocation& invocation, bool in_het_job);

}  // namespace lockstep::slurm
