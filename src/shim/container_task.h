// Tasks in a container. The shim makes the folder where a user's images and containers lie on this node, and starts
// lockstep-container (src/container) in the place of each task's program. That one does everything else with the user's
// rights, never with ours.
#pragma once

#include <string>

#include "base/result.h"
#include "ports/shims.h"
#include "shim/task_launch.h"

namespace lockstep {

struct ContainerPlace {
  std::string program;  // lockstep-container
  std::string folder;   // of this user
  std::string work;     // the step's name: its shim's folder is called so
};

bool runs_in_container(const ProcessSpec& process);

// Makes the folder of a user's images and containers as far as it is not there, held to what he may have. base: where
// the folders of all users lie.
Result<void> make_users_store(const std::string& base, const ProcessSpec& process);
// The same, and with what is started there.
Result<ContainerPlace> make_container_place(const std::string& base, const ProcessSpec& process);

// The plan of a task becomes that of lockstep-container, which runs what was planned. The script, if there is one,
// becomes a word as any other: the container is shown its file.
void put_in_container(const ContainerPlace& place, const Container& container, TaskPlan& plan);

// What follows the last task: saves the container if that is wanted, and removes what is not kept. error_fd: where it
// says what failed, or log: a file of the user's, or neither.
TaskPlan plan_container_end(const ContainerPlace& place, const ProcessSpec& process, int error_fd,
                            const std::string& log);

}  // namespace lockstep
