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

// --signal is as long ahead of the limit as it says, but not at the start: who is meant is to be there, and to have
// said what he does with it. Slurm looks at limits every half minute, so its jobs have as much on the average.
constexpr Duration kWarnBehindStart = seconds(30);

Instant warning_of(const Job& job) {
  const Instant from = std::min(job.started, job.limit_end);
  const Duration half{(job.limit_end - from).us / 2};
  return std::max(job.limit_end - job.spec->signal_ahead.ahead, from + std::min(kWarnBehindStart, half));
}

void limit_struck(Txn& txn, const Job& job, JobState state, const char* reason) {
  if (!end_with_its_step(txn, job))
    end_attempt(txn, job, {.state = state, .reason = reason});
}

void warn(Txn& txn, const Job& before) {
  Job job = before;
  job.warned = true;
  const SignalAhead& ahead = job.spec->signal_ahead;
  const Duration stops_in = std::max(Duration{}, job.limit_end - txn.now()) + job.spec->kill_wait;
  for (NodeId node : live_nodes(job))
    txn.act(node, job,
            SignalAttempt{ahead.signal, ahead.script_only ? SignalReach::kScript : SignalReach::kSteps, stops_in});
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

// Collects the timers of one job, those that mean something.
class TimersOf {
 public:
  TimersOf(const ClusterState::Inner& inner, const Job& job) : inner_(inner), job_(job), spec_(*job.spec) {}

  std::vector<Timer> all() && {
    if (is_final(job_.state))
      ended();
    else if (job_.state == JobState::kPending)
      pending();
    else
      attempt();
    return std::move(out_);
  }

 private:
  void add(Instant at, TimerKind kind) {
    if (at && at < kNever)
      out_.push_back({at, kind, job_.id});
  }
  // Instant{} says that there is none: what was due at the very beginning is due a moment later.
  void add_even_if_at_once(Instant at, TimerKind kind) { add(std::max(at, Instant{1}), kind); }

  void ended() {
    if (!inner_.listed_for_others(job_))
      add(std::max(job_.ended, job_.begin_after) + inner_.settings.keep_ended, TimerKind::kPurge);
  }

  void pending() {
    if (job_.array && job_.array->waiting.empty())
      return;
    if (job_.hold == Hold::kBeginTime)
      add_even_if_at_once(std::max(job_.begin_after, spec_.begin ? inner_.of_wall(spec_.begin) : Instant{}),
                          TimerKind::kBegin);
    if (job_.hold == Hold::kDependency)
      add(dependency_due(inner_, job_), TimerKind::kDependency);
    if (spec_.deadline)
      add(pending_deadline(inner_, spec_), TimerKind::kDeadline);
  }

  void attempt() {
    const bool lives = job_.state == JobState::kStarting || job_.state == JobState::kRunning;
    if (lives && job_.eviction && job_.eviction->by)
      add_even_if_at_once(job_.eviction->at, TimerKind::kEvict);
    if (inner_.settings.unkillable_after < kForever)
      add(job_.confirm_by, TimerKind::kConfirm);
    if (job_.state == JobState::kRunning || job_.state == JobState::kSuspended)
      ends_of_run();
  }

  void ends_of_run() {
    if (spec_.deadline)
      add_even_if_at_once(inner_.of_wall(spec_.deadline), TimerKind::kDeadline);
    if (const Instant end = reservation_end(inner_, job_); end < job_.limit_end)
      add_even_if_at_once(end, TimerKind::kLimit);
    const bool has_limit = job_.limit_end && job_.limit_end < kNever && job_.state == JobState::kRunning;
    if (!has_limit || mutant(Mutant::kIgnoreLimit))
      return;
    add(limit_strikes(inner_, job_), TimerKind::kLimit);
    if (spec_.signal_ahead.signal != 0 && !job_.warned)
      add(warning_of(job_), TimerKind::kWarn);
  }

  const ClusterState::Inner& inner_;
  const Job& job_;
  const JobSpec& spec_;
  std::vector<Timer> out_;
};

}  // namespace

std::vector<Timer> timers_of(const ClusterState::Inner& inner, const Job& job) { return TimersOf(inner, job).all(); }

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
