// Where a controller listens, as it wrote it down itself when it started: its settings may have changed since.
#pragma once

#include <optional>

#include "cli/cluster_dir.h"
#include "cli/listen.h"

namespace lockstep {

// Nothing where it never ran, or what it wrote cannot be read.
std::optional<ListenAt> told_listener(const ClusterDir& dir);

}  // namespace lockstep
