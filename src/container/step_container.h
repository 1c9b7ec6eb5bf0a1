// A step's container on this node, as lockstep-container makes it. The first of the step's tasks fetches the image and
// makes the namespaces while the others wait for it; then each joins them and becomes its program. What follows the
// last of them saves and removes.
//
//   HOME/jobs/JOB/steps/WORK/   of one step: lock, state, and the container (box) where it has no name
//   HOME/trash/                 of steps that have ended
//   HOME/jobs/JOB/names/NAME/   a container with a name: upper, work, image, state, running
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/program.h"

namespace lockstep {

struct StepContainer {
  Container wanted;
  std::string home;    // of the user's images and containers on this node
  std::string work;    // the step, as text_of(WorkId)
  int began = -1;      // takes a byte when the program cannot be reached, and is closed by it otherwise; -1 = none
  std::string script;  // the job's, a file of the node that is to be seen inside; "" = none
};

// Taken out of the environment that the shim has made.
Result<StepContainer> take_step_container(std::vector<std::string>& env);

// Of a sandbox each container has a name of its own behind the task's: "12-1-task-0.3.1+web.2".
inline std::string_view work_in(std::string_view name) { return name.substr(0, name.find('+')); }

struct InnerTask {
  std::vector<std::string> words;  // the program's; of a script, what follows its name
  std::vector<std::string> env;
};

// Does not return if the program runs. The number is what to exit with when it does not; everything was said then.
int run_in_container(const StepContainer& step, InnerTask task);

// What could not be done is said.
int finish_container(const StepContainer& step);

// Removes what steps have put out of the way, and what jobs have left that are not among those: containers with names,
// and steps that nothing followed.
// Images and layers of the store in that folder that nothing uses go, until so many bytes are free of it.
int drop_unused_images(const std::string& home, const std::string& bytes);
int sweep_containers(const std::string& home, const std::vector<std::string>& jobs_here);

// As Slurm's log lines, on the standard error.
void say(const std::string& line);

}  // namespace lockstep
