#include "core/dependencies.h"

#include <algorithm>
#include <vector>

#include "base/mutant.h"
#include "base/text.h"
#include "core/arrays.h"
#include "core/attempts.h"
#include "core/jobs.h"
#include "model/job.h"

namespace lockstep {

namespace {

using Type = Dependency::Type;
enum class Verdict : unsigned char { kMet, kWaiting, kNever };

Verdict if_ok(bool ok) { return ok ? Verdict::kMet : Verdict::kNever; }

Instant start_of_run(const Job& job) { return job.started ? job.started : is_final(job.state) ? job.ended : Instant{}; }

// A job that can never run is ended rather than left to its owner to see.
bool kills(const Txn& txn, const Job& job) {
  return job.spec->kill_on_invalid_dependency || txn.settings().kill_invalid_dependency;
}

// When the job had started (all elements of an array), or ended without: 0 = not yet.
Instant start_of(const ClusterState::Inner& inner, const Job& job) {
  if (!job.array)
    return start_of_run(job);
  if (!job.array->waiting.empty())
    return {};
  Instant latest = is_final(job.state) ? job.ended : job.submitted;
  const auto it = inner.elements.find(job.id);
  if (it == inner.elements.end())
    return latest;
  for (const auto& [index, id] : it->second) {
    const Job& element = *inner.tables.job(id);
    const Instant at = start_of_run(element);
    if (!at)
      return {};
    latest = std::max(latest, at);
  }
  return latest;
}

// The record of what is waited for: of an element its own. Null: there is none, or it waits in its array.
const Job* awaited_record(const ClusterState::Inner& inner, const Dependency& d) {
  const Job* on = inner.tables.job(d.job);
  if (!on || !d.element)
    return on;
  const auto elements = inner.elements.find(d.job);
  if (elements == inner.elements.end())
    return nullptr;
  const auto element = elements->second.find(*d.element);
  return element == elements->second.end() ? nullptr : inner.tables.job(element->second);
}

// Of an element without a record. One that has ended and is no longer listed: its array remembers only the worst of
// all.
Verdict unlisted_element(const Txn& txn, const Job& array, const Dependency& d) {
  if (array.array && txn.array(array.id).waiting.contains(*d.element))
    return Verdict::kWaiting;
  const bool ok = array.array && array.array->worst_code == 0 && array.ending == JobState::kCompleted;
  switch (d.type) {
    case Type::kAfterOk:
    case Type::kAfterCorr: return if_ok(ok);
    case Type::kAfterNotOk: return if_ok(!ok);
    case Type::kAfter:
    case Type::kAfterAny:
    case Type::kSingleton: break;
  }
  return Verdict::kMet;
}

bool has_corr_array(const Tables& tables, const JobSpec& spec) {
  return std::any_of(spec.dependencies.begin(), spec.dependencies.end(), [&](const Dependency& d) {
    const Job* on = tables.job(d.job);
    return d.type == Type::kAfterCorr && on && on->array && !d.element;
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

// Of a job with the same owner and name, the oldest that is not over goes first.
Verdict singleton_verdict(const ClusterState::Inner& inner, const Job& job) {
  const auto it = inner.names.find({job.spec->user, job.spec->name});
  const JobId self = job.array_job ? job.array_job : job.id;
  return it == inner.names.end() || it->second.front() >= self ? Verdict::kMet : Verdict::kWaiting;
}

// By the record of the job that is waited for.
Verdict listed_verdict(const Txn& txn, const Job& on, const Dependency& d, std::optional<std::uint32_t> element) {
  const bool over = is_final(on.state);
  switch (d.type) {
    case Type::kAfter: {
      const Instant at = start_of(txn.inner(), on);
      return at && at + d.delay <= txn.now() ? Verdict::kMet : Verdict::kWaiting;
    }
    case Type::kAfterCorr:
      if (on.array && element)
        return corr_verdict(txn.inner(), on, *element);
      [[fallthrough]];
    case Type::kAfterOk: return over ? if_ok(on.state == JobState::kCompleted) : Verdict::kWaiting;
    case Type::kAfterNotOk: return over ? if_ok(on.state != JobState::kCompleted) : Verdict::kWaiting;
    case Type::kAfterAny:
    case Type::kSingleton: break;
  }
  return over ? Verdict::kMet : Verdict::kWaiting;
}

Verdict verdict_of(const Txn& txn, const Job& job, const Dependency& d, std::optional<std::uint32_t> element) {
  if (d.type == Type::kSingleton)
    return singleton_verdict(txn.inner(), job);
  if (d.failed)
    return Verdict::kNever;
  if (const Job* on = awaited_record(txn.inner(), d))
    return listed_verdict(txn, *on, d, element);
  if (const Job* array = txn.tables().job(d.job))
    return unlisted_element(txn, *array, d);
  return Verdict::kMet;  // forgotten: jobs are kept as long as somebody waits for them, so this was met before
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

constexpr std::size_t kToldAtOnce = 64;       // those who wait for a job, within the command that changed it
constexpr std::uint64_t kRecordsMost = 1000;  // cancelled elements that get a record to be seen by
constexpr std::size_t kRangesPerLook = 32;    // of an array's elements, that are no more work than a look at a record

void end_element(Txn& txn, const Job& array, std::uint32_t index, Verdict v) {
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

// One waiting element of an array whose counterpart may have ended.
void settle_element(Txn& txn, const Job& array, std::uint32_t index) {
  const Verdict v = verdict(txn, array, index);
  if (v == Verdict::kMet || (v == Verdict::kNever && kills(txn, array)))
    end_element(txn, array, index, v);
}

// Waiting elements whose counterpart in some other array has left that one's waiting part.
IntervalSet candidates(Txn& txn, const Job& array) {
  IntervalSet out;
  for (const Dependency& d : array.spec->dependencies) {
    const Ref<Job> on = txn.job(d.job);
    if (d.type != Type::kAfterCorr || d.element || !on || !on->array)
      continue;
    const IntervalSet gone = without(on->array->asked, on->array->waiting);
    const IntervalSet both = in_both(txn.array(array.id).waiting, gone);
    if (out.empty())
      out = both;
    else
      for (const Interval& part : both.intervals()) out.insert(part.low, part.high);
    txn.looked((on->array->asked.intervals().size() + both.intervals().size()) / kRangesPerLook);
  }
  return out;
}

// Very many that can never run leave together and without records, as when they are cancelled.
void drop_elements(Txn& txn, const Job& array, const IntervalSet& never) {
  if (never.empty())
    return;
  ArrayState& state = txn.edit_array(array.id);
  cut_off(state, never);
  state.worst_code = std::max(state.worst_code, 1u);
  txn.event(array, "ElementsCancelled", never.text());
  // Without any record of an element the array's own is what tells its story.
  if (state.waiting.empty() && !txn.inner().elements.contains(array.id)) {
    Job job = *txn.job(array.id);
    job.ending = JobState::kCancelled;
    job.end_reason = "DependencyNeverSatisfied";
    txn.put(std::move(job));
  }
}

// From this element on. False: it was cut, and Chores go on with it.
bool settle_elements(Txn& txn, const Ref<Job>& array, std::uint64_t from) {
  const IntervalSet all = candidates(txn, *array);
  const bool together = all.size() > kRecordsMost;
  IntervalSet never;
  for (const Interval& part : all.intervals())
    for (std::uint64_t i = std::max<std::uint64_t>(part.low, from); i <= part.high; ++i) {
      if (txn.tired()) {
        drop_elements(txn, *array, never);
        txn.chores().unsettled[array->id].from = i;
        return false;
      }
      const auto index = static_cast<std::uint32_t>(i);
      txn.looked();
      const Verdict v = verdict(txn, *array, index);
      if (v == Verdict::kNever && together && kills(txn, *array))
        never.insert(index);
      else if (v == Verdict::kMet || (v == Verdict::kNever && kills(txn, *array)))
        end_element(txn, *array, index, v);
    }
  drop_elements(txn, *array, never);
  return true;
}

// What holds the job as a whole.
void settle_whole(Txn& txn, JobId id) {
  const Ref<Job> job = txn.job(id);
  if (job->array && txn.array(id).waiting.empty())
    return;
  const Hold hold = natural_hold(txn, *job);
  if (hold == Hold::kDependencyNever && kills(txn, *job)) {
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

bool waits_for_others(const Txn& txn, JobId id) {
  const Ref<Job> job = txn.job(id);
  return job && job->state == JobState::kPending && job->hold == Hold::kDependency;
}

void look_again(Txn& txn, JobId waiting) {
  const Ref<Job> job = txn.job(waiting);
  if (!job)
    return;
  txn.looked(1 + job->spec->dependencies.size());
  if (waits_for_others(txn, waiting))
    settle_hold(txn, waiting);
  txn.refresh_timers(waiting);  // a delay may have begun
}

// Few are told at once. Many are told by and by; should it change again meanwhile, they all look once more.
template <class Look>
void tell(Txn& txn, JobId on, Look&& look) {
  const auto it = txn.inner().dependents.find(on);
  if (it == txn.inner().dependents.end())
    return;
  if (it->second.size() > kToldAtOnce || txn.tired()) {
    const auto [telling, fresh] = txn.chores().untold.try_emplace(on);
    telling->second.again = !fresh;
    return;
  }
  for (JobId waiting : std::vector<JobId>(it->second.begin(), it->second.end())) look(waiting);
}

// The next of those who wait for the first untold job looks.
void tell_one(Txn& txn) {
  auto& untold = txn.chores().untold;
  const auto telling = untold.begin();
  const auto all = txn.inner().dependents.find(telling->first);
  if (all != txn.inner().dependents.end())
    if (const auto next = all->second.upper_bound(telling->second.last); next != all->second.end()) {
      const JobId waiting = telling->second.last = *next;
      look_again(txn, waiting);
      return;
    }
  if (telling->second.again && all != txn.inner().dependents.end())
    telling->second = {};
  else
    untold.erase(telling);
  txn.looked();
}

void settle_more(Txn& txn) {
  auto& unsettled = txn.chores().unsettled;
  const auto [id, settling] = *unsettled.begin();
  unsettled.erase(unsettled.begin());
  txn.looked();
  if (!waits_for_others(txn, id))
    return;
  if (!settle_elements(txn, txn.job(id), settling.from))
    unsettled[id].again = settling.again;
  else if (settling.again)
    unsettled[id] = {};
  else
    settle_whole(txn, id);
}

// Elements that were listed for those who awaited their array may be forgotten, each in its own time.
void unpark_one(Txn& txn) {
  Chores& chores = txn.chores();
  const auto parked = chores.parked.find(*chores.unparked.begin());
  if (parked == chores.parked.end()) {
    chores.unparked.erase(chores.unparked.begin());
    return;
  }
  const JobId element = *parked->second.begin();
  parked->second.erase(parked->second.begin());
  if (parked->second.empty())
    chores.parked.erase(parked);
  txn.refresh_timers(element);
  txn.looked();
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
    const auto under_way = txn.chores().unsettled.find(id);
    const bool whole = under_way == txn.chores().unsettled.end() && settle_elements(txn, job, 0);
    if (under_way != txn.chores().unsettled.end())
      under_way->second.again = true;
    if (!whole) {
      Job next = *txn.job(id);
      if (next.hold != Hold::kDependency) {
        next.hold = Hold::kDependency;  // until all of it has been looked at
        txn.put(std::move(next));
      }
      return;
    }
  }
  settle_whole(txn, id);
}

void wake_dependents(Txn& txn, JobId id) {
  if (mutant(Mutant::kForgetDependents))
    return;
  const Ref<Job> moved = txn.job(id);
  if (!moved)
    return;
  tell(txn, id, [&](JobId waiting) { look_again(txn, waiting); });
  if (moved->array_job) {
    tell(txn, moved->array_job, [&](JobId waiting) {
      const Ref<Job> job = txn.job(waiting);
      if (!job || job->hold != Hold::kDependency)
        return;
      if (!job->array || !has_corr_array(txn.tables(), *job->spec))
        look_again(txn, waiting);
      else if (txn.array(waiting).waiting.contains(moved->array_index))
        settle_element(txn, *job, moved->array_index);
    });
  } else if (is_final(moved->state)) {
    // Only the oldest job of a name can have become the single one.
    const auto it = txn.inner().names.find({moved->spec->user, moved->spec->name});
    if (it == txn.inner().names.end() || !is_singleton(*txn.job(it->second.front())))
      return;
    if (txn.tired())
      txn.chores().lookers.insert(it->second.front());
    else
      look_again(txn, it->second.front());
  }
}

void do_chores(Txn& txn) {
  if (mutant(Mutant::kForgetDependents))
    txn.chores().untold.clear();
  while (!txn.tired() && !txn.chores().empty()) {
    if (!txn.chores().lookers.empty())
      look_again(txn, txn.chores().lookers.extract(txn.chores().lookers.begin()).value());
    else if (!txn.chores().untold.empty())
      tell_one(txn);
    else if (!txn.chores().unsettled.empty())
      settle_more(txn);
    else if (!txn.chores().sweeps.empty())
      sweep_more(txn);
    else
      unpark_one(txn);
  }
}

Instant dependency_due(const ClusterState::Inner& inner, const Job& job) {
  Instant due = kNever;
  for (const Dependency& d : job.spec->dependencies) {
    const Job* on = d.type == Type::kAfter && d.delay.us > 0 ? awaited_record(inner, d) : nullptr;
    const Instant start = on ? start_of(inner, *on) : Instant{};
    if (start && start + d.delay > inner.last)
      due = std::min(due, start + d.delay);
  }
  return due;
}

Result<void> check_dependencies(const Txn& txn, const JobSpec& spec, JobId self) {
  for (std::size_t i = 0; i < spec.dependencies.size(); ++i) {
    const Dependency& d = spec.dependencies[i];
    const auto field = [i] { return format("dependencies[{}]", i); };
    if (d.delay.us < 0 || d.delay >= kForever)
      return invalid("Job dependency problem: the delay is out of range", field());
    if (d.type == Type::kSingleton)
      continue;
    if (d.failed)
      continue;
    const Job* on = txn.tables().job(d.job);
    if (!on)
      return invalid(format("Job dependency problem: there is no job {}", d.job.value), field());
    if (d.element && (!on->array || !on->array->asked.contains(*d.element)))
      return invalid(on->array ? format("Job dependency problem: array {} has no element {}", d.job.value, *d.element)
                               : format("Job dependency problem: job {} is no array", d.job.value),
                     field());
    if (self && (d.job == self || on->array_job == self))
      return invalid(format("Job dependency problem: job {} would wait for itself", self.value), field());
  }
  return {};
}

}  // namespace lockstep
