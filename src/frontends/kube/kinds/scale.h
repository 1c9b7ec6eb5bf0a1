// How many replicas a workload is to have, seen as autoscaling/v1 Scale: what kubectl scale and autoscalers read and
// write.
#pragma once

#include <boost/json/object.hpp>

#include "frontends/kube/machinery/custom_definition.h"

namespace lockstep::kube {

// Where the numbers stand in built-in workloads.
const ScalePaths& built_in_scale();

json::object scale_of(const json::object& tree, const ScalePaths& paths);
// The object with as many replicas as the Scale says.
void put_scale(json::object& tree, const json::object& scale, const ScalePaths& paths);

}  // namespace lockstep::kube
