// Who gives commands where there are no users: an administrator.
#pragma once

#include "model/command.h"

namespace lockstep::sim {

inline constexpr Caller kAdmin{{}, true};

}  // namespace lockstep::sim
