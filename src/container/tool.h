// Runs a program of the system, such as skopeo, and hears what it says. It inherits our rights, which are the user's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep {

// The path of a program of the system, whatever PATH the user has. An Error says which package has it.
Result<std::string> find_tool(const std::string& name);

struct ToolRun {
  std::vector<std::string> argv;            // argv[0] by its name
  std::string input = {};                   // its standard input
  std::string work_dir = {};                // "" = ours
  std::vector<int> good = {0};              // exit codes that count as success
  std::int64_t stall_ms = 120'000;          // without reading, writing or computing: it is ended then
  std::function<Result<void>()> look = {};  // about once a second while it runs; an Error ends it and is the result
};

// What it wrote to its standard output, of which at most `output_max` bytes are kept. An Error holds its last words.
inline constexpr std::size_t kToolOutputMax = 16 << 20;
Result<std::string> run_tool(const ToolRun& run);

// The variables that tools are shown: where the user's settings lie and how the network is reached.
std::vector<std::string> tool_environment();

}  // namespace lockstep
