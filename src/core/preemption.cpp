#include "core/preemption.h"

#include "base/text.h"
#include "core/jobs.h"

namespace lockstep {

Result<void> suspend_job(Txn&, const SuspendJob&) {
  return Error{Errc::kUnsupported, "suspending jobs is not built yet"};
}
Result<void> resume_job(Txn&, const ResumeJob&) {
  return Error{Errc::kUnsupported, "suspending jobs is not built yet"};
}

Result<void> mark_checkpoint(Txn& txn, const MarkCheckpoint& ask) {
  const Ref<Job> job = txn.job(ask.job);
  if (!job)
    return not_found(format("Invalid job id specified: {}", ask.job.value));
  TRY(may_change(txn, *job));
  if (job->state != JobState::kRunning && job->state != JobState::kSuspended)
    return conflict(format("job {} is not running: there is nothing to have saved", ask.job.value));
  Job next = *job;
  next.checkpointed = txn.now();
  txn.put(std::move(next));
  return {};
}

}  // namespace lockstep
