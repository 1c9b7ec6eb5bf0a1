// Tasks without cores of their own: they run on whatever cores their node has, beside those who were granted them.
#pragma once

#include "model/placement.h"

namespace lockstep {

// Pods that ask for less than a core. Such a group is granted none, and counts for none in limits: so only an
// administrator, or a front end for whom the cluster vouches, submits one.
inline bool shares_cores(const Placement& group) {
  return group.launch == Launch::kTasks && group.overcommit && group.per_task.cores == 0 && group.per_node.cores == 0;
}

}  // namespace lockstep
