// Finding the long-lived processes of a cluster without its notes, which may be lost or damaged: by what the kernel
// says of each of our programs that runs here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/local/process.h"

namespace lockstep {

inline constexpr std::string_view kSupervisorName = "lockstep-keeper", kControllerName = "lockstepd",
                                  kNodeName = "lockstep-node";

// Those of this name (/proc/PID/comm) that are proven to be the cluster's.
std::vector<OwnProcess> survivors(const std::string& cluster_id, std::string_view name);

// The node whose first process this is; "" = none's.
std::string node_of(pid_t first_process);

// The id of the cluster whose processes run for this very directory, by their arguments: where the directory's own mark
// cannot be read. "" = none does.
std::string id_of_those_in(const std::string& directory);

}  // namespace lockstep
