// File name patterns: %j and its kin in --output, --error and --input.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/ids.h"

namespace lockstep {
struct Job;
}

namespace lockstep::slurm {

struct PatternFacts {
  JobId job;
  JobId array_job;  // 0 = not an element
  std::uint32_t array_index = 0;
  std::optional<StepNo> step;  // unset: the batch script, whose rank is 0 and which has no step number
  std::string node;            // short host name
  std::uint32_t node_index = 0;
  std::string user, job_name;
};

// %t of a step differs by task and becomes a placeholder (ProcessSpec); everything else is known here. A backslash
// anywhere switches substitution off and is dropped, as in Slurm.
std::string expand_pattern(std::string_view pattern, const PatternFacts& facts);

// The same, absolute: relative paths lie in work_dir. "" stays "", "none" discards, "all" is the default.
std::string expand_path(std::string_view pattern, const PatternFacts& facts, std::string_view work_dir);

// Slurm's default for a batch script's output.
std::string_view default_output_pattern(const Job& job);

}  // namespace lockstep::slurm
