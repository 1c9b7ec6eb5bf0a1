// Cancel, hold, release, requeue: what users and administrators do to jobs that exist.
#include "core/jobs.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/text.h"
#include "core/arrays.h"
#include "core/attempts.h"
#include "core/dependencies.h"
#include "core/reservations.h"
#include "model/bounds.h"
#include "model/job.h"
#include "rules/user_words.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kCancelRecordsMax = 1000;  // cancelled elements that get a record to be seen by
constexpr std::uint64_t kSplitsMax = 10'000;       // elements that one command may make records for
constexpr std::size_t kElementsPerPart = 256;      // of an array, in one part of a command

void cancel_record(Txn& txn, JobId id, UserId by) {
  const Ref<Job> job = txn.job(id);
  switch (job->state) {
    case JobState::kPending: end_pending(txn, *job, JobState::kCancelled, "", by); return;
    case JobState::kStarting:
      if (mutant(Mutant::kLostCancel))
        return;
      [[fallthrough]];
    case JobState::kRunning:
    case JobState::kSuspended: end_attempt(txn, *job, {.state = JobState::kCancelled, .by = by}); return;
    case JobState::kCompleting: {
      Job next = *job;
      next.cancelled_by = by;  // whatever is learnt later of its nodes, it is not started again
      if (job->requeue_after) {
        next.requeue_after = false;
        next.ending = JobState::kCancelled;
        next.hold = Hold::kNone;
      }
      txn.put(std::move(next));
      send_stops(txn, *txn.job(id), job->spec->kill_wait);
      return;
    }
    default: return;  // it has ended
  }
}

void cancel_waiting(Txn& txn, const Ref<Job>& array, const IntervalSet& which, UserId by) {
  if (which.size() > kCancelRecordsMax) {
    ArrayState& state = txn.edit_array(array->id);
    cut_off(state, which);
    state.worst_code = std::max(state.worst_code, 1u);
    txn.event(*array, "ElementsCancelled", which.text());
    return;
  }
  for (const Interval& part : which.intervals())
    for (std::uint64_t i = part.low; i <= part.high; ++i) {
      Job element = split_off(txn, *array, static_cast<std::uint32_t>(i));
      element.state = JobState::kCancelled;
      element.hold = Hold::kNone;
      element.ended = txn.now();
      element.cancelled_by = by;
      txn.put(std::move(element));
    }
}

Error ended(const Job& job) {
  return {Errc::kConflict, format("Job/step already completing or completed: job {}", job.id.value), "ended"};
}

Result<void> signal_record(Txn& txn, const Job& job, const CancelJob& ask) {
  if (is_final(job.state))
    return ended(job);
  if (job.state != JobState::kRunning && job.state != JobState::kSuspended && job.state != JobState::kCompleting)
    return conflict(format("job {} is not running", job.id.value));
  for (NodeId node : live_nodes(job)) txn.act(node, job, SignalAttempt{ask.signal, ask.reach});
  return {};
}

// Elements with a record from this part's first one on, as many as a part takes.
void add_records(const Txn& txn, const std::optional<IntervalSet>& wanted, Targets& out) {
  const auto found = txn.inner().elements.find(out.named->id);
  if (found == txn.inner().elements.end())
    return;
  const auto& elements = found->second;
  static const std::vector<Interval> kAll{{0, UINT32_MAX}};
  const std::vector<Interval>& parts = wanted ? wanted->intervals() : kAll;
  auto part = parts.begin();
  auto it = elements.lower_bound(static_cast<std::uint32_t>(std::min<std::uint64_t>(txn.part().from, UINT32_MAX)));
  while (it != elements.end()) {
    // Whichever lags behind jumps: both may be very long.
    part =
        std::lower_bound(part, parts.end(), it->first, [](const Interval& p, std::uint32_t i) { return p.high < i; });
    if (part == parts.end())
      return;
    if (it->first < part->low) {
      it = elements.lower_bound(part->low);
      continue;
    }
    if (out.records.size() == kElementsPerPart) {
      out.next = it->first;
      return;
    }
    out.records.push_back(it->second);
    ++it;
  }
}

// The records a change of waiting jobs applies to: those addressed, and of a whole array its own record.
Result<std::vector<JobId>> pending_records(Txn& txn, Targets& targets) {
  std::vector<JobId> out;
  if (targets.whole && targets.named->array && txn.part().from == 0)
    out.push_back(targets.named->id);
  for (JobId id : TRY(records_for(txn, targets))) out.push_back(id);
  std::vector<JobId> pending;
  for (JobId id : out)
    if (txn.job(id)->state == JobState::kPending)
      pending.push_back(id);
  return pending;
}

// The command goes on where this part of it ends. Says whether any part so far had something to do.
bool go_on(Txn& txn, const Targets& targets, bool found) {
  found = found || txn.part().found;
  if (targets.next)
    txn.cut({*targets.next, found});
  return found || targets.next;
}

Error no_longer_pending(const Job& job) {
  return conflict(format("Job is no longer pending execution: {}", job.id.value));
}

// Whether its owner lets it start over at all. Who changes his mind says so: nobody's work is done twice by surprise.
Result<void> may_start_over(const Job& job) {
  if (!job.spec->health_check.empty())
    return invalid(
        format("job {} runs health check {}: the next run is a job of its own", job.id.value, job.spec->health_check));
  if (job.spec->groups.front().launch == Launch::kNothing)
    return invalid(format("job {} is interactive: only batch jobs can be requeued", job.id.value));
  if (!job.spec->requeue)
    return conflict(format("Requested operation is presently disabled ({}): {}",
                           is_final(job.state)
                               ? "it was submitted with --no-requeue"
                               : "--no-requeue was asked for; scontrol update JobId=… Requeue=1 allows it",
                           job.id.value));
  return {};
}

bool is_cancelled(const Job& job) {
  return job.state == JobState::kCancelled ||
         (job.state == JobState::kCompleting && job.ending == JobState::kCancelled && !job.requeue_after);
}

// Requeueing an array brings back what ran of it. An element that was cancelled by itself stays cancelled; one that
// went with the whole array comes back with it. array_cancelled: the array was, before this command touched it.
bool comes_back(const Targets& targets, const Job& job, bool array_cancelled) {
  if (job.state == JobState::kPending)
    return false;
  return !targets.whole || !job.array_job || !is_cancelled(job) || (array_cancelled && job.attempt > 0);
}

Result<void> requeue_record(Txn& txn, const Job& job, bool hold) {
  TRY(may_start_over(job));
  const Hold then = hold ? Hold::kUser : Hold::kNone;
  if (is_final(job.state)) {
    Job next = job;
    next.state = JobState::kPending;
    next.restarts += job.attempt > 0;
    next.ended = next.started = {};
    next.exit = next.derived_exit = {};
    next.script_use = nullptr;
    next.cancelled_by = {};
    next.ending = JobState::kCompleted;
    next.begin_after = txn.now() + txn.settings().requeue_delay;
    next.eligible = next.begin_after;
    next.hold = hold ? Hold::kUser : natural_hold(txn, next);
    txn.event(next, "Requeued");
    txn.put(std::move(next));
    return {};
  }
  if (job.state == JobState::kCompleting) {
    const bool preempted = job.ending == JobState::kPreempted;
    if (job.requeue_after && job.hold == then && !preempted)
      return {};
    Job next = job;
    if (preempted)
      next.ending = JobState::kCancelled;  // as of any whose run somebody wants to start over
    next.requeue_after = true;
    next.hold = then;
    txn.put(std::move(next));
    return {};
  }
  end_attempt(txn, job, {.state = JobState::kCancelled, .requeue = true, .hold = then});
  return {};
}

// The record of an array grows with the gaps that are made in what waits of it.
Result<void> may_pick_out(const Txn& txn, const Targets& targets) {
  if (targets.waiting.empty())
    return {};
  const IntervalSet& waiting = txn.array(targets.named->id).waiting;
  const std::size_t left = without(waiting, targets.waiting).intervals().size();
  if (left <= std::max(kWaitingPiecesMax, waiting.intervals().size()))
    return {};
  return Error{Errc::kExhausted,
               format("what waits of array {} would be left in {} separate ranges; {} are allowed: name the elements "
                      "between as well, or the whole array",
                      targets.named->id.value, left, kWaitingPiecesMax),
               "elements"};
}

}  // namespace

bool may_act(const Caller& caller, const Job& job) {
  return caller.admin || (caller.user == job.spec->user && (!caller.only_on || is_held_on(job, caller.only_on)));
}

Result<void> may_change(const Txn& txn, const Job& job) {
  const Caller& caller = txn.caller();
  if (may_act(caller, job))
    return {};
  if (caller.only_on && caller.user == job.spec->user)
    return denied(
        format("job {} is not on this node: root of a compute node reaches only what is there", job.id.value));
  return denied(format("user {} may not change job {}", user_words(txn.tables(), txn.caller().user), job.id.value));
}

namespace {

// What waits of an array is on no node.
Result<void> may_change_all(const Txn& txn, const Targets& targets) {
  for (const JobId id : targets.records) TRY(may_change(txn, *txn.job(id)));
  return targets.waiting.empty() ? Result<void>() : may_change(txn, *targets.named);
}

}  // namespace

Result<std::vector<JobId>> records_for(Txn& txn, Targets& targets) {
  if (targets.whole || targets.waiting.empty())
    return targets.records;
  const std::uint64_t count = targets.waiting.size();
  TRY(may_pick_out(txn, targets));
  if (count > kSplitsMax || txn.tables().jobs.size() + count > txn.settings().jobs_max)
    return Error{Errc::kExhausted,
                 format("{} elements at once are too many: {} can be, or name the whole array", count, kSplitsMax),
                 {}};
  std::vector<JobId> out = targets.records;
  std::size_t made = 0;
  for (const Interval& part : targets.waiting.intervals())
    for (std::uint64_t i = std::max<std::uint64_t>(part.low, txn.part().from); i <= part.high; ++i) {
      if (targets.next && i >= *targets.next)
        return out;
      if (made++ == kElementsPerPart) {
        targets.next = i;
        std::erase_if(out, [&](JobId id) { return txn.job(id)->array_index >= i; });
        return out;
      }
      out.push_back(txn.put(split_off(txn, *targets.named, static_cast<std::uint32_t>(i)))->id);
    }
  return out;
}

Result<Targets> find_targets(const Txn& txn, const JobTarget& target) {
  Targets out;
  out.named = txn.job(target.job);
  const auto unknown = [&] { return not_found(format("Invalid job id specified: {}", target.job.value)); };
  if (!out.named)
    return unknown();
  // Elements run apart from their array, each on its own nodes.
  const bool has_elements = out.named->array && txn.caller().only_on && txn.caller().user == out.named->spec->user;
  if (!has_elements)
    TRY(may_change(txn, *out.named));
  if (!target.elements) {
    if (!out.named->array) {
      out.records.push_back(target.job);
      return out;
    }
    out.waiting = txn.array(target.job).waiting;
  } else {
    if (!out.named->array || in_both(*target.elements, out.named->array->asked).empty())
      return unknown();
    out.whole = false;
    out.waiting = in_both(*target.elements, txn.array(target.job).waiting);
  }
  add_records(txn, target.elements, out);
  if (has_elements)
    TRY(may_change_all(txn, out));
  return out;
}

void end_pending(Txn& txn, const Job& before, JobState state, const std::string& reason, UserId by) {
  Job job = before;
  job.end_reason = reason;
  job.cancelled_by = by;
  if (job.array) {
    // What still runs goes on; the record ends with the last of it.
    job.ending = state;
    ArrayState& array = txn.edit_array(job.id);
    cut_off(array, array.waiting);
    if (job.hold == Hold::kArrayThrottle)
      job.hold = Hold::kNone;
    txn.put(std::move(job));
    return;
  }
  job.state = state;
  job.hold = Hold::kNone;
  job.ended = txn.now();
  txn.event(job, "Ended", reason);
  txn.put(std::move(job));
}

void cancel_whole(Txn& txn, JobId id, UserId by) {
  const Ref<Job> job = txn.job(id);
  if (!job->array) {
    cancel_record(txn, id, by);
    return;
  }
  const auto elements = txn.inner().elements.find(id);
  if (elements != txn.inner().elements.end()) {
    const std::map<std::uint32_t, JobId> records = elements->second;
    for (const auto& [index, element] : records) cancel_record(txn, element, by);
  }
  const Ref<Job> now_there = txn.job(id);
  if (!is_final(now_there->state))
    end_pending(txn, *now_there, JobState::kCancelled, "", by);
}

namespace {

// An array with more elements than one part takes: first nothing of it starts any more, then element after element.
void cancel_in_parts(Txn& txn, const Targets& targets, UserId by) {
  const Ref<Job> array = txn.job(targets.named->id);
  if (txn.part().from == 0 && !is_final(array->state))
    end_pending(txn, *array, JobState::kCancelled, "", by);
  for (JobId id : targets.records) cancel_record(txn, id, by);
}

bool have_ended(const Txn& txn, const Targets& targets) {
  return targets.waiting.empty() && !targets.next && txn.part().from == 0 &&
         std::all_of(targets.records.begin(), targets.records.end(),
                     [&](JobId id) { return is_final(txn.job(id)->state); });
}

// Whether one job took the signal is told; of many, each takes it that can, if any can.
Result<void> signal_targets(Txn& txn, const Targets& targets, const CancelJob& ask) {
  const bool one = targets.records.size() == 1 && targets.waiting.empty() && txn.part().from == 0;
  for (JobId id : targets.records) {
    auto sent = signal_record(txn, *txn.job(id), ask);
    if (one && !sent.ok())
      return sent;
  }
  if (have_ended(txn, targets))
    return ended(*targets.named);
  return {};
}

}  // namespace

Result<void> cancel_job(Txn& txn, const CancelJob& ask) {
  const Targets targets = TRY(find_targets(txn, ask.target));
  (void)go_on(txn, targets, true);
  if (ask.signal < 0 || ask.signal > 64)
    return invalid(format("there is no signal {}", ask.signal), "signal");
  if (ask.signal != 0)
    return signal_targets(txn, targets, ask);
  const UserId by = txn.caller().user;
  if (targets.whole && (targets.next || txn.part().from > 0)) {
    cancel_in_parts(txn, targets, by);
    return {};
  }
  if (targets.whole) {
    cancel_whole(txn, targets.named->id, by);
    return {};
  }
  if (txn.part().from == 0)
    TRY(may_pick_out(txn, targets));
  for (JobId id : targets.records) cancel_record(txn, id, by);
  if (txn.part().from == 0)
    cancel_waiting(txn, targets.named, targets.waiting, by);
  return {};
}

Result<void> hold_job(Txn& txn, const HoldJob& ask) {
  Targets targets = TRY(find_targets(txn, ask.target));
  if (ask.by_admin && !txn.caller().admin)
    return denied(format("user {} may not hold as administrator", user_words(txn.tables(), txn.caller().user)));
  const auto records = TRY(pending_records(txn, targets));
  if (!go_on(txn, targets, !records.empty()))
    return no_longer_pending(*targets.named);
  const Hold hold = ask.by_admin ? Hold::kAdmin : Hold::kUser;
  for (JobId id : records) {
    Job job = *txn.job(id);
    if (job.hold == hold || (job.hold == Hold::kAdmin && !txn.caller().admin))
      continue;
    job.hold = hold;
    job.eligible = {};
    txn.put(std::move(job));
  }
  return {};
}

namespace {

// Whether a release ends that hold; the others end by themselves.
bool may_be_released(Hold hold) {
  switch (hold) {
    case Hold::kAdmin:
    case Hold::kUser:
    case Hold::kRequeueLimit:
    case Hold::kDependencyNever:
    case Hold::kLaunchFailed: return true;
    case Hold::kNone:
    case Hold::kDependency:
    case Hold::kBeginTime:
    case Hold::kArrayThrottle: break;
  }
  return false;
}

// As in Slurm: where none of the reservations that a job names is there any more, it runs without.
void forget_gone_reservations(Txn& txn, const Job& job) {
  const auto reservations =
      job.spec->reservation.empty() ? std::vector<std::string>() : split(job.spec->reservation, ',');
  if (std::none_of(reservations.begin(), reservations.end(),
                   [&](const std::string& name) { return txn.tables().reservation(name); }))
    for (const std::string& name : reservations) forget_reservation(txn, job.id, name);
}

}  // namespace

Result<void> release_job(Txn& txn, const ReleaseJob& ask) {
  Targets targets = TRY(find_targets(txn, ask.target));
  const auto records = TRY(pending_records(txn, targets));
  if (!go_on(txn, targets, !records.empty()))
    return no_longer_pending(*targets.named);
  for (JobId id : records) {
    const Ref<Job> job = txn.job(id);
    forget_gone_reservations(txn, *job);
    if (job->hold == Hold::kAdmin && !txn.caller().admin)
      return denied(format("job {} is held by an administrator", id.value));
    if (may_be_released(job->hold))
      settle_hold(txn, id);
  }
  return {};
}

Result<void> requeue_job(Txn& txn, const RequeueJob& ask) {
  const Targets targets = TRY(find_targets(txn, ask.target));
  TRY(may_start_over(*targets.named));
  const bool first_part = txn.part().from == 0;
  const bool array_cancelled =
      first_part ? targets.named->ending == JobState::kCancelled : txn.part().found && targets.waiting.empty();
  std::vector<JobId> again;
  for (JobId id : targets.records)
    if (comes_back(targets, *txn.job(id), array_cancelled))
      again.push_back(id);
  if (again.empty() && first_part && !targets.next)
    return conflict(format("{}: {}",
                           is_final(targets.named->state)
                               ? "Nothing of it had started when it was cancelled (submit it again)"
                               : "Job is pending execution",
                           targets.named->id.value));
  for (JobId id : again) TRY(requeue_record(txn, *txn.job(id), ask.hold));
  (void)go_on(txn, targets, array_cancelled);
  if (!ask.hold || targets.waiting.empty())
    return {};
  return hold_job(txn, {ask.target});
}

}  // namespace lockstep
