#include "core/steps.h"

#include <algorithm>
#include <bit>

#include "base/text.h"
#include "core/jobs.h"
#include "core/staging.h"
#include "core/step_layout.h"
#include "core/true_end.h"
#include "model/bounds.h"
#include "model/job.h"

namespace lockstep {

namespace {

constexpr std::size_t kFailuresListed = 64;
constexpr std::size_t kGrantsLookedAt = 200'000;  // for steps that wait, in one command
constexpr std::size_t kFewGrants = 64;            // so many are looked at whenever a part of a step ends
constexpr std::size_t kPlacesPerLook = 64;        // parts of a step that are no more work than a look at a record

// The status users see of several tasks is the highest; a signal counts as the shell shows it, 128 + n.
std::int32_t weight(const ExitStatus& exit) { return exit.signal != 0 ? 128 + exit.signal : exit.code; }
// As wait(2) tells it, by which the steps of a job are compared: an exit code counts for more than a signal.
std::int32_t wait_status(const ExitStatus& exit) { return (exit.code << 8) + exit.signal; }
void raise(ExitStatus& worst, const ExitStatus& exit) {
  if (weight(exit) > weight(worst))
    worst = exit;
  worst.oom = worst.oom || exit.oom;
}

std::vector<Ref<Step>> live_steps(const Txn& txn, JobId job) {
  std::vector<Ref<Step>> out;
  const auto found = txn.inner().live_steps.find(job);
  if (found == txn.inner().live_steps.end())
    return out;
  for (const StepNo number : found->second) out.push_back(txn.step(job, number));
  return out;
}

void add_use(AllocationUse& use, const Step& step) {
  if (step.state == StepState::kPending || step.spec->overlap)
    return;
  for (std::size_t i = 0; i < step.places.size(); ++i) {
    if (step.members[i] == MemberState::kStopped)
      continue;
    const StepPlace& place = step.places[i];
    GrantUse& here = use[place.grant];
    here.cores = here.cores | place.cores;
    here.devices = here.devices | place.devices;
    here.slices.insert(here.slices.end(), place.slices.begin(), place.slices.end());
    here.memory_mb += step.spec->memory_mb > 0 ? place.memory_mb : 0;
    here.any = true;
  }
}

AllocationUse use_by_steps(const Txn& txn, JobId job) {
  AllocationUse use;
  for (const auto& step : live_steps(txn, job)) add_use(use, *step);
  return use;
}

// Starts a pending step if what it needs is free beside that use, which then grows.
Result<bool> try_start(Txn& txn, const Ref<Step>& step, AllocationUse& use) {
  const Ref<Job> job = txn.job(step->job);
  if (stages_in(*job))
    return false;
  auto places = TRY(lay_out_step(txn.tables(), *job, *step->spec, use));
  if (!places)
    return false;
  Step started = *step;
  started.state = StepState::kStarting;
  started.attempt = job->attempt;
  started.members.assign(places->size(), MemberState::kAssigned);
  started.places = std::move(*places);
  const Ref<Step> put = txn.put(std::move(started));
  add_use(use, *put);
  for (const StepPlace& place : put->places) txn.act(place.node, *job, StartPart{StepPart{put->number}});
  return true;
}

Ref<Step> new_step(Txn& txn, const Ref<Job>& job, Ref<StepSpec> spec, UserId user) {
  Job counted = *job;
  Step step;
  step.job = job->id;
  step.number = counted.next_step++;
  step.attempt = job->attempt;
  step.spec = std::move(spec);
  step.user = user;
  step.created = txn.now();
  txn.put(std::move(counted));
  return txn.put(std::move(step));
}

void end_step(Txn& txn, Step step, Instant at) {
  step.state = StepState::kEnded;
  step.ended = std::max(at, step.started);
  step.members.assign(step.members.size(), MemberState::kStopped);
  const ExitStatus exit = step.exit;
  const JobId job_id = step.job;
  txn.put(std::move(step));
  const Ref<Job> job = txn.job(job_id);
  if (job && wait_status(exit) > wait_status(job->derived_exit)) {
    Job worse = *job;
    worse.derived_exit = exit;
    txn.put(std::move(worse));
  }
}

bool lives(const Step& step) {
  return any_is(step.members, MemberState::kAssigned) || any_is(step.members, MemberState::kRunning);
}

void end_step_if_over(Txn& txn, Step step, Instant at) {
  if (lives(step))
    txn.put(std::move(step));
  else
    end_step(txn, std::move(step), at);
}

// Tells every part that is not over.
template <class Order>
void tell_parts(Txn& txn, const Job& job, const Step& step, const Order& order) {
  for (std::size_t i = 0; i < step.places.size(); ++i)
    if (step.members[i] != MemberState::kStopped)
      txn.act(step.places[i].node, job, order);
}

// The first task that fails ends the others. It is said again, less and less often, to nodes that did not hear it, and
// not by each of those that fail because they were told to end.
bool says_so_again(std::size_t failures_before, std::size_t failures) {
  return std::bit_width(failures) > std::bit_width(failures_before);
}

// Every step costs a record as long as its job is listed, and each that waits is looked at when another ends.
Result<void> check_room(const Txn& txn, const Job& job) {
  const auto live = txn.inner().live_steps.find(job.id);
  if (live != txn.inner().live_steps.end() && live->second.size() >= kLiveStepsPerJobMax)
    return Error{Errc::kExhausted,
                 format("{} steps of job {} wait or run, the most there may be: wait until some have ended",
                        live->second.size(), job.id.value),
                 {}};
  if (job.next_step >= static_cast<StepNo>(kStepsPerJobMax))
    return Error{Errc::kExhausted,
                 format("job {} has had {} steps, the most a job may have: put more work into each, or submit another "
                        "job",
                        job.id.value, job.next_step),
                 {}};
  return {};
}

}  // namespace

Result<Answer> create_step(Txn& txn, const Caller& caller, const CreateStep& ask) {
  const Ref<Job> job = txn.job(ask.job);
  if (!job)
    return not_found(format("Invalid job id specified: {}", ask.job.value));
  if (!may_act(caller, *job))
    return denied(format("Access/permission denied: job {} belongs to another user", ask.job.value));
  if (job->state == JobState::kPending)
    return Error{Errc::kConflict, format("Job {} is pending: it has no nodes yet", ask.job.value), {}};
  if (job->state == JobState::kSuspended)
    return conflict(format("Job {} is suspended: a step can be made once it has been resumed", ask.job.value));
  if (job->state != JobState::kStarting && job->state != JobState::kRunning)
    return conflict(format("Job/step already completing or completed: job {}", ask.job.value));
  CHECK(ask.spec != nullptr);
  TRY(check_room(txn, *job));
  AllocationUse use = use_by_steps(txn, job->id);
  const auto fits = TRY(lay_out_step(txn.tables(), *job, *ask.spec, use));
  if (!fits && ask.spec->immediate)
    return Error{Errc::kUnavailable, format("Requested nodes are busy: job {}", ask.job.value), "immediate"};
  const Ref<Step> step = new_step(txn, job, ask.spec, caller.user ? caller.user : job->spec->user);
  if (fits)
    TRY(try_start(txn, step, use));
  Answer answer;
  answer.job = ask.job;
  answer.step = step->number;
  return answer;
}

Result<void> signal_step(Txn& txn, const Caller& caller, const SignalStep& ask) {
  const Ref<Job> job = txn.job(ask.job);
  const Ref<Step> step = txn.step(ask.job, ask.step);
  if (!job || !step)
    return not_found(format("Invalid job step id specified: {}.{}", ask.job.value, ask.step));
  if (!may_act(caller, *job))
    return denied(format("Access/permission denied: job {} belongs to another user", ask.job.value));
  if (step->state == StepState::kEnded)
    return {};
  if (ask.signal == 0) {
    Step cancelled = *step;
    cancelled.cancelled = true;
    if (step->state == StepState::kPending) {
      end_step(txn, std::move(cancelled), txn.now());
      return {};
    }
    txn.put(std::move(cancelled));
  }
  if (ask.signal == 0)
    tell_parts(txn, *job, *step, StopPart{StepPart{step->number}, job->spec->kill_wait});
  else
    tell_parts(txn, *job, *step, SignalPart{StepPart{step->number}, ask.signal});
  return {};
}

void on_step_started(Txn& txn, NodeId node, const Job& job, const StepStarted& report, Instant at) {
  const Ref<Step> step = txn.step(job.id, report.step);
  if (!step || step->attempt != job.attempt || step->state == StepState::kEnded)
    return;
  const auto place = txn.inner().seats_of(job).place_on(node, *step);
  if (!place || step->members[*place] != MemberState::kAssigned)
    return;
  Step running = *step;
  running.members[*place] = MemberState::kRunning;
  if (running.state == StepState::kStarting && !any_is(running.members, MemberState::kAssigned))
    running.state = StepState::kRunning;
  if (!running.started)
    running.started = at;
  txn.put(std::move(running));
}

void on_step_ended(Txn& txn, NodeId node, const Job& job, const StepEnded& report, Instant at) {
  const Ref<Step> step = txn.step(job.id, report.step);
  if (!step || step->attempt != job.attempt || step->state == StepState::kEnded)
    return;
  const auto place = txn.inner().seats_of(job).place_on(node, *step);
  if (!place || step->members[*place] == MemberState::kStopped)
    return;
  Step ended = *step;
  ended.members[*place] = MemberState::kStopped;
  if (!ended.started)
    ended.started = at;
  ended.use.add(report.use);
  bool bad = false;
  const std::vector<std::uint32_t>& ranks = step->places[*place].ranks;
  for (const TaskResult& result : report.results) {
    if (!std::binary_search(ranks.begin(), ranks.end(), result.rank))
      continue;
    const ExitStatus exit = as_kept(result.exit);
    raise(ended.exit, exit);
    if (exit.ok())
      continue;
    bad = true;
    if (ended.failures.size() < kFailuresListed)
      ended.failures.emplace_back(result.rank, exit);
  }
  if (bad && ended.spec->kill_on_bad_exit && says_so_again(step->failures.size(), ended.failures.size()))
    tell_parts(txn, job, ended, StopPart{StepPart{ended.number}, job.spec->kill_wait});
  const JobId id = job.id;  // job may not outlive the writes below
  end_step_if_over(txn, std::move(ended), at);
  there_is_room(txn, id);
}

namespace {

// The parts where nothing of the job lives any more, by their index: on that node, or with 0 on any.
std::vector<std::size_t> gone_parts(const Seats& seats, const Job& job, NodeId node, const Step& step) {
  const auto gone = [&](std::size_t i) {
    const std::uint32_t grant = step.places[i].grant;
    return step.members[i] != MemberState::kStopped && grant < job.members.size() &&
           job.members[grant] == MemberState::kStopped;
  };
  std::vector<std::size_t> out;
  if (!node) {
    for (std::size_t i = 0; i < step.members.size(); ++i)
      if (gone(i))
        out.push_back(i);
  } else if (const auto place = seats.place_on(node, step); place && gone(*place)) {
    out.push_back(*place);
  }
  return out;
}

}  // namespace

bool sweep_steps(Txn& txn, const Job& job, bool over) {
  const NodeId node = txn.chores().sweeps[job.id].node;
  StepNo& next = txn.chores().sweeps[job.id].step;
  for (;;) {
    const auto live = txn.inner().live_steps.find(job.id);
    if (live == txn.inner().live_steps.end())
      return true;
    const auto at = live->second.lower_bound(next);
    if (at == live->second.end())
      return true;
    next = *at;
    if (txn.tired())
      return false;
    const Ref<Step> step = txn.step(job.id, next++);
    txn.looked(1 + (node ? 0 : step->places.size() / kPlacesPerLook));
    const auto gone = gone_parts(txn.inner().seats_of(job), job, node, *step);
    if (gone.empty() && !over)
      continue;
    Step changed = *step;
    for (const std::size_t i : gone) changed.members[i] = MemberState::kStopped;
    if (!gone.empty())
      raise(changed.exit, ExitStatus{0, 9, false});                     // it ended there without a word
    changed.cancelled |= over && changed.state == StepState::kPending;  // it never ran
    if (over)
      end_step(txn, std::move(changed), txn.now());
    else
      end_step_if_over(txn, std::move(changed), txn.now());
  }
}

void start_first_step(Txn& txn, const Job& job, Ref<StepSpec> spec) {
  const Ref<Job> record = txn.job(job.id);
  const Ref<Step> step = new_step(txn, record, std::move(spec), record->spec->user);
  AllocationUse use;
  const auto started = try_start(txn, step, use);
  if (started && (*started || stages_in(*record)))
    return;
  Step failed = *step;
  failed.cancelled = true;
  failed.exit = {1, 0, false};
  txn.event(*record, "StepRefused", started ? "nothing is free in its own allocation" : started.error().message);
  end_step(txn, std::move(failed), txn.now());
}

void start_waiting_steps(Txn& txn, JobId job) {
  const Ref<Job> now = txn.job(job);
  if (!now || (now->state != JobState::kRunning && now->state != JobState::kStarting))
    return;
  const auto waiting = txn.inner().waiting_steps.find(job);
  if (waiting == txn.inner().waiting_steps.end())
    return;
  std::size_t looked_at = 0;
  AllocationUse use = use_by_steps(txn, job);
  for (const StepNo number : std::vector<StepNo>(waiting->second.begin(), waiting->second.end())) {
    const Ref<Step> step = txn.step(job, number);
    // Beyond this they are looked at when those before them have started or ended.
    looked_at += now->allocation->grants.size();
    if (looked_at > kGrantsLookedAt + now->allocation->grants.size())
      return;
    txn.tried_layout();
    txn.looked(1 + now->allocation->grants.size() / kPlacesPerLook);
    const auto started = try_start(txn, step, use);
    if (started && *started)
      looked_at -= now->allocation->grants.size();
    if (started)
      continue;
    // A node it needs has left the allocation: it can never start.
    Step failed = *step;
    failed.exit = {1, 0, false};
    failed.cancelled = true;
    txn.event(*now, "StepRefused", started.error().message);
    end_step(txn, std::move(failed), txn.now());
  }
}

void there_is_room(Txn& txn, JobId id) {
  const Ref<Job> job = txn.job(id);
  if (!job || !job->allocation || !txn.inner().waiting_steps.contains(id))
    return;
  if (job->allocation->grants.size() <= kFewGrants)
    start_waiting_steps(txn, id);
  else
    txn.chores().roomier.insert(id);
}

void start_in_roomier(Txn& txn) {
  while (!txn.chores().roomier.empty() && !txn.tired())
    start_waiting_steps(txn, txn.chores().roomier.extract(txn.chores().roomier.begin()).value());
}

bool is_told_to_end(const Step& step) {
  return step.cancelled || (step.spec->kill_on_bad_exit && !step.failures.empty());
}

void refuse_used_steps(Txn& txn, const Job& job, NodeId node, StepNo next) {
  const JobId id = job.id;  // job may not outlive the writes below
  for (const auto& step : live_steps(txn, id)) {
    const bool goes_there = step->state == StepState::kPending ||
                            std::any_of(step->places.begin(), step->places.end(),
                                        [node](const StepPlace& place) { return place.node == node; });
    if (step->number >= next || step->attempt != job.attempt || step->created <= txn.inner().epoch.began || !goes_there)
      continue;
    Step refused = *step;
    refused.cancelled = true;
    raise(refused.exit, ExitStatus{1, 0, false});
    for (std::size_t i = 0; i < refused.places.size(); ++i)
      if (refused.places[i].node == node)
        refused.members[i] = MemberState::kStopped;
    const Ref<Job> now_there = txn.job(id);
    txn.event(*now_there, "StepRefused",
              format("step {} has run before, and the log does not know of it: start it again", step->number));
    tell_parts(txn, *now_there, refused, StopPart{StepPart{refused.number}, now_there->spec->kill_wait});
    end_step_if_over(txn, std::move(refused), txn.now());
  }
}

void start_late_steps(Txn& txn, JobId id) {
  const Ref<Job> job = txn.job(id);
  for (const auto& step : live_steps(txn, id))
    for (std::size_t i = 0; i < step->places.size(); ++i)
      if (step->members[i] == MemberState::kAssigned && !is_told_to_end(*step))
        txn.act(step->places[i].node, *job, StartPart{StepPart{step->number}});
  start_waiting_steps(txn, id);
}

}  // namespace lockstep
