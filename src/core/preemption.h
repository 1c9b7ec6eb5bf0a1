// Running jobs that make room, pause, and save their work.
#pragma once

#include "core/txn.h"

namespace lockstep {

Result<void> suspend_job(Txn& txn, const SuspendJob& ask);
Result<void> resume_job(Txn& txn, const ResumeJob& ask);
// Owner, administrator, or the job itself: its present state is saved.
Result<void> mark_checkpoint(Txn& txn, const MarkCheckpoint& ask);

}  // namespace lockstep
