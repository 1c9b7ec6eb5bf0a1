// What a task's own variables in a launch say to its shim alone: the shim takes this one out, and says it on the task's
// error output behind "gpu-bind: ".
#pragma once

#include <string_view>

namespace lockstep {

inline constexpr std::string_view kGpuBindingVariable = "LOCKSTEP_GPU_BINDING";

}  // namespace lockstep
