// The group metrics.k8s.io: what nodes and pods use at present. Measured, not stored: what was not measured is missing.
#pragma once

#include <vector>

#include "frontends/kube/server/kinds.h"
#include "frontends/kube/server/request.h"

namespace lockstep::kube {

inline constexpr std::string_view kMeasuresGroup = "metrics.k8s.io";

std::vector<Kind> measured_kinds();
bool is_measured(const Kind& kind);
// get and list of them.
void answer_measured(const Asked& request);

}  // namespace lockstep::kube
