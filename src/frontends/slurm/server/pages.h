// Everything the Slurm front end adds to the controller's API.
#pragma once

#include <vector>

#include "routes/front_end.h"

namespace lockstep::slurm {

std::vector<FrontRoute> routes();

}  // namespace lockstep::slurm
