// What work that is no pod holds of a node: whoever schedules pods by the objects alone sees it missing in what the
// Node tells as allocatable. It stands in an annotation of the object, and follows from the records of jobs.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "model/node.h"
#include "rules/fit.h"

namespace lockstep::kube {

namespace json = boost::json;

inline constexpr const char* kHeldNote = "lockstep.io/held-by-jobs";

// Amounts by the names of resources: {"cpu":"4","nvidia.com/gpu":"8"}; empty: nothing. others: of jobs that are no
// pods.
json::object held_on(const Node& node, const NodeLoad& others);
// Takes what the tree's annotation says off status.allocatable.
void show_held(json::object& tree);

}  // namespace lockstep::kube
