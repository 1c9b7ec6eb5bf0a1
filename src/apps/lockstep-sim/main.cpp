// lockstep-sim: the real controller, agents and scheduler in a simulated world. Each command is a file of its own.
#include <cstdio>
#include <string_view>

#include "simulate/command.h"

using namespace lockstep::sim;

int main(int argc, char** argv) {
  const SimCommand* const commands[] = {
      &kChaosCommand, &kHuntCommand, &kKubeCommand,  &kKubeHuntCommand, &kPackCommand,
      &kQueueCommand, &kGpuCommand,  &kScaleCommand, &kReplayCommand,
  };
  const std::string_view word = argc > 1 ? argv[1] : "";
  for (const SimCommand* command : commands)
    if (word == command->name) {
      const std::span<char*> rest(argv + 2, static_cast<std::size_t>(argc - 2));
      if (!rest.empty() && (std::string_view(rest[0]) == "--help" || std::string_view(rest[0]) == "-h")) {
        std::fputs(command->usage, stdout);
        return 0;
      }
      return command->run(rest);
    }
  const bool asked = word == "--help" || word == "-h";
  for (const SimCommand* command : commands) std::fputs(command->usage, asked ? stdout : stderr);
  return asked ? 0 : 2;
}
