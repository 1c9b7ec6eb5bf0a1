#include "core/dependencies.h"

#include <algorithm>
#include <vector>

#include "base/mutant.h"
#include "base/text.h"
#include "core/arrays.h"
#include "core/jobs.h"

namespace lockstep {

namespace {

using Type = Dependency::Type;
enum class Verdict : unsigned char { kMet, kWaiting, kNever };

Verdict if_ok(bool ok) { return ok ? Verdict::kMet : Verdict::kNever; }

// When the job had started (all elements of an array), or ended without: 0 = not yet.
Instant start_of(const ClusterState::Inner& inner, const Job& job) {
  if (!job.array)
    return job.started ? job.started : job.ended;
  if (!job.array->waiting.empty())
    return {};
  Instant latest = is_final(job.state) ? job.ended : job.submitted;
  const auto it = inner.elements.find(job.id);
  if (it == inner.elements.end())
    return latest;
  for (const auto& [index, id] : it->second) {
    const Job& element = *inner.tables.job(id);
    const Instant at = element.started ? element.started : element.ended;
    if (!at)
      return {};
    latest = std::max(latest, at);
  }
  return latest;
}

bool has_corr_array(const Tables& tables, const JobSpec& spec) {
  return std::any_of(spec.dependencies.begin(), spec.dependencies.end(), [&](const Dependency& d) {
    const Job* on = tables.job(d.job);
    return d.type == Type::kAfterCorr && on && on->array;
  });
}

// The counterpart of one element in another array.
Verdict corr_verdict(const ClusterState::Inner& inner, const Job& on, std::uint32_t index) {
  if (!on.array->asked.contains(index))
    return is_final(on.state) ? if_ok(on.state == JobState::kCompleted) : Verdict::kWaiting;
  const auto it = inner.elements.find(on.id);
  if (it != inner.elements.end())
    if (const auto element = it->second.find(index); element != it->second.end()) {
      const JobState state = inner.tables.job(element->second)->state;
      return is_final(state) ? if_ok(state == JobState::kCompleted) : Verdict::kWaiting;
    }
  if (on.array->waiting.contains(index))
    return Verdict::kWaiting;
  // It ended, and its record is no longer listed: the array remembers only the worst of all.
  return if_ok(on.array->worst_code == 0 && on.ending == JobState::kCompleted);
}

Verdict verdict_of(const Txn& txn, const Job& job, const Dependency& d, std::optional<std::uint32_t> element) {
  if (d.type == Type::kSingleton) {
    const auto it = txn.inner().names.find({job.spec->user, job.spec->name});
    const JobId self = job.array_job ? job.array_job : job.id;
    return it == txn.inner().names.end() || it->second.front() >= self ? Verdict::kMet : Verdict::kWaiting;
  }
  const Job* on = txn.tables().job(d.job);
  if (!on)
    return Verdict::kMet;  // forgotten: jobs are kept as long as somebody waits for them, so this was met before
  switch (d.type) {
    case Type::kAfter: {
      const Instant at = start_of(txn.inner(), *on);
      return at && at + d.delay <= txn.now() ? Verdict::kMet : Verdict::kWaiting;
    }
    case Type::kAfterCorr:
      if (on->array && element)
        return corr_verdict(txn.inner(), *on, *element);
      [[fallthrough]];
    case Type::kAfterOk: return is_final(on->state) ? if_ok(on->state == JobState::kCompleted) : Verdict::kWaiting;
    case Type::kAfterNotOk: return is_final(on->state) ? if_ok(on->state != JobState::kCompleted) : Verdict::kWaiting;
    case Type::kAfterAny:
    case Type::kSingleton: break;
  }
  return is_final(on->state) ? Verdict::kMet : Verdict::kWaiting;
}

Verdict verdict(const Txn& txn, const Job& job, std::optional<std::uint32_t> element) {
  bool met = false, waiting = false, never = false;
  for (const Dependency& d : job.spec->dependencies) switch (verdict_of(txn, job, d, element)) {
      case Verdict::kMet: met = true; break;
      case Verdict::kWaiting: waiting = true; break;
      case Verdict::kNever: never = true; break;
    }
  if (job.spec->dependency_any)
    return met ? Verdict::kMet : waiting ? Verdict::kWaiting : never ? Verdict::kNever : Verdict::kMet;
  return never ? Verdict::kNever : waiting ? Verdict::kWaiting : Verdict::kMet;
}

std::optional<std::uint32_t> element_of(const Job& job) {
  return job.array_job ? std::optional(job.array_index) : std::nullopt;
}

Hold begin_hold(const Txn& txn, const Job& job) {
  Instant at = job.begin_after;
  if (job.spec->begin)
    at = std::max(at, txn.inner().of_wall(job.spec->begin));
  return at > txn.now() ? Hold::kBeginTime : Hold::kNone;
}

// One waiting element of an array whose counterpart may have ended.
void settle_element(Txn& txn, const Job& array, std::uint32_t index) {
  const Verdict v = verdict(txn, array, index);
  if (v == Verdict::kWaiting || (v == Verdict::kNever && !array.spec->kill_on_invalid_dependency))
    return;
  Job element = split_off(txn, array, index);
  if (v == Verdict::kNever) {
    element.state = JobState::kCancelled;
    element.hold = Hold::kNone;
    element.ended = txn.now();
    element.end_reason = "DependencyNeverSatisfied";
  } else {
    element.hold = begin_hold(txn, element);
    element.eligible = txn.now();
  }
  txn.put(std::move(element));
}

void settle_elements(Txn& txn, const Ref<Job>& array) {
  for (const Dependency& d : array->spec->dependencies) {
    const Ref<Job> on = txn.job(d.job);
    if (d.type != Type::kAfterCorr || !on || !on->array)
      continue;
    IntervalSet gone = on->array->asked;  // those that have left the other array's waiting part
    for (const Interval& part : on->array->waiting.intervals()) gone.erase(part.low, part.high);
    const IntervalSet both = in_both(txn.array(array->id).waiting, gone);
    for (const Interval& part : both.intervals())
      for (std::uint64_t i = part.low; i <= part.high; ++i)
        if (txn.array(array->id).waiting.contains(static_cast<std::uint32_t>(i)))
          settle_element(txn, *array, static_cast<std::uint32_t>(i));
  }
}

}  // namespace

Hold natural_hold(const Txn& txn, const Job& job) {
  if (job.attempt == 0 && !job.spec->dependencies.empty())
    switch (verdict(txn, job, element_of(job))) {
      case Verdict::kMet: break;
      case Verdict::kWaiting: return Hold::kDependency;
      case Verdict::kNever: return Hold::kDependencyNever;
    }
  return begin_hold(txn, job);
}

void settle_hold(Txn& txn, JobId id) {
  const Ref<Job> job = txn.job(id);
  if (job->array && has_corr_array(txn.tables(), *job->spec)) {
    settle_elements(txn, job);
    if (txn.array(id).waiting.empty())
      return;
  }
  const Hold hold = natural_hold(txn, *job);
  if (hold == Hold::kDependencyNever && job->spec->kill_on_invalid_dependency) {
    end_pending(txn, *job, JobState::kCancelled, "DependencyNeverSatisfied");
    return;
  }
  if (hold == job->hold)
    return;
  Job next = *job;
  next.hold = hold;
  if (hold == Hold::kNone && !next.eligible)
    next.eligible = txn.now();
  txn.put(std::move(next));
}

void wake_dependents(Txn& txn, JobId id) {
  if (mutant(Mutant::kForgetDependents))
    return;
  const Ref<Job> moved = txn.job(id);
  if (!moved)
    return;
  const auto look_again = [&](JobId waiting) {
    const Ref<Job> job = txn.job(waiting);
    if (job && job->state == JobState::kPending && job->hold == Hold::kDependency)
      settle_hold(txn, waiting);
  };
  const auto copy_of = [&](JobId on) {
    const auto it = txn.inner().dependents.find(on);
    return it == txn.inner().dependents.end() ? std::vector<JobId>()
                                              : std::vector<JobId>(it->second.begin(), it->second.end());
  };
  for (JobId waiting : copy_of(id)) {
    look_again(waiting);
    txn.refresh_timers(waiting);  // a delay may have begun
  }
  if (moved->array_job) {
    for (JobId waiting : copy_of(moved->array_job)) {
      const Ref<Job> job = txn.job(waiting);
      if (!job || job->hold != Hold::kDependency)
        continue;
      const bool corr = has_corr_array(txn.tables(), *job->spec);
      if (corr && job->array) {
        if (txn.array(waiting).waiting.contains(moved->array_index))
          settle_element(txn, *job, moved->array_index);
      } else {
        look_again(waiting);
        txn.refresh_timers(waiting);
      }
    }
  } else if (is_final(moved->state)) {
    // Only the oldest job of a name can have become the single one.
    const auto it = txn.inner().names.find({moved->spec->user, moved->spec->name});
    if (it != txn.inner().names.end())
      look_again(it->second.front());
  }
}

Instant dependency_due(const ClusterState::Inner& inner, const Job& job) {
  Instant due = kNever;
  for (const Dependency& d : job.spec->dependencies) {
    const Job* on = d.type == Type::kAfter && d.delay.us > 0 ? inner.tables.job(d.job) : nullptr;
    const Instant start = on ? start_of(inner, *on) : Instant{};
    if (start && start + d.delay > inner.last)
      due = std::min(due, start + d.delay);
  }
  return due;
}

Result<void> check_dependencies(const Txn& txn, const JobSpec& spec, JobId self) {
  for (std::size_t i = 0; i < spec.dependencies.size(); ++i) {
    const Dependency& d = spec.dependencies[i];
    const std::string field = format("dependencies[{}]", i);
    if (d.delay.us < 0 || d.delay >= kForever)
      return invalid("Job dependency problem: the delay is out of range", field);
    if (d.type == Type::kSingleton)
      continue;
    const Job* on = txn.tables().job(d.job);
    if (!on)
      return invalid(format("Job dependency problem: there is no job {}", d.job.value), field);
    if (self && (d.job == self || on->array_job == self))
      return invalid(format("Job dependency problem: job {} would wait for itself", self.value), field);
  }
  return {};
}

}  // namespace lockstep
