// Where a user's containers are on a node, told to each task there: `enroot` looks for them by it.
#pragma once

namespace lockstep {

inline constexpr const char* kContainersVariable = "LOCKSTEP_CONTAINERS";

}  // namespace lockstep
