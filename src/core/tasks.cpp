#include "core/tasks.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/text.h"
#include "core/attempts.h"
#include "model/job.h"
#include "model/keys.h"
#include "rules/growth.h"
#include "rules/preempt.h"

namespace lockstep {

namespace {

// Kubernetes' back-off doubles from 10 s to 5 min; training tasks restart sooner: from 1 s.
constexpr Duration kRetryFirst = seconds(1);
constexpr Duration kRetryLongest = minutes(5);

Duration retry_delay(std::uint32_t restarts) {
  return restarts >= 9 ? kRetryLongest : std::min(kRetryFirst * (std::int64_t{1} << restarts), kRetryLongest);
}

bool wanted(const GroupSpec& group, const Task& task) { return task.index < group.tasks.max; }

bool restarts(const GroupSpec& group, const Task& task, const ExitStatus& exit) {
  if (group.restart == RestartRule::kNever || (group.restart == RestartRule::kOnFailure && exit.ok()))
    return false;
  const bool bounded = group.restart == RestartRule::kOnFailure || group.restarts_max > 0;
  return !bounded || task.restarts < group.restarts_max;
}

bool has_readiness_probe(const GroupSpec& group) {
  return std::any_of(group.probes.begin(), group.probes.end(),
                     [](const Probe& p) { return p.what == Probe::What::kReadiness; });
}

// The task the report speaks of, if it is still that incarnation of the current attempt on that node.
template <class R>
Ref<Task> task_of(const Txn& txn, NodeId node, const Job& job, const R& report) {
  Ref<Task> task = txn.task({job.id, report.group, report.index});
  if (!task || task->attempt != job.attempt || task->incarnation != report.incarnation)
    return nullptr;
  if (task->grant >= job.allocation->grants.size() || job.allocation->grants[task->grant].node != node)
    return nullptr;
  return task;
}

void launch(Txn& txn, const Job& job, const Task& task) {
  txn.act(job.allocation->grants[task.grant].node, job, StartPart{TaskPart{task.group, task.index, task.incarnation}});
}

// It ended with its machine or its attempt.
Task ended_without_a_word(const Txn& txn, const Task& task) {
  Task ended = task;
  ended.state = TaskState::kEnded;
  if (task.state != TaskState::kEnded && !task.retry_at) {
    ended.exit = {0, 9, false};
    ended.ended = txn.now();
  }
  ended.retry_at = {};
  ended.ready = false;
  return ended;
}

std::string failure_words(const Task& task, const ExitStatus& exit) {
  return exit.signal ? format("task {}.{} ended by signal {}", task.group, task.index, exit.signal)
                     : format("task {}.{} ended with exit code {}", task.group, task.index, exit.code);
}

}  // namespace

void start_tasks_of(Txn& txn, const Job& job) {
  std::vector<std::uint32_t> all(job.allocation->grants.size());
  std::iota(all.begin(), all.end(), 0u);
  start_tasks_in(txn, job, all);
}

void start_tasks_in(Txn& txn, const Job& job, const std::vector<std::uint32_t>& grants) {
  if (grants.empty())
    return;
  const Ref<Job> held = txn.job(job.id);
  std::vector<std::set<std::uint32_t>> taken(held->spec->groups.size());
  for (const auto& task : txn.tables().tasks_of(held->id))
    if (task->attempt == held->attempt && (task->grant != kNoGrant || task->exit.ok()))
      taken[task->group].insert(task->index);
  std::vector<std::uint32_t> next(held->spec->groups.size(), 0);
  for (const std::uint32_t g : grants) {
    const Grant& grant = held->allocation->grants[g];
    const GroupSpec& group = held->spec->groups[grant.group];
    if (group.launch != Launch::kTasks || held->members[g] == MemberState::kStopped)
      continue;
    for (std::uint32_t t = 0; t < grant.tasks; ++t) {
      while (taken[grant.group].contains(next[grant.group])) ++next[grant.group];
      Task task;
      task.job = held->id;
      task.group = grant.group;
      task.index = next[grant.group]++;
      if (const Ref<Task> earlier = txn.task({held->id, task.group, task.index}))
        task.incarnation = earlier->incarnation + 1;
      task.attempt = held->attempt;
      task.grant = g;
      launch(txn, *held, *txn.put(std::move(task)));
    }
  }
}

void start_late_tasks(Txn& txn, const Job& job) {
  for (const auto& task : txn.tables().tasks_of(job.id))
    if (task->attempt == job.attempt && task->state == TaskState::kWaiting && !task->retry_at &&
        task->grant != kNoGrant)
      launch(txn, job, *task);
}

void on_task_started(Txn& txn, NodeId node, const Job& job, const TaskStarted& report) {
  const Ref<Task> task = task_of(txn, node, job, report);
  if (!task || task->state != TaskState::kWaiting)
    return;
  Task running = *task;
  running.state = TaskState::kRunning;
  running.started = txn.now();
  running.ended = {};
  running.ready = !has_readiness_probe(job.spec->groups[task->group]);
  txn.put(std::move(running));
}

void on_task_ready(Txn& txn, NodeId node, const Job& job, const TaskReady& report) {
  const Ref<Task> task = task_of(txn, node, job, report);
  if (!task || task->state != TaskState::kRunning || task->ready == report.ready)
    return;
  Task changed = *task;
  changed.ready = report.ready;
  txn.put(std::move(changed));
}

void on_task_ended(Txn& txn, NodeId node, const Job& job, const TaskEnded& report) {
  const Ref<Task> task = task_of(txn, node, job, report);
  if (!task || task->state == TaskState::kEnded)
    return;
  const Ref<Job> held = txn.job(job.id);
  const GroupSpec& group = held->spec->groups[task->group];
  Task ended = *task;
  ended.state = TaskState::kEnded;
  ended.exit = report.exit;
  ended.ended = txn.now();
  ended.ready = false;
  const bool going_on =
      held->state == JobState::kRunning || held->state == JobState::kStarting || held->state == JobState::kSuspended;
  const bool failed = !report.exit.ok() && wanted(group, *task);
  if (going_on && failed && gives_up(*held, node)) {
    // It was told to make room there. Should its job be pardoned, it starts again.
    ended.state = TaskState::kWaiting;
    ended.retry_at = std::max(held->eviction->at, txn.now()) + held->spec->kill_wait + retry_delay(ended.restarts);
    ++ended.incarnation;
    txn.put(std::move(ended));
    return;
  }
  if (going_on && wanted(group, *task) && !(failed && group.one_failure_restarts_all) &&
      restarts(group, *task, report.exit)) {
    ended.state = TaskState::kWaiting;
    ended.retry_at = txn.now() + retry_delay(ended.restarts);
    ++ended.restarts;
    ++ended.incarnation;
    txn.put(std::move(ended));
    return;
  }
  txn.put(std::move(ended));
  if (!going_on)
    return;
  const Ref<Job> current = txn.job(job.id);
  if (failed) {
    const std::string why = failure_words(*task, report.exit);
    if (group.one_failure_restarts_all) {
      fail_attempt(txn, *current, JobState::kFailed, why, Hold::kRequeueLimit);
    } else {
      Job over = *current;
      over.exit = report.exit;
      end_attempt(txn, std::move(over), {JobState::kFailed, why});
    }
  } else if (!group.endless && !txn.inner().open_tasks.contains(current->id)) {
    // Every task of the groups that have an end has come to it.
    end_attempt(txn, *current, {JobState::kCompleted, ""});
  }
}

Result<void> set_task_count(Txn& txn, const Caller& caller, const SetTaskCount& ask) {
  const Ref<Job> job = txn.job(ask.job);
  if (!job)
    return not_found(format("Invalid job id specified: {}", ask.job.value));
  if (!caller.admin && caller.user != job->spec->user)
    return denied(format("Access/permission denied: job {} belongs to another user", ask.job.value));
  if (is_final(job->state) || job->state == JobState::kCompleting)
    return conflict(format("job {} is over", ask.job.value));
  if (ask.group >= job->spec->groups.size() || job->spec->groups[ask.group].launch != Launch::kTasks)
    return invalid(format("job {} has no group {} of tasks", ask.job.value, ask.group), "group");
  if (ask.count == 0)
    return invalid("a group has at least one task", "count");
  std::uint32_t granted = 0;
  if (job->allocation)
    for (const Grant& grant : job->allocation->grants)
      if (grant.group == ask.group)
        granted += grant.tasks;
  auto spec = std::make_shared<JobSpec>(*job->spec);
  GroupSpec& group = spec->groups[ask.group];
  const std::uint32_t least = std::min(group.tasks.min, ask.count);
  group.tasks = {ask.count, ask.count};
  if (job->allocation && ask.count > granted) {
    // What it lacks comes by growth; started again, it begins with what it needed before.
    group.tasks.min = least;
    if (!is_elastic(group))
      return Error{Errc::kUnsupported,
                   format("job {} runs with room for {} tasks in group {}, which cannot grow: it asks for devices as a "
                          "whole or for segments",
                          ask.job.value, granted, ask.group),
                   "count"};
  }
  Job scaled = *job;
  scaled.spec = std::move(spec);
  ++scaled.meta.generation;
  const Ref<Job> now = txn.put(std::move(scaled));
  if (now->state != JobState::kRunning)
    return {};
  for (const auto& task : txn.tables().tasks_of(now->id)) {
    if (task->group != ask.group || task->attempt != now->attempt)
      continue;
    if (task->index >= ask.count) {
      if (task->state == TaskState::kEnded)
        continue;
      if (task->state == TaskState::kWaiting && task->retry_at) {
        Task gone = *task;
        gone.state = TaskState::kEnded;
        gone.retry_at = {};
        txn.put(std::move(gone));
      } else {
        txn.act(now->allocation->grants[task->grant].node, *now,
                StopPart{TaskPart{task->group, task->index, task->incarnation}, now->spec->kill_wait});
      }
    } else if (task->state == TaskState::kEnded && now->spec->groups[ask.group].endless) {
      Task back = *task;  // scaled down before, wanted again
      back.state = TaskState::kWaiting;
      ++back.incarnation;
      launch(txn, *now, *txn.put(std::move(back)));
    }
  }
  return {};
}

void task_timer(Txn& txn, TaskKey key) {
  const Ref<Task> task = txn.task(key);
  const Ref<Job> job = txn.job(key.job);
  if (!task || !task->retry_at || task->retry_at > txn.now())
    return;
  Task due = *task;
  due.retry_at = {};
  const bool lives = job && (job->state == JobState::kRunning || job->state == JobState::kSuspended);
  const bool start = lives && task->attempt == job->attempt && task->state == TaskState::kWaiting &&
                     wanted(job->spec->groups[task->group], *task);
  if (!start && due.state == TaskState::kWaiting)
    due.state = TaskState::kEnded;
  const Ref<Task> now = txn.put(std::move(due));
  if (start && !is_paused(*job))
    launch(txn, *job, *now);
}

void lose_tasks_of(Txn& txn, const Job& job, const std::vector<bool>& grants) {
  for (const auto& task : txn.tables().tasks_of(job.id)) {
    if (task->attempt != job.attempt || task->grant >= grants.size() || !grants[task->grant])
      continue;
    Task lost = ended_without_a_word(txn, *task);
    if (task->state != TaskState::kEnded)
      lost.exit = {0, 9, false};
    lost.grant = kNoGrant;
    txn.put(std::move(lost));
  }
}

void move_tasks_of(Txn& txn, const Job& job, const std::vector<std::uint32_t>& position) {
  for (const auto& task : txn.tables().tasks_of(job.id)) {
    if (task->attempt != job.attempt || task->grant >= position.size() || position[task->grant] == task->grant)
      continue;
    Task moved = *task;
    moved.grant = position[task->grant];
    txn.put(std::move(moved));
  }
}

bool end_tasks_of(Txn& txn, const Job& job) {
  Chores::Sweep& next = txn.chores().sweeps[job.id];
  const auto& tasks = txn.tables().tasks;
  for (auto at = tasks.lower_bound({job.id, next.group, next.task}); at != tasks.end() && at->first.job == job.id;
       ++at) {
    next.group = at->first.group;
    next.task = at->first.index;
    if (txn.tired())
      return false;
    txn.looked();
    const Ref<Task> task = at->second;
    if (task->state != TaskState::kEnded || task->retry_at)
      txn.put(ended_without_a_word(txn, *task));
  }
  return true;
}

}  // namespace lockstep
