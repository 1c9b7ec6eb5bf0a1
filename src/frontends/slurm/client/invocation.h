// The beginning that sbatch, srun and salloc share: read the surroundings, the options of every component, and answer
// --help, --usage and --version.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/slurm/client/job_ask.h"
#include "frontends/slurm/client/say.h"

namespace lockstep::slurm {

struct Invocation {
  std::vector<OptionSet> components;            // at least one
  std::vector<std::vector<std::string>> words;  // program and arguments of each component, as given
};

// Reads the command line (components separated by ":") and the environment. An exit code when there is nothing more to
// do: help was shown, or an option was wrong.
struct Begun {
  Invocation invocation;
  std::optional<int> exit_code;
};
Begun begin(SlurmCommand command, int argc, char** argv, const Voice& voice);

// Says what went wrong with an option, the way Slurm does. The exit code.
int say_option_error(const Voice& voice, const Error& error);
int error_exit_code();  // $SLURM_EXIT_ERROR, else 1

Surroundings read_surroundings();
Result<std::string> read_whole_file(const std::string& path, std::size_t limit);
Result<std::string> read_descriptor(int fd, const std::string& name, std::size_t limit);

std::string base_name(const std::string& path);

}  // namespace lockstep::slurm
