#include "controller/job_choice.h"

#include "base/text.h"
#include "wire/api.h"

namespace lockstep {

std::optional<JobSelector::Words> words_or_any(const std::vector<std::string>& words) {
  return words.empty() ? std::nullopt : std::optional(JobSelector::Words(words.begin(), words.end()));
}

Result<JobStates> job_states_of(const std::vector<std::string>& words) {
  JobStates states;
  for (const auto& word : words) {
    const auto state = job_state_of(word);
    if (!state)
      return invalid(format("\"{}\" is no state of a job", word), "state");
    states.add(*state);
  }
  return states;
}

}  // namespace lockstep
