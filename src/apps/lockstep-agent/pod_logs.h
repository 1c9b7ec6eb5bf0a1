// Where programs that collect logs look for those of pods on a node: /var/log/pods and /var/log/containers.
#pragma once

#include <string>

#include "base/result.h"

namespace lockstep {

// containers: where the containers of all users lie, of which root's are pods; who makes root's place there first holds
// it to what users may have (write_store_limits), so that is settled before. Error: they are not shown, and why:
// somebody else has logs there.
Result<void> show_pod_logs(const std::string& containers);

}  // namespace lockstep
