#include "base/mutant.h"

namespace lockstep {

#ifdef LOCKSTEP_MUTANTS_ON
Mutant active_mutant = Mutant::kNone;  // the one global: set once, before anything runs
#endif

}  // namespace lockstep
