// Cancel, hold, release, requeue: what users and administrators do to jobs that exist.
#include "core/jobs.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/text.h"
#include "core/arrays.h"
#include "core/attempts.h"
#include "core/dependencies.h"
#include "core/reservations.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kCancelRecordsMax = 1000;  // cancelled elements that get a record to be seen by
constexpr std::uint64_t kSplitsMax = 10'000;       // elements that one command may make records for

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
      if (job->requeue_after) {
        Job next = *job;
        next.requeue_after = false;
        next.ending = JobState::kCancelled;
        next.hold = Hold::kNone;
        next.cancelled_by = by;
        txn.put(std::move(next));
      }
      send_stops(txn, *txn.job(id), job->spec->kill_wait);
      return;
    }
    default: return;  // it has ended
  }
}

void cancel_waiting(Txn& txn, const Ref<Job>& array, const IntervalSet& which, UserId by) {
  if (which.size() > kCancelRecordsMax) {
    IntervalSet& waiting = txn.edit_array(array->id).waiting;
    for (const Interval& part : which.intervals()) waiting.erase(part.low, part.high);
    ArrayState& state = txn.edit_array(array->id);
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

Result<void> signal_record(Txn& txn, const Job& job, const CancelJob& ask) {
  if (job.state != JobState::kRunning && job.state != JobState::kSuspended && job.state != JobState::kCompleting)
    return is_final(job.state) ? Result<void>() : Result<void>(conflict(format("job {} is not running", job.id.value)));
  SignalAttempt signal{.signal = ask.signal};
  signal.steps = ask.reach != CancelJob::Reach::kScript;
  signal.script = ask.reach != CancelJob::Reach::kSteps;
  for (NodeId node : live_nodes(job)) txn.act(node, job, signal);
  return {};
}

// Makes records for addressed elements that have none.
Result<std::vector<JobId>> records_for(Txn& txn, const Targets& targets) {
  std::vector<JobId> out = targets.records;
  if (targets.whole || targets.waiting.empty())
    return out;
  const std::uint64_t count = targets.waiting.size();
  if (count > kSplitsMax || txn.tables().jobs.size() + count > txn.settings().jobs_max)
    return Error{Errc::kExhausted,
                 format("{} elements at once are too many: {} can be, or name the whole array", count, kSplitsMax),
                 {}};
  for (const Interval& part : targets.waiting.intervals())
    for (std::uint64_t i = part.low; i <= part.high; ++i)
      out.push_back(txn.put(split_off(txn, *targets.named, static_cast<std::uint32_t>(i)))->id);
  return out;
}

// The records a change of waiting jobs applies to: those addressed, and of a whole array its own record.
Result<std::vector<JobId>> pending_records(Txn& txn, const Targets& targets) {
  std::vector<JobId> out;
  if (targets.whole && targets.named->array)
    out.push_back(targets.named->id);
  for (JobId id : TRY(records_for(txn, targets))) out.push_back(id);
  std::vector<JobId> pending;
  for (JobId id : out)
    if (txn.job(id)->state == JobState::kPending)
      pending.push_back(id);
  return pending;
}

Error no_longer_pending(const Job& job) {
  return conflict(format("Job is no longer pending execution: {}", job.id.value));
}

Result<void> requeue_record(Txn& txn, const Job& job, bool hold) {
  if (job.spec->groups.front().launch == Launch::kNothing)
    return invalid(format("job {} is interactive: only batch jobs can be requeued", job.id.value));
  if (job.state == JobState::kPending) {
    Job next = job;
    if (hold)
      next.hold = Hold::kUser;
    if (next.hold != job.hold)
      txn.put(std::move(next));
    return {};
  }
  const Hold then = hold ? Hold::kUser : Hold::kNone;
  if (is_final(job.state)) {
    Job next = job;
    next.state = JobState::kPending;
    next.restarts += job.attempt > 0;
    next.ended = next.started = {};
    next.exit = next.derived_exit = {};
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
    if (job.requeue_after && job.hold == then)
      return {};
    Job next = job;
    next.requeue_after = true;
    next.hold = then;
    txn.put(std::move(next));
    return {};
  }
  end_attempt(txn, job, {.state = JobState::kCancelled, .requeue = true, .hold = then});
  return {};
}

}  // namespace

Result<void> may_change(const Txn& txn, const Job& job) {
  if (txn.caller().admin || txn.caller().user == job.spec->user)
    return {};
  return denied(format("user {} may not change job {}", txn.caller().user.value, job.id.value));
}

Result<Targets> find_targets(const Txn& txn, const JobTarget& target) {
  Targets out;
  out.named = txn.job(target.job);
  const auto unknown = [&] { return not_found(format("Invalid job id specified: {}", target.job.value)); };
  if (!out.named)
    return unknown();
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
  const auto elements = txn.inner().elements.find(target.job);
  if (elements != txn.inner().elements.end())
    for (const auto& [index, id] : elements->second)
      if (out.whole || target.elements->contains(index))
        out.records.push_back(id);
  return out;
}

void end_pending(Txn& txn, const Job& before, JobState state, const std::string& reason, UserId by) {
  Job job = before;
  job.end_reason = reason;
  job.cancelled_by = by;
  if (job.array) {
    // What still runs goes on; the record ends with the last of it.
    job.ending = state;
    txn.edit_array(job.id).waiting = {};
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

Result<void> cancel_job(Txn& txn, const CancelJob& ask) {
  const Targets targets = TRY(find_targets(txn, ask.target));
  if (ask.signal < 0 || ask.signal > 64)
    return invalid(format("there is no signal {}", ask.signal), "signal");
  if (ask.signal != 0) {
    const bool one = targets.records.size() == 1 && targets.waiting.empty();
    for (JobId id : targets.records) {
      auto sent = signal_record(txn, *txn.job(id), ask);
      if (one && !sent.ok())
        return sent;
    }
    return {};
  }
  const UserId by = txn.caller().user;
  if (targets.whole) {
    cancel_whole(txn, targets.named->id, by);
    return {};
  }
  for (JobId id : targets.records) cancel_record(txn, id, by);
  cancel_waiting(txn, targets.named, targets.waiting, by);
  return {};
}

Result<void> hold_job(Txn& txn, const HoldJob& ask) {
  const Targets targets = TRY(find_targets(txn, ask.target));
  if (ask.by_admin && !txn.caller().admin)
    return denied(format("user {} may not hold as administrator", txn.caller().user.value));
  const auto records = TRY(pending_records(txn, targets));
  if (records.empty())
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

Result<void> release_job(Txn& txn, const ReleaseJob& ask) {
  const Targets targets = TRY(find_targets(txn, ask.target));
  const auto records = TRY(pending_records(txn, targets));
  if (records.empty())
    return no_longer_pending(*targets.named);
  for (JobId id : records) {
    const Ref<Job> job = txn.job(id);
    const auto reservations =
        job->spec->reservation.empty() ? std::vector<std::string>() : split(job->spec->reservation, ',');
    if (std::none_of(reservations.begin(), reservations.end(),
                     [&](const std::string& name) { return txn.tables().reservation(name); }))
      for (const std::string& name : reservations) forget_reservation(txn, id, name);  // as in Slurm
    switch (job->hold) {
      case Hold::kAdmin:
        if (!txn.caller().admin)
          return denied(format("job {} is held by an administrator", id.value));
        [[fallthrough]];
      case Hold::kUser:
      case Hold::kRequeueLimit:
      case Hold::kDependencyNever:
      case Hold::kLaunchFailed: settle_hold(txn, id); break;
      case Hold::kNone:
      case Hold::kDependency:
      case Hold::kBeginTime:
      case Hold::kArrayThrottle: break;
    }
  }
  return {};
}

Result<void> requeue_job(Txn& txn, const RequeueJob& ask) {
  const Targets targets = TRY(find_targets(txn, ask.target));
  for (JobId id : targets.records) TRY(requeue_record(txn, *txn.job(id), ask.hold));
  if (!ask.hold || targets.waiting.empty())
    return {};
  return hold_job(txn, {ask.target});
}

}  // namespace lockstep
