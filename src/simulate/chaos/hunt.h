// The hunt: every planted bug (base/mutant.h) must be caught by some seed. That is the proof that the checkers see.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::sim {

// False, with a message, when there is no such mutant.
bool choose_mutant(const std::string& name);

struct HuntRun {
  std::uint64_t from = 1, to = 200;   // seeds, after the one that caught the bug last
  std::uint64_t commands = 2000;      // in each seed
  std::string only;                   // one mutant's name; "" = all
  std::uint64_t part = 0, parts = 1;  // of all mutants, the ones whose number leaves `part` when divided by `parts`
};
// The process's exit code.
int hunt(const HuntRun& run);

}  // namespace lockstep::sim
