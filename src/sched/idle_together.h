// Which node a part of a gang should take, of those that have room: nodes that fall idle together leave whole nodes for
// the gangs that need them. Nodes with other work go before idle ones; among them, an hour by which the node would be
// busy longer than it is anyway costs as much as a fifth of a free device left over beside the job.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace lockstep {

// Smaller is better. busy_for: until the last job there is predicted to end. needed_for: the predicted run time.
inline Duration node_cost(std::int64_t free_left, Duration busy_for, Duration needed_for) {
  return std::max(needed_for - busy_for, Duration{}) + hours(5) * free_left;
}

}  // namespace lockstep
