// Slurm's words on the controller's side: what a job's processes find in their environment and file names.
#pragma once

#include <string>
#include <vector>

#include "model/agent_messages.h"
#include "model/tables.h"

namespace lockstep::slurm {

class LayoutMemory;

struct SlurmFacts {
  std::string cluster_name;
  Duration wall_offset;             // adds to an Instant to give wall clock
  WallTime now;                     // the start of an attempt whose own is not recorded yet: it is just being launched
  LayoutMemory* layouts = nullptr;  // of launches that came before; null = there is none
};

// Completes a launch whose process already has the submitter's environment, argv, user and paths as asked (patterns
// unexpanded): adds SLURM_* exactly as Slurm would (present only when Slurm sets them), CUDA_VISIBLE_DEVICES and the
// like, expands file patterns (%j …; defaults slurm-%j.out, slurm-%A_%a.out; %t becomes a placeholder) and makes
// relative paths absolute against the work dir.
void add_slurm_words(LaunchAttempt& launch, const Tables& tables, const Job& job, std::size_t grant,
                     const SlurmFacts& facts);
void add_slurm_words(LaunchStep& launch, const Tables& tables, const Job& job, const Step& step, std::size_t place,
                     const SlurmFacts& facts);

// What salloc's command finds: the job's own variables, NUL-separated NAME=value. Empty without an allocation.
std::string slurm_job_environment(const Tables& tables, const Job& job, const SlurmFacts& facts);

}  // namespace lockstep::slurm
