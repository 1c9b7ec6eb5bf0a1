// Hooks: programs of the site that run on a node around a job. A shim owns their processes, as it does those of a step,
// so they have a place among the steps of their attempt, below all that a job can name. So have the copying before and
// behind a job, and the daemon by which its processes use their share of a GPU.
#pragma once

#include "model/work_id.h"

namespace lockstep {

inline constexpr StepNo kPrologStep = -20;  // before anything of the attempt starts on the node
inline constexpr StepNo kEpilogStep = -21;  // when everything of it has ended there

inline constexpr StepNo kMpsStep = -22;  // NVIDIA's control daemon of the job's shares on the node

// What is copied for the job, by its user's rights.
inline constexpr StepNo kStageInStep = -23;   // behind the prolog
inline constexpr StepNo kStageOutStep = -24;  // before the epilog

inline bool is_mps_daemon(const WorkId& work) {
  const StepPart* step = step_of(work);
  return step && step->step == kMpsStep;
}

inline bool is_staging(const WorkId& work) {
  const StepPart* step = step_of(work);
  return step && (step->step == kStageInStep || step->step == kStageOutStep);
}

// Whatever runs around a job.
inline bool is_hook(const WorkId& work) {
  const StepPart* step = step_of(work);
  return step && (step->step == kPrologStep || step->step == kEpilogStep || is_staging(work));
}

}  // namespace lockstep
