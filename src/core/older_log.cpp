#include "core/older_log.h"

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "core/inner.h"
#include "core/steps.h"
#include "model/bounds.h"
#include "model/job.h"

namespace lockstep {

namespace {

// What nodes may say, all together in one epoch, was given out behind the log's back.
constexpr std::uint64_t kIdsBelieved = 10'000'000;
constexpr AttemptNo kAttemptsBelieved = 1000;  // of a job

// Parts of a command from here on go on with what was seen, by its position. Lower ones are ids of jobs: those of a
// hello that proves so many stopped.
constexpr std::uint64_t kSeenFrom = std::uint64_t{1} << 63;

void learn_ids(Txn& txn, const Node& node, JobId highest) {
  const Ref<Cluster>& cluster = txn.tables().cluster;
  const std::uint64_t next = std::max(cluster ? cluster->next_job : 1, txn.settings().first_job);
  const std::uint64_t first = txn.inner().epoch.first_id ? txn.inner().epoch.first_id : next;
  const std::uint64_t seen = highest.value;
  if (seen < next || seen - first >= kIdsBelieved)
    return;
  txn.edit_cluster().next_job = seen + 1;
  txn.event(Kind::kNode, node.meta, kLogIsOlder,
            format("node {} has seen job {}, but the log ends before job {}: it is an older copy. New jobs get ids "
                   "from {} on; what the nodes run and the log does not know is ended",
                   node.meta.name, seen, next, seen + 1));
}

bool is_believed(const Txn& txn, const Job& job, const AttemptSeen& seen) {
  const auto known = txn.inner().epoch.attempts.find(job.id);
  const AttemptNo in_log = known == txn.inner().epoch.attempts.end() ? job.attempt : known->second.in_log;
  const bool plausible = seen.attempt == job.attempt || seen.attempt - in_log <= kAttemptsBelieved;
  return seen.attempt >= job.attempt && plausible && seen.next_step >= 0 &&
         seen.next_step <= static_cast<StepNo>(kStepsPerJobMax);
}

void learn_steps(Txn& txn, const Job& known, StepNo next) {
  if (known.next_step >= next || !holds_allocation(known.state))
    return;
  Job job = known;
  job.next_step = next;
  txn.put(std::move(job));
}

void learn_attempt(Txn& txn, const Job& job, const AttemptSeen& seen) {
  if (seen.attempt == job.attempt)
    return learn_steps(txn, job, seen.next_step);
  txn.note_attempt(job, seen.attempt);
  // One that runs, as far as the log knows, is over there: started again, it goes above what has been seen. So does one
  // that waits for others; a job that has had an attempt would wait for nobody any more.
  if (job.state != JobState::kPending || awaits_dependencies(job))
    return;
  Job later = job;
  later.attempt = seen.attempt;
  txn.put(std::move(later));
}

bool comes_before(const AttemptSeen& a, const AttemptSeen& b) {
  return std::tie(a.job.value, a.attempt, a.next_step) < std::tie(b.job.value, b.attempt, b.next_step);
}

// Of what was said of a job two things matter: its highest attempt, and how far the one came that the log tells of.
template <class Learn>
bool in_parts(Txn& txn, std::vector<AttemptSeen> said, Learn&& learn) {
  std::sort(said.begin(), said.end(), comes_before);
  const std::size_t first = goes_on_learning(txn) ? txn.part().from - kSeenFrom : 0;
  for (std::size_t i = first; i < said.size(); ++i) {
    if (i > first && txn.tired()) {
      txn.cut({kSeenFrom + i, true});
      return false;
    }
    txn.looked();
    const AttemptSeen& seen = said[i];
    const AttemptSeen* above = i + 1 < said.size() && said[i + 1].job == seen.job ? &said[i + 1] : nullptr;
    const Ref<Job> job = txn.job(seen.job);
    if (!job || (above && (above->attempt == seen.attempt || seen.attempt != job->attempt)) ||
        !is_believed(txn, *job, seen))
      continue;
    learn(*job, seen);
  }
  return true;
}

}  // namespace

bool goes_on_learning(const Txn& txn) { return txn.part().from >= kSeenFrom; }

bool learn_from(Txn& txn, const Node& node, const NodeHello& ask) {
  if (!goes_on_learning(txn))
    learn_ids(txn, node, ask.highest_job);
  return in_parts(txn, ask.attempts, [&txn, id = node.id](const Job& known, const AttemptSeen& seen) {
    if (seen.attempt != known.attempt)
      return learn_attempt(txn, known, seen);
    // A node has a word on steps of what runs there, and of nothing else.
    if (!holds_allocation(known.state) || txn.inner().seats_of(known).on(id).empty())
      return;
    refuse_used_steps(txn, known, id, seen.next_step);
    learn_attempt(txn, *txn.job(seen.job), seen);
  });
}

bool learn_attempts(Txn& txn, const std::vector<AttemptSeen>& seen) {
  return in_parts(txn, seen, [&txn](const Job& known, const AttemptSeen& one) { learn_attempt(txn, known, one); });
}

AttemptNo attempt_seen(const Txn& txn, JobId job) {
  const auto known = txn.inner().epoch.attempts.find(job);
  return known == txn.inner().epoch.attempts.end() ? 0 : known->second.seen;
}

}  // namespace lockstep
