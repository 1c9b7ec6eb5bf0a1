// The options of containers, as pyxis has them, and Slurm's own --container=BUNDLE.
#pragma once

#include <string>

#include "frontends/slurm/client/environment.h"
#include "frontends/slurm/client/options.h"
#include "model/program.h"

namespace lockstep::slurm {

// work_dir: paths of images, mounts and what is saved may be relative to it. No container where neither an image nor a
// name nor a bundle is given; what else was said of one is noted as without effect.
Result<Container> container_of(const OptionSet& options, const std::string& work_dir, std::vector<std::string>& notes);

// PYXIS_CONTAINER_IMAGE and the like, for what no higher origin says.
Result<void> read_container_variables(OptionSet& options, const OptionSet::GetVariable& get_variable);

// What an allocation was given is what its steps begin with, as these variables. Not where it is to be saved: each step
// would write there.
void put_container_variables(const OptionSet& options, Variables& variables);

}  // namespace lockstep::slurm
