// Hooks: programs of the site that run on a node around a job. A shim owns their processes, as it does those of a step,
// so they have a place among the steps of their attempt, below all that a job can name.
#pragma once

#include "model/work_id.h"

namespace lockstep {

inline constexpr StepNo kPrologStep = -20;  // before anything of the attempt starts on the node
inline constexpr StepNo kEpilogStep = -21;  // when everything of it has ended there

inline bool is_hook(const WorkId& work) {
  const StepPart* step = step_of(work);
  return step && (step->step == kPrologStep || step->step == kEpilogStep);
}

}  // namespace lockstep
