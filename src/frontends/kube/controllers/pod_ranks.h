// Which pods of a ReplicaSet or a Job go first when there are too many.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/kube/controllers/pod_reading.h"

namespace lockstep::kube {

using Pods = std::vector<std::shared_ptr<const PodReading>>;

// Puts those that are missed least first: unassigned, pending, not ready, of a lower deletion cost, on nodes with more
// pods of their kind (on_node), ready for a shorter time, restarted more often, younger. Times count in powers of two.
void rank_for_deletion(Pods& pods, const std::map<std::string, int>& on_node, WallTime now);

}  // namespace lockstep::kube
