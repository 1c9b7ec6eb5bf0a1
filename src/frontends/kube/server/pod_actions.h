// What is done with a pod through subresources of its own: it is bound to a node, or evicted.
#pragma once

#include "frontends/kube/server/request.h"

namespace lockstep::kube {

// POST …/pods/NAME/binding and …/bindings.
void bind_pod(const Asked& request);
// POST …/pods/NAME/eviction: a deletion that keeps to disruption budgets.
// Source: kubernetes.io/docs/concepts/scheduling-eviction/api-eviction.
void evict_pod(const Asked& request);

}  // namespace lockstep::kube
