// What state a job is in, in words: what holds it back, what ended it.
#pragma once

#include <string>
#include <string_view>

#include "model/command.h"
#include "model/tables.h"

namespace lockstep {

std::string_view state_word(JobState state);
std::string held_words(const Tables& tables, const Job& job);  // "" = it is not held
std::string ended_words(const Job& job);
std::string refused_words(const RefusedPart& refused);

}  // namespace lockstep
