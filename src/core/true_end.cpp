#include "core/true_end.h"

#include <algorithm>

#include "base/text.h"
#include "core/timers.h"
#include "model/job.h"

namespace lockstep {

namespace {

// Everybody may read the reason, which is one word, so the files' names are left to those who see the job's.
std::string files_not_opened(const Txn& txn, NodeId node) {
  const Node* where = txn.tables().node(node);
  return format("RaisedSignal:{}(StdIn_StdOut_or_StdErr_could_not_be_opened_on_{})", kNotOpenedSignal,
                where ? where->meta.name : "its node");
}

// When its own limit or deadline would have ended the attempt.
Instant end_at_latest(const Txn& txn, const Job& job) {
  const JobSpec& spec = *job.spec;
  const Duration limit = limit_of(spec, txn.tables().partition(job.allocation->partition), txn.settings());
  const Instant began = job.started ? job.started : job.allocation->granted;
  const Instant by_limit = limit >= kForever ? kNever : began + job.suspended_before + limit;
  return spec.deadline ? std::min(by_limit, txn.inner().of_wall(spec.deadline)) : by_limit;
}

bool counts(const Txn& txn, const Job& job, Instant at) {
  if (job.promise)
    return false;
  switch (job.ending) {
    case JobState::kTimeout:
    case JobState::kDeadline: return at < job.ended;
    case JobState::kPreempted: return at < end_at_latest(txn, job);
    case JobState::kCancelled: return !job.requeue_after && at < job.ended;  // there was nothing left to cancel
    default: return false;
  }
}

// The step that is all there is of a job, srun's without an allocation, once it has ended by itself. It came with the
// job, or says so, where srun had to know the job's number first. Its client tells us so too, unless we are away; then
// the limit may be what we see first.
const Step* whole_work(const Txn& txn, const Job& job) {
  const Step* step = job.next_step == 1 ? txn.tables().step(job.id, 0) : nullptr;
  if (!step || (!job.first_step && !step->spec->sole))
    return nullptr;
  const bool over = step->attempt == job.attempt && step->state == StepState::kEnded && !step->cancelled;
  // Once it was told, its end may be our doing.
  const bool was_told = job.state == JobState::kCompleting;
  return over && step->started && (!was_told || step->ended < job.ended) ? step : nullptr;
}

}  // namespace

ExitStatus as_kept(const ExitStatus& exit) {
  constexpr std::int32_t kOutOfMemorySignal = 125;
  return exit.oom ? ExitStatus{0, kOutOfMemorySignal, true} : exit;
}

Ending ending_by(const Txn& txn, NodeId node, const ExitStatus& exit) {
  if (exit.oom)
    return {.state = JobState::kOutOfMemory, .reason = "OutOfMemory"};
  if (exit.not_opened)
    return {.state = JobState::kFailed, .reason = files_not_opened(txn, node)};
  if (exit.signal != 0)
    return {.state = JobState::kFailed, .reason = format("RaisedSignal:{}", exit.signal)};
  if (exit.code != 0)
    return {.state = JobState::kFailed, .reason = "NonZeroExitCode"};
  return {};
}

Instant within_attempt(const Job& job, Instant at) { return std::max({at, job.started, job.allocation->granted}); }

bool correct_end(Txn& txn, const Job& before, const Ending& truly, const ExitStatus& exit) {
  CHECK(before.state == JobState::kCompleting);
  if (!counts(txn, before, truly.at))
    return false;
  Job job = before;
  job.exit = exit;
  job.ending = truly.state;
  job.end_reason = truly.reason;
  job.ended = within_attempt(job, truly.at);
  job.cancelled_by = {};
  if (before.ending == JobState::kPreempted)
    job.requeue_after = false;  // that made good for the preemption; whose wish it was, his run is called cancelled
  txn.event(*txn.put(std::move(job)), "EndedBefore", "by itself");
  return true;
}

bool end_with_its_step(Txn& txn, const Job& before) {
  const Step* step = whole_work(txn, before);
  if (!step)
    return false;
  Ending truly = ending_by(txn, step->places.front().node, step->exit);
  truly.at = step->ended;
  if (before.state == JobState::kCompleting)
    return correct_end(txn, before, truly, step->exit);
  Job job = before;
  job.exit = step->exit;
  end_attempt(txn, std::move(job), truly);
  return true;
}

Instant end_as_told(const Txn& txn, const EndJob& ask) {
  constexpr Duration kSoon = seconds(30), kLongest = minutes(1);  // clients are patient for 15 s
  const Cluster* cluster = txn.tables().cluster.get();
  if (!cluster)
    return txn.now();
  const Instant told = txn.now() - std::min(ask.ago, kLongest);
  const Instant back = cluster->back_at ? cluster->back_at : txn.now();
  const bool unheard = told < back && txn.now() < back + kSoon;
  return unheard ? std::max(told, cluster->away_since) : txn.now();
}

}  // namespace lockstep
