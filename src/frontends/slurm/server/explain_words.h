// Slurm's words for what explain found: the options of sbatch, the commands that make a suggested change.
#pragma once

#include "model/foresight.h"

namespace lockstep::slurm {

// Fills in change and command of the suggestions, and names options and commands in the reason.
void put_in_words(Explanation& explanation);

}  // namespace lockstep::slurm
