// --propagate: the soft limits of the submitting shell, which become those of its tasks as far as the node's hard ones
// go. They travel as SLURM_RLIMIT_NAME=number in the environment, as in Slurm; the shim takes them out again.
#pragma once

#include <string>

#include "frontends/slurm/client/environment.h"

namespace lockstep::slurm {

// propagate: "ALL" or "" = all that Slurm knows, "NONE", or names with commas between them: "STACK,NOFILE".
Result<void> put_shell_limits(Variables& variables, const std::string& propagate);

}  // namespace lockstep::slurm
