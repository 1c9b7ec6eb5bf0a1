// How much of the node's disk a sandbox of root's takes, beside what it may take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/sandbox.h"

namespace lockstep {

// What is over its limit, in the words of Kubernetes' node agents, of which the first that is found is told; "" =
// nothing is. folder: of the sandbox, below home (wire/sandbox_paths.h). It may take as long as its files are many.
std::string disk_overrun(const Sandbox& sandbox, const std::string& folder, const std::string& home);

// What lies in a folder, on the same file system; 0 where there is none. Links are not followed.
std::uint64_t bytes_in_folder(const std::string& path);
// Logs of a container, and what it wrote outside of volumes. folder: container_folder() of wire/sandbox_paths.h.
std::uint64_t bytes_of_container(const std::string& folder);

// A folder that outlives the sandbox, in which so much may lie and no more.
bool has_lasting_bound(const SandboxVolume& volume);

// As people write it: "128Mi", "1500".
std::string bytes_words(std::uint64_t bytes);

}  // namespace lockstep
