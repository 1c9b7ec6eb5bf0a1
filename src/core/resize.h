// Cores and memory of a task that runs: less at once, more where its node has room.
#pragma once

#include "core/txn.h"

namespace lockstep {

// Gives the job, which runs as one task on one node, the cores and the memory that its spec has by now, beside all else
// that it was granted. Errors: kUnsupported where it is no such job, or its node would not
// hear of it, kExhausted where the node or a limit has no room.
Result<void> resize_task(Txn& txn, const Job& job);

}  // namespace lockstep
