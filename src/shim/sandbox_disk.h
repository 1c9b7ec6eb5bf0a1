// How much of the node's disk a sandbox of root's takes, beside what it may take.
#pragma once

#include <string>
#include <string_view>

#include "model/sandbox.h"

namespace lockstep {

// What is over its limit, in the words of Kubernetes' node agents, of which the first that is found is told; "" =
// nothing is. folder: of the sandbox (wire/sandbox_paths.h). It may take as long as its files are many.
std::string disk_overrun(const Sandbox& sandbox, const std::string& folder);

// As people write it: "128Mi", "1500".
std::string bytes_words(std::uint64_t bytes);

}  // namespace lockstep
