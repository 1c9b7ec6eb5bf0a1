// What the keeper of a root's sandbox runs lockstep-container for. Each says what came of it in a line on its standard
// output; what it has to say besides goes to its standard error.
#pragma once

#include <string>

namespace lockstep {

inline constexpr const char* kSandboxSpecFile = "spec";  // encode_sandbox

struct BundleWords {
  std::string home, folder, life;  // life: the folder of the life; its `spec` names the container
  std::string group;               // see BundleAsk; "-" = none
  std::string process_space;       // likewise
};
// The line: encode_container_word.
int run_bundle(const BundleWords& words);

// folder: of the sandbox, whose `spec` names its volumes. The line: encode_front_end_files, "same", or "error …".
int run_front_end_files(const std::string& folder, const std::string& work, const std::string& version);

}  // namespace lockstep
