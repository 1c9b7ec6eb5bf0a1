// From options to the model: what a command line, environment and script together ask for.
//
// JobSpec::options carries the job options that were given, by long name, text as written (flags: ""), sorted; for het
// jobs those of the first component as they are and those of component N as "het-N/NAME". From these and the spec the
// server composes the SLURM_* variables that exist only when an option was given. Names it may look for:
//   ntasks ntasks-per-node ntasks-per-core ntasks-per-gpu nodes cpus-per-task cpus-per-gpu gpus gpus-per-node
//   gpus-per-task gres gpu-bind mem mem-per-cpu mem-per-gpu tres-per-task distribution hint threads-per-core overcommit
//   exclusive export cpu-bind mem-bind constraint time open-mode signal requeue no-requeue wait-all-nodes …
// StepSpec::options holds the step's own, likewise.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontends/slurm/client/options.h"
#include "wire/codec.h"

namespace lockstep::slurm {

// What the client's surroundings add to a request.
struct Surroundings {
  std::string work_dir;  // current directory
  std::string host_name;
  WallTime now;
  std::int32_t umask = 022;
  std::function<Result<std::string>(const std::string& path)> read_file;  // --nodefile, --nodelist=FILE
};

// Components: one, or several for a het job; options of the job itself come from the first. Warnings go to notes.
// Left to the caller: script, environment, launch, name, command.
Result<SubmitRequest> job_request(const std::vector<OptionSet>& components, const Surroundings& around,
                                  std::vector<std::string>& notes);

// Tasks, nodes and resources of one component.
Result<GroupSpec> group_of(const OptionSet& options, const Surroundings& around, std::vector<std::string>& notes);

// What `srun` asks for inside an allocation; argv, environment and output are the caller's. group_of and step_of agree:
// a step made from the options of its own job fits it exactly.
Result<StepSpec> step_of(const OptionSet& options, const Surroundings& around, std::vector<std::string>& notes);

// A path relative to the working directory made absolute; "" stays.
std::string absolute_path(const std::string& path, const std::string& work_dir);

}  // namespace lockstep::slurm
