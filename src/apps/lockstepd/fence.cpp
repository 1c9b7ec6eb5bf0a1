#include "apps/lockstepd/fence.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "io/local/process.h"
#include "wire/local_files.h"

extern char** environ;

namespace lockstep {

namespace {

std::optional<std::string> ask_command(const std::string& command, const std::string& node) {
  const std::string line = command + " \"$1\"";
  const char* argv[] = {"/bin/sh", "-c", line.c_str(), "sh", node.c_str(), nullptr};
  pid_t pid = 0;
  if (posix_spawn(&pid, "/bin/sh", nullptr, nullptr, const_cast<char**>(argv), environ) != 0)
    return std::nullopt;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      return std::nullopt;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return format("the fence command says that {} is off", node);
  return std::nullopt;
}

}  // namespace

FenceHook make_fence_hook(std::string dir, std::string command, Duration patience) {
  CHECK(!dir.empty() && patience >= Duration{});
  return [dir = std::move(dir), command = std::move(command), patience](
             const std::string& node, Duration silence) -> std::optional<std::string> {
    // A node's name comes from its certificate and is a plain host name: no path can be built with it.
    const std::string folder = dir + "/nodes/" + node;
    const auto text = read_file(folder + "/agent.json");
    const auto settings = text ? decode_agent_file(*text) : Result<AgentFile>(text.error());
    if (settings && settings->fence_hook && ::access((folder + "/init.pid").c_str(), F_OK) == 0) {
      // A note that cannot be read proves nothing.
      const auto noted = read_pid_file(folder + "/init.pid");
      return noted && !alive(*noted) ? std::optional<std::string>("its first process is gone") : std::nullopt;
    }
    // A virtual machine (cli/vm_nodes.h): nothing of it is left when its emulator has ended.
    if (const auto machine = read_pid_file(dir + "/vms/" + node + "/process"))
      return alive(*machine) ? std::nullopt : std::optional<std::string>("its machine is off");
    return command.empty() || silence < patience ? std::nullopt : ask_command(command, node);
  };
}

}  // namespace lockstep
