// Where programs that collect logs look for those of pods on a node: /var/log/pods and /var/log/containers.
#pragma once

#include <string>

#include "base/result.h"

namespace lockstep {

// home: of root's containers (wire/sandbox_paths.h). Error: they are not shown, and why: somebody else has logs there.
Result<void> show_pod_logs(const std::string& home);

}  // namespace lockstep
