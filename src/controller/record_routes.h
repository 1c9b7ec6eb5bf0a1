// The plain records that administrators set (partitions, users, accounts, associations, QOS, licences, reservations,
// the policy, the topology) and nodes: rows to list, read, put and remove them, and POST /v1/changes for several at
// once. They stand on what front ends have (routes/front_end.h).
#pragma once

#include <vector>

#include "routes/front_end.h"

namespace lockstep {

std::vector<FrontRoute> record_routes();

}  // namespace lockstep
