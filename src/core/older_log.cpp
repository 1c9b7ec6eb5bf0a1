#include "core/older_log.h"

#include <algorithm>

#include "base/text.h"
#include "core/inner.h"
#include "core/steps.h"
#include "model/bounds.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kIdsBelieved = 10'000'000;  // that a node may say were given out behind the log's back
constexpr AttemptNo kAttemptsBelieved = 1000;

void learn_ids(Txn& txn, const Node& node, JobId highest) {
  const Ref<Cluster>& cluster = txn.tables().cluster;
  const std::uint64_t next = std::max(cluster ? cluster->next_job : 1, txn.settings().first_job);
  const std::uint64_t seen = highest.value;
  if (seen < next || seen - next >= kIdsBelieved)
    return;
  txn.edit_cluster().next_job = seen + 1;
  txn.event(Kind::kNode, node.meta, kLogIsOlder,
            format("node {} has seen job {}, but the log ends before job {}: it is an older copy. New jobs get ids "
                   "from {} on; what the nodes run and the log does not know is ended",
                   node.meta.name, seen, next, seen + 1));
}

bool is_believed(const Job& job, const AttemptSeen& seen) {
  return seen.attempt >= job.attempt && seen.attempt - job.attempt <= kAttemptsBelieved && seen.next_step >= 0 &&
         seen.next_step <= static_cast<StepNo>(kStepsPerJobMax);
}

void learn_steps(Txn& txn, const Job& known, StepNo next) {
  if (known.next_step >= next || !holds_allocation(known.state))
    return;
  Job job = known;
  job.next_step = next;
  txn.put(std::move(job));
}

void learn_attempt(Txn& txn, const AttemptSeen& seen) {
  const Ref<Job> job = txn.job(seen.job);
  if (!job || !is_believed(*job, seen))
    return;
  if (seen.attempt == job->attempt)
    return learn_steps(txn, *job, seen.next_step);
  // One that runs, as far as the log knows, is over there: started again, it goes above what has been seen. So does one
  // that waits for others; a job that has had an attempt would wait for nobody any more.
  if (job->state != JobState::kPending || awaits_dependencies(*job)) {
    txn.note_attempt(seen.job, seen.attempt);
    return;
  }
  Job later = *job;
  later.attempt = seen.attempt;
  txn.put(std::move(later));
}

}  // namespace

void learn_from(Txn& txn, const Node& node, const NodeHello& ask) {
  learn_ids(txn, node, ask.highest_job);
  for (const AttemptSeen& seen : ask.attempts) {
    const Ref<Job> job = txn.job(seen.job);
    if (!job || !is_believed(*job, seen))
      continue;
    if (seen.attempt == job->attempt) {
      // A node has a word on steps of what runs there, and of nothing else.
      if (!holds_allocation(job->state) || txn.inner().seats_of(*job).on(node.id).empty())
        continue;
      refuse_used_steps(txn, *job, node.id, seen.next_step);
    }
    learn_attempt(txn, seen);
  }
}

void learn_attempts(Txn& txn, const std::vector<AttemptSeen>& seen) {
  for (const AttemptSeen& one : seen) learn_attempt(txn, one);
}

}  // namespace lockstep
