// The numbers by which a program names GPUs count those that it may open: where the others are denied, the variables
// that name them by their place in the node's list have to count anew. Source: CUDA C++ Programming Guide,
// "CUDA Environment Variables".
#pragma once

#include <string>
#include <vector>

#include "ports/shims.h"

namespace lockstep {

// In CUDA_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL of these variables. Names and UUIDs stay, and so does what is not
// given.
void renumber_gpus(std::vector<std::string>& env, const std::vector<ShimDevice>& gpus);

}  // namespace lockstep
