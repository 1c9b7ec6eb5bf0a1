// What a submission leaves open and the partition it goes to decides: memory, and on how many nodes GPUs lie.
#pragma once

#include "core/txn.h"

namespace lockstep {

// The spec with that filled in; itself where nothing is open. A partition that is not there decides nothing.
Ref<JobSpec> completed(const Txn& txn, const Ref<JobSpec>& spec);

}  // namespace lockstep
