// Which node a part of a gang should take, of those that have room: nodes that fall idle together leave whole nodes for
// the gangs that need them. Nodes with other work go before idle ones; among them, an hour by which the node would be
// busy longer than it is anyway costs as much as a fifth of a free device left over beside the job.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace lockstep {

// By how much a job keeps a node busy longer, on average: both times are guesses, so the one may outlast the other by
// half of their sum more or less than it seems, all of it alike likely.
inline Duration busy_longer(Duration busy_for, Duration needed_for) {
  const __int128 more = __int128{needed_for.us} - busy_for.us, about = (__int128{needed_for.us} + busy_for.us) / 2;
  if (more >= about)
    return needed_for - busy_for;
  if (more <= -about)
    return {};
  return {static_cast<std::int64_t>((more + about) * (more + about) / (4 * about))};
}

// Smaller is better. busy_for: until the last job there is predicted to end. needed_for: the predicted run time.
inline Duration node_cost(std::int64_t free_left, Duration busy_for, Duration needed_for) {
  return busy_longer(busy_for, needed_for) + hours(5) * free_left;
}

}  // namespace lockstep
