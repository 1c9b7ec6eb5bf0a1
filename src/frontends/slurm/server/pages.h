// Everything the Slurm front end adds to the controller's API.
#pragma once

#include <vector>

#include "routes/front_end.h"

namespace lockstep {

std::vector<FrontRoute> slurm_routes();

}  // namespace lockstep
