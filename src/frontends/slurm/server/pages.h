// Everything the Slurm front end adds to the controller's API.
#pragma once

#include <vector>

#include "views/read_context.h"

namespace lockstep {

std::vector<PageEntry> slurm_pages();

}  // namespace lockstep
