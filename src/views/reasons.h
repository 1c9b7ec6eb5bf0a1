// Why a job waits, in Slurm's words: squeue's NODELIST(REASON), the API's, and what `lockstep explain` begins with.
#pragma once

#include <string>
#include <string_view>

#include "model/plan.h"

namespace lockstep {

struct Job;

// Why a job waits or how it ended, as squeue's %r shows it. The note may be null.
std::string slurm_reason(const Job& job, const PlanNote* note);
// The same in parts, of which there may be no second.
struct Reason {
  std::string_view word, detail;
};
Reason slurm_reason_parts(const Job& job, const PlanNote* note);

}  // namespace lockstep
