// Shapes: which specifications ask for the same placement. Jobs of one shape are looked at once in a pass.
#pragma once

#include <cstddef>

#include "model/job.h"

namespace lockstep {

std::size_t shape_hash(const JobSpec& spec);
bool same_shape(const JobSpec& a, const JobSpec& b);

}  // namespace lockstep
