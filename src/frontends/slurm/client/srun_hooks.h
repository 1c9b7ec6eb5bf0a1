// srun's own programs around a step, on srun's machine: --prolog before it is made, --epilog when it has ended. Each
// gets the step's words as its arguments.
#pragma once

#include <string>
#include <vector>

#include "frontends/slurm/client/options.h"
#include "frontends/slurm/client/say.h"
#include "model/ids.h"

namespace lockstep::slurm {

// Runs the program of the option `name` and waits for it; nothing without one. What it returns changes nothing, as with
// Slurm, and is said.
void run_beside_step(const OptionSet& options, std::string_view name, const std::vector<std::string>& words, JobId job,
                     const Voice& voice);

}  // namespace lockstep::slurm
