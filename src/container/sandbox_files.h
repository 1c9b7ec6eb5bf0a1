// Asks the controller, through this node's agent, for the files and variables that a front end has for a sandbox, and
// writes the files where its containers mount them: all of a volume's at once, as Kubernetes' node agents do. Each
// version lies in a folder of its own, `..data` leads to the newest, and each file's name leads through `..data`.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "model/sandbox.h"
#include "wire/front_end_files.h"

namespace lockstep {

// What changed since `version`; nothing: nothing did. Without its volumes' files.
Result<std::optional<FrontEndFiles>> bring_front_end_files(const Sandbox& sandbox, const std::string& folder,
                                                           const std::string& work, const std::string& version);

// Into the folder of one volume. An Error: it holds what it held before.
Result<void> write_volume(const std::string& folder, const FrontEndFiles::Volume& volume,
                          std::optional<std::uint32_t> group);

}  // namespace lockstep
