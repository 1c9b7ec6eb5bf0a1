// Processes of a sandbox: a container, with the process that is the parent of all it leaves behind, and a probe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/sandbox.h"
#include "wire/container_notes.h"

namespace lockstep {

// What the containers have in common, from the environment that the shim has made for the keeper.
struct SandboxSurroundings {
  std::vector<std::string> env;  // of a container: NAME=value, without what is the keeper's alone
  std::string program;           // lockstep-container
  std::string home, work;        // of the user's containers on this node; the sandbox's name
  std::string volumes;           // folder with one for each volume; "" = there are none
  std::string address;           // "" = the node's
};

// Makes the folders of the volumes.
Result<SandboxSurroundings> take_surroundings(const Sandbox& sandbox);
void remove_volumes(const SandboxSurroundings& around);

// The container's name on the node, of one life: its files begin anew each time.
std::string work_of(const SandboxSurroundings& around, const std::string& container, std::uint32_t life);
// Words and environment of the process that becomes the program.
struct ProgramPlan {
  std::vector<std::string> argv, env;
  std::string work_dir;
};
ProgramPlan plan_program(const SandboxContainer& container, std::uint32_t life, const std::vector<std::string>& argv,
                         const SandboxSurroundings& around);

// A child that ends with this process, and has nobody else's signals.
pid_t fork_child();

struct StartedContainer {
  pid_t pid = -1;  // to wait for: it ends as the container does, when nothing of that is left. -1: errno says why
  int began = -1;  // its end can be read when the program runs; a byte: it could not be reached, and the end follows
};
StartedContainer start_container(const SandboxContainer& container, std::uint32_t life,
                                 const SandboxSurroundings& around);
// Ends with 0 if the probe passed. beside: what becomes a program beside the container's own, where runc has made it;
// empty: lockstep-container does.
using Beside = std::function<void(const std::vector<std::string>& argv)>;
struct StartedProbe {
  pid_t pid = -1;
  int output = -1;  // when it has ended, its end has what it said: at most kProbeOutputMax bytes
};
StartedProbe start_probe(const SandboxContainer& container, std::uint32_t life, const Probe& probe,
                         const SandboxSurroundings& around, const Beside& beside = {});
// Of one that took too long, which says nothing itself.
std::string probe_timeout_words(const Probe& probe, const SandboxSurroundings& around);
// Ends with 0 if the hook did what it was for.
pid_t start_hook(const SandboxContainer& container, std::uint32_t life, const ContainerHook& hook, Duration time,
                 const SandboxSurroundings& around, const Beside& beside = {});

}  // namespace lockstep
