// What a pod's spec keeps to besides its containers' own rules: placement, names, addresses, volumes.
#pragma once

#include "frontends/kube/kinds/place.h"

namespace lockstep::kube {

// spec: of a new pod or of a template.
void check_pod_fields(const Place& spec);

}  // namespace lockstep::kube
