// How many pods their controllers are to have together: what budgets of parts are parts of.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "frontends/kube/controllers/reconciler.h"

namespace lockstep::kube {

struct PodScales {
  std::int64_t sum = 0;    // each controller counts once
  bool unmanaged = false;  // some of the pods are nobody's, and count nothing
};

// Error: a controller that says no number: it is not there, or its kind has none (a Job, a DaemonSet).
Result<PodScales> scales_of(const ObjectView& view, const std::vector<Ref<Object>>& pods);

}  // namespace lockstep::kube
