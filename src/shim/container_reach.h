// Serves what somebody asks of one container of a root's sandbox, on its node: a process for each request, started by
// the agent, which has root's rights and passes its bytes on (model/container_ask.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/sandbox.h"

namespace lockstep {

inline constexpr const char* kReachOption = "--reach";  // HOME: of root's containers
inline constexpr int kReachAskFd = 3;                   // encode_container_ask
// The stream is the standard input and output.
int run_reach(const char* home);

// Becomes the runtime that gives the container's control group what the container is to have of cores and memory: ends
// with 0 if it did.
[[noreturn]] void become_resize(const std::string& sandbox, const SandboxContainer& container, std::uint32_t life);

// Becomes the runtime that runs these words beside the container's own, with its identity and in its place; returns if
// that cannot be.
void become_beside(const std::string& sandbox, const std::string& container, std::uint32_t life,
                   const std::vector<std::string>& argv);

}  // namespace lockstep
