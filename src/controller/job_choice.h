// The words of a request that choose jobs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "views/selectors.h"

namespace lockstep {

// No word: any will do.
std::optional<JobSelector::Words> words_or_any(const std::vector<std::string>& words);
// "pending", "running" … ; an unknown one is an error.
Result<JobStates> job_states_of(const std::vector<std::string>& words);

}  // namespace lockstep
