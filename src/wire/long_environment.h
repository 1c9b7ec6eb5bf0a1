// A long environment on its way to a node: announced by a frame whose payload is one line of words, followed by its
// bytes as a stream. Launches name it (ProcessSpec::env_base) until the agent is told to forget it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/agent_messages.h"

namespace lockstep {

inline constexpr std::size_t kLongEnvironment = 64 << 10;       // shorter ones go with each launch
inline constexpr std::size_t kLongEnvironmentMax = 16 << 20;    // of one
inline constexpr std::size_t kLongEnvironmentsMax = 256 << 20;  // of all that one node keeps, and of those that come

struct LongEnvironment {
  BlobId id;
  std::size_t bytes = 0;
  std::string forget;  // ids that nothing will name any more, each after a blank
};
std::string encode(const LongEnvironment& head);
Result<LongEnvironment> decode_long_environment(std::string_view text);

// Of a launch; null: the message launches nothing.
const ProcessSpec* process_of(const ToAgent& message);
ProcessSpec* process_of(ToAgent& message);

// An environment in two parts: the lines that a launch may look at or replace, and the long rest.
struct EnvironmentParts {
  std::vector<std::string> lines;
  std::string rest;  // each line ended by a NUL; "" = it is no long one
};
EnvironmentParts split_environment(std::string_view environment);
// Puts the rest back behind env; what env names counts.
void complete_environment(ProcessSpec& process, std::string_view rest);

}  // namespace lockstep
