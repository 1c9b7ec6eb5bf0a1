// The hunt: every planted bug (base/mutant.h) must be caught by some seed. That is the proof that the checkers see.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::sim {

// False, with a message, when there is no such mutant or this binary has none.
bool choose_mutant(const std::string& name);
// The process's exit code.
int hunt(std::uint64_t from, std::uint64_t to, std::uint64_t commands, const std::string& only);

}  // namespace lockstep::sim
