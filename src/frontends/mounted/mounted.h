// The rows of all front ends, as lockstepd mounts them. Whoever looks at what the controller's port answers, to print
// who may ask, to try it out or to attack it, takes them from here, so that no front end is left out.
#pragma once

#include <vector>

#include "frontends/kube/server/server.h"
#include "routes/front_end.h"

namespace lockstep {

std::vector<FrontRoute> front_end_routes(const kube::KubeServer& kube);

// The same of a server that nobody can ask anything: only to be read.
std::vector<FrontRoute> front_end_rows();

}  // namespace lockstep
