#include "core/timers.h"

#include <algorithm>

#include "base/mutant.h"
#include "core/accounting.h"
#include "core/attempts.h"
#include "core/confirm.h"
#include "core/dependencies.h"
#include "core/jobs.h"
#include "core/preemption.h"
#include "core/reservations.h"
#include "core/steps.h"
#include "core/tasks.h"
#include "core/true_end.h"
#include "model/job.h"
#include "model/keys.h"
#include "model/step.h"

namespace lockstep {

namespace {

constexpr std::size_t kTimersPerTick = 512;  // looked at; how many are acted on is a matter of work
constexpr std::size_t kUsedUpPerTick = 128;

Instant pending_deadline(const ClusterState::Inner& inner, const JobSpec& spec) {
  Instant at = inner.of_wall(spec.deadline);
  const Duration shortest = spec.time_min.us > 0 ? spec.time_min : spec.time_limit;
  if (shortest.us > 0 && shortest < kForever)
    at = at - shortest;  // later than this it could not end in time
  return std::max(at, Instant{1});
}

void limit_struck(Txn& txn, const Job& job, JobState state, const char* reason) {
  if (!end_with_its_step(txn, job))
    end_attempt(txn, job, {.state = state, .reason = reason});
}

void warn(Txn& txn, const Job& before) {
  Job job = before;
  job.warned = true;
  const SignalAhead& ahead = job.spec->signal_ahead;
  for (NodeId node : live_nodes(job))
    txn.act(node, job, SignalAttempt{ahead.signal, ahead.script_only ? SignalReach::kScript : SignalReach::kSteps});
  txn.put(std::move(job));
}

void purge(Txn& txn, const Ref<Job>& job) {
  if (txn.inner().listed_for_others(*job))
    return;
  if (txn.inner().array_awaited(*job)) {
    txn.park(*job);
    return;
  }
  // Some have very many: the timer stays until the last of them is gone.
  const auto& steps = txn.tables().steps;
  for (auto it = steps.lower_bound({job->id, INT32_MIN}); it != steps.end() && it->first.first == job->id;
       it = steps.lower_bound({job->id, INT32_MIN})) {
    if (txn.tired())
      return;
    txn.remove(Ref<Step>(it->second));
  }
  const auto& tasks = txn.tables().tasks;
  for (auto it = tasks.lower_bound({job->id, 0, 0}); it != tasks.end() && it->first.job == job->id;
       it = tasks.lower_bound({job->id, 0, 0})) {
    if (txn.tired())
      return;
    txn.remove(Ref<Task>(it->second));
  }
  txn.remove(job);
}

void act_on(Txn& txn, const Timer& timer) {
  if (timer.kind == TimerKind::kTask) {
    task_timer(txn, {timer.job, timer.group, timer.index});
    return;
  }
  if (timer.kind == TimerKind::kReservation) {
    end_reservations(txn);
    return;
  }
  const Ref<Job> job = txn.job(timer.job);
  CHECK(job, "a timer of a job that is gone");
  switch (timer.kind) {
    case TimerKind::kLimit: limit_struck(txn, *job, JobState::kTimeout, "TimeLimit"); break;
    case TimerKind::kDeadline:
      if (job->state == JobState::kPending)
        end_pending(txn, *job, JobState::kDeadline, "DeadLine");
      else
        limit_struck(txn, *job, JobState::kDeadline, "DeadLine");
      break;
    case TimerKind::kWarn: warn(txn, *job); break;
    case TimerKind::kBegin: settle_hold(txn, job->id); break;
    case TimerKind::kEvict: evict(txn, *job); break;
    case TimerKind::kDependency:
      settle_hold(txn, job->id);
      txn.refresh_timers(job->id);
      break;
    case TimerKind::kConfirm: see_unconfirmed(txn, job->id); break;
    case TimerKind::kPurge: purge(txn, job); break;
    case TimerKind::kTask:
    case TimerKind::kReservation: break;
  }
}

// A client that was done while no controller could hear says so as soon as there is one: a limit that passed meanwhile
// gives it the time for that.
Instant limit_strikes(const ClusterState::Inner& inner, const Job& job) {
  constexpr Duration kToBeTold = seconds(10);
  const Cluster* cluster = inner.tables.cluster.get();
  const bool unheard =
      cluster && job.spec->interactive && job.limit_end >= cluster->away_since && job.limit_end < cluster->back_at;
  return unheard ? cluster->back_at + kToBeTold : job.limit_end;
}

}  // namespace

std::vector<Timer> timers_of(const ClusterState::Inner& inner, const Job& job) {
  std::vector<Timer> out;
  const auto add = [&](Instant at, TimerKind kind) {
    if (at && at < kNever)
      out.push_back({at, kind, job.id});
  };
  if (is_final(job.state)) {
    if (!inner.listed_for_others(job))
      add(std::max(job.ended, job.begin_after) + inner.settings.keep_ended, TimerKind::kPurge);
    return out;
  }
  const JobSpec& spec = *job.spec;
  if (job.state == JobState::kPending) {
    if (job.array && job.array->waiting.empty())
      return out;
    if (job.hold == Hold::kBeginTime)
      add(std::max({job.begin_after, spec.begin ? inner.of_wall(spec.begin) : Instant{}, Instant{1}}),
          TimerKind::kBegin);
    if (job.hold == Hold::kDependency)
      add(dependency_due(inner, job), TimerKind::kDependency);
    if (spec.deadline)
      add(pending_deadline(inner, spec), TimerKind::kDeadline);
    return out;
  }
  const bool lives = job.state == JobState::kStarting || job.state == JobState::kRunning;
  if (lives && job.eviction && job.eviction->by)
    add(std::max(job.eviction->at, Instant{1}), TimerKind::kEvict);
  if (inner.settings.unkillable_after < kForever)
    add(job.confirm_by, TimerKind::kConfirm);
  if (job.state != JobState::kRunning && job.state != JobState::kSuspended)
    return out;
  if (spec.deadline)
    add(std::max(inner.of_wall(spec.deadline), Instant{1}), TimerKind::kDeadline);
  if (const Instant end = reservation_end(inner, job); end < job.limit_end)
    add(std::max(end, Instant{1}), TimerKind::kLimit);
  if (job.limit_end && job.limit_end < kNever && job.state == JobState::kRunning && !mutant(Mutant::kIgnoreLimit)) {
    add(limit_strikes(inner, job), TimerKind::kLimit);
    if (spec.signal_ahead.signal != 0 && !job.warned)
      add(job.limit_end - spec.signal_ahead.ahead, TimerKind::kWarn);
  }
  return out;
}

bool see_return(Txn& txn) {
  const Cluster* cluster = txn.tables().cluster.get();
  if (!cluster || cluster->back_at || txn.now() <= cluster->away_since)
    return false;
  txn.edit_cluster().back_at = txn.now();
  return true;
}

void tick(Txn& txn) {
  std::vector<Timer> due;
  for (const Timer& timer : txn.inner().timers) {
    if (timer.at > txn.now() || due.size() == kTimersPerTick)
      break;
    due.push_back(timer);
  }
  for (const Timer& timer : due) {
    if (txn.tired())
      return;                                // what is left is still due
    if (txn.inner().timers.contains(timer))  // not settled by an earlier one
      act_on(txn, timer);
  }
  end_used_up(txn, kUsedUpPerTick);
  start_in_roomier(txn);
}

void set_wall_offset(Txn& txn, Duration offset) {
  if (!txn.tables().cluster || txn.tables().cluster->wall_offset != offset)
    txn.edit_cluster().wall_offset = offset;
}

Duration limit_of(const JobSpec& spec, const Partition* partition, const CoreSettings& settings) {
  if (spec.time_limit.us != 0)
    return spec.time_limit;
  if (partition && partition->time_default.us != 0)
    return partition->time_default;
  if (partition && partition->time_max < kForever)
    return partition->time_max;
  return settings.default_time_limit;
}

}  // namespace lockstep
