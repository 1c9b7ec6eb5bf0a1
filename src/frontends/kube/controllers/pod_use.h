// What pods use at present, as controllers ask for it. It is measured and nobody's record: who asks may find nothing.
#pragma once

#include <functional>
#include <vector>

#include "model/ids.h"
#include "views/live_use.h"

namespace lockstep::kube {

// Of the containers of a job on a node, by name; empty: not measured (yet). Asked from any thread.
using UseSource = std::function<std::vector<ContainerUse>(NodeId node, JobId job)>;

}  // namespace lockstep::kube
