#include "core/tasks.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/ip_range.h"
#include "base/text.h"
#include "core/attempts.h"
#include "core/jobs.h"
#include "core/true_end.h"
#include "model/bounds.h"
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

// Of the job, of whatever attempt. A report of one task has no use for the others, or the end of a job costs the square
// of its tasks: so they are counted.
std::vector<Ref<Task>> all_tasks(const Txn& txn, JobId job) {
  std::vector<Ref<Task>> out = txn.tables().tasks_of(job);
  txn.inner().tasks_read += out.size();
  return out;
}

void launch(Txn& txn, const Job& job, const Task& task) {
  txn.act(job.allocation->grants[task.grant].node, job, StartPart{TaskPart{task.group, task.index, task.incarnation}});
}

// Its sandbox is gone: the address is another's from now on, and nothing in it runs.
void end_containers(Task& task, Instant now) {
  task.address.clear();
  if (std::none_of(task.containers.get().begin(), task.containers.get().end(),
                   [](const ContainerStatus& one) { return one.state == ContainerState::kRunning || one.ready; }))
    return;
  for (ContainerStatus& one : task.containers.edit()) {
    one.ready = false;
    if (one.state != ContainerState::kRunning)
      continue;
    one.state = ContainerState::kEnded;
    one.ended = now;
    one.exit = {0, 9, false};
    one.message.clear();  // it was of what ran (wire/container_notes.h)
  }
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
  end_containers(ended, txn.now());
  return ended;
}

std::string failure_words(const Task& task, const ExitStatus& exit) {
  if (!task.reason.empty())
    return format("task {}.{}: {}", task.group, task.index, task.reason.get());
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
  const Ref<Job> record = txn.job(job.id);
  const std::vector<GroupSpec>& groups = record->spec->groups;
  std::vector<std::set<std::uint32_t>> taken(groups.size());
  for (const auto& task : all_tasks(txn, record->id))
    if (task->attempt == record->attempt && (task->grant != kNoGrant || task->exit.ok()))
      taken[task->group].insert(task->index);
  std::vector<std::uint32_t> next(groups.size(), 0);
  const auto free_index = [&](std::uint16_t group) {
    while (taken[group].contains(next[group])) ++next[group];
    return next[group]++;
  };
  for (const std::uint32_t g : grants) {
    const Grant& grant = record->allocation->grants[g];
    if (groups[grant.group].launch != Launch::kTasks || record->members[g] == MemberState::kStopped)
      continue;
    for (std::uint32_t t = 0; t < grant.tasks; ++t) {
      Task task;
      task.job = record->id;
      task.user = record->spec->user;
      task.group = grant.group;
      task.index = free_index(grant.group);
      if (const Ref<Task> earlier = txn.task({record->id, task.group, task.index}))
        task.incarnation = earlier->incarnation + 1;
      task.attempt = record->attempt;
      task.grant = g;
      launch(txn, *record, *txn.put(std::move(task)));
    }
  }
}

void start_late_tasks(Txn& txn, const Job& job) {
  for (const auto& task : all_tasks(txn, job.id))
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
  running.started = running.ready_at = txn.now();
  running.ended = {};
  const GroupSpec& group = job.spec->groups[task->group];
  running.ready = !is_sandbox(group.sandbox) && !has_readiness_probe(group);
  running.containers = {};
  running.address.clear();
  txn.put(std::move(running));
}

void on_task_ready(Txn& txn, NodeId node, const Job& job, const TaskReady& report) {
  const Ref<Task> task = task_of(txn, node, job, report);
  if (!task || task->state != TaskState::kRunning || task->ready == report.ready)
    return;
  Task changed = *task;
  changed.ready = report.ready;
  changed.ready_at = txn.now();
  txn.put(std::move(changed));
}

namespace {

// The times are ours: by the report that told of a change first.
void stamp(ContainerStatus& now, const ContainerStatus* before, Instant at) {
  const bool same_life = before && before->restarts == now.restarts;
  if (before) {
    now.started = before->started;
    now.ended = before->ended;
    now.last_started = before->last_started;
    now.last_ended = before->last_ended;
  }
  if (now.state == ContainerState::kRunning && !(same_life && before->state == ContainerState::kRunning)) {
    now.started = at;
    now.ended = {};
  } else if (now.state == ContainerState::kEnded && !(same_life && before->state == ContainerState::kEnded)) {
    if (!same_life || before->state == ContainerState::kWaiting)
      now.started = at;  // both fell between two reports
    now.ended = at;
  } else if (now.state == ContainerState::kWaiting && before && !same_life &&
             before->state == ContainerState::kRunning) {
    now.ended = at;
  }
  if (before && !same_life) {  // the one before has ended, between the reports if not sooner
    now.last_started = before->started ? before->started : at;
    now.last_ended = before->ended && before->state != ContainerState::kRunning ? before->ended : at;
  }
}

// All that are to run for as long as the task does; nobody waits for what was put beside them.
bool all_ready(const std::vector<ContainerStatus>& containers, const Sandbox& sandbox) {
  const std::size_t asked = std::max<std::size_t>(1, sandbox.containers.size());
  for (std::size_t i = 0; i < containers.size() && i < asked; ++i)
    if (!containers[i].ready && (i >= sandbox.containers.size() || sandbox.containers[i].kind != ContainerKind::kInit))
      return false;
  return !containers.empty();
}

// Of those that the node may give out: others will be sent there.
bool may_have_address(const Txn& txn, NodeId node, const std::string& address) {
  const Ref<Node> record = txn.node(node);
  const auto range = record ? parse_ip_range(record->task_range) : std::nullopt;
  const auto told = parse_ip(address);
  return address.empty() || (range && told && range->contains(*told));
}

// The node has let go of it, as when it was started anew, and says so later than it gives it out again.
void take_address_back(Txn& txn, NodeId node, const Task& new_owner, const std::string& address) {
  const auto jobs = txn.inner().jobs_on.find(node);
  if (jobs == txn.inner().jobs_on.end())
    return;
  for (const JobId id : std::set<JobId>(jobs->second))
    for (const Ref<Task>& other : txn.tables().tasks_of(id)) {
      const bool is_owner = id == new_owner.job && other->group == new_owner.group && other->index == new_owner.index;
      if (is_owner || other->address != address)
        continue;
      Task without = *other;
      without.address.clear();
      txn.put(std::move(without));
    }
}

}  // namespace

// A node may name fewer containers than were asked for; then it is believed of none. Those behind them were put beside
// them since, by names that their front end knows.
void on_task_containers(Txn& txn, NodeId node, const Job& job, const TaskContainers& report) {
  const Ref<Task> task = task_of(txn, node, job, report);
  if (!task || task->state == TaskState::kEnded)
    return;
  const Sandbox& sandbox = job.spec->groups[task->group].sandbox;
  Task changed = *task;
  changed.reason = report.reason;
  const std::size_t expected = std::max<std::size_t>(1, sandbox.containers.size());
  const std::size_t most = sandbox.front_end_files ? expected + kAddedContainersMax : expected;
  if (task->state == TaskState::kRunning && is_sandbox(sandbox) && report.containers.size() >= expected &&
      report.containers.size() <= most) {
    std::vector<ContainerStatus> containers = report.containers;
    for (std::size_t i = 0; i < containers.size(); ++i) {
      if (i < expected)
        containers[i].name = sandbox.containers.empty() ? kOnlyContainer : sandbox.containers[i].name;
      stamp(containers[i], i < task->containers.size() ? &task->containers.get()[i] : nullptr, txn.now());
    }
    changed.ready = all_ready(containers, sandbox);
    if (changed.ready != task->ready)
      changed.ready_at = txn.now();
    changed.containers = std::move(containers);
    if (may_have_address(txn, node, report.address))
      changed.address = report.address;
    if (changed.address != task->address && !changed.address.empty())
      take_address_back(txn, node, changed, changed.address);
  }
  if (changed.containers != task->containers || changed.address != task->address || changed.reason != task->reason ||
      changed.ready != task->ready)
    txn.put(std::move(changed));
}

namespace {

bool goes_on(const Job& job) {
  return job.state == JobState::kRunning || job.state == JobState::kStarting || job.state == JobState::kSuspended;
}

Task ended_as(const Txn& txn, const Task& task, const ExitStatus& exit) {
  Task ended = task;
  ended.state = TaskState::kEnded;
  ended.exit = exit;
  ended.ended = txn.now();
  if (std::exchange(ended.ready, false))
    ended.ready_at = txn.now();
  end_containers(ended, txn.now());
  return ended;
}

struct Retry {
  Instant at;
  bool counts = true;  // as one of the restarts that are allowed
};

// Whether and when the task that ended runs again, in place.
std::optional<Retry> retry_of(const Txn& txn, const Job& job, NodeId node, const Task& ended) {
  const GroupSpec& group = job.spec->groups[ended.group];
  if (!goes_on(job) || !wanted(group, ended))
    return std::nullopt;
  const bool failed = !ended.exit.ok();
  // It was told to make room there. Should its job be pardoned, it starts again.
  if (failed && gives_up(job, node))
    return Retry{.at = std::max(job.eviction->at, txn.now()) + job.spec->kill_wait + retry_delay(ended.restarts),
                 .counts = false};
  if ((failed && group.one_failure_restarts_all) || !restarts(group, ended, ended.exit))
    return std::nullopt;
  return Retry{.at = txn.now() + retry_delay(ended.restarts)};
}

// The kernel took a main container's last life for want of memory. The keeper of a sandbox, whose end the task's is,
// ends as its containers do and cannot say so.
bool ended_for_memory(const GroupSpec& group, const Task& task) {
  const std::vector<ContainerStatus>& told = task.containers.get();
  const std::vector<SandboxContainer>& asked = group.sandbox.containers;
  for (std::size_t i = 0; i < told.size() && i < std::max<std::size_t>(1, asked.size()); ++i)
    if (told[i].state == ContainerState::kEnded && told[i].exit.oom &&
        (i >= asked.size() || asked[i].kind == ContainerKind::kMain))
      return true;
  return false;
}

// A task has come to its end: the job with it where it failed, or where it was the last of the groups that have an end.
void end_job_with(Txn& txn, const Job& job, const Task& ended) {
  const GroupSpec& group = job.spec->groups[ended.group];
  if (!ended.exit.ok() && wanted(group, ended)) {
    const std::string why = failure_words(ended, ended.exit);
    if (group.one_failure_restarts_all) {
      fail_attempt(txn, job, JobState::kFailed, why, Hold::kRequeueLimit);
    } else {
      Job over = job;
      const bool memory = ended_for_memory(group, ended);
      over.exit = memory ? as_kept({.oom = true}) : ended.exit;
      end_attempt(
          txn, std::move(over),
          memory ? Ending{.state = JobState::kOutOfMemory, .reason = "OutOfMemory"} : Ending{JobState::kFailed, why});
    }
  } else if (!group.endless && !txn.inner().open_tasks.contains(job.id)) {
    end_attempt(txn, job, {JobState::kCompleted, ""});
  }
}

}  // namespace

void on_task_ended(Txn& txn, NodeId node, const Job& job, const TaskEnded& report) {
  const Ref<Task> task = task_of(txn, node, job, report);
  if (!task || task->state == TaskState::kEnded)
    return;
  const Ref<Job> record = txn.job(job.id);
  Task ended = ended_as(txn, *task, report.exit);
  if (const auto retry = retry_of(txn, *record, node, ended)) {
    ended.state = TaskState::kWaiting;
    ended.retry_at = retry->at;
    ended.restarts += retry->counts;
    ++ended.incarnation;
    txn.put(std::move(ended));
    return;
  }
  ended.address = task->address;  // for those who read how it was, until another has it
  const Ref<Task> over = txn.put(std::move(ended));
  if (goes_on(*record))
    end_job_with(txn, *record, *over);
}

namespace {

// A task that is wanted no more stops; one that was scaled down before is wanted again.
void follow_count(Txn& txn, const Job& job, const Task& task) {
  const GroupSpec& group = job.spec->groups[task.group];
  Task next = task;
  if (wanted(group, task)) {
    if (task.state != TaskState::kEnded || !group.endless)
      return;
    next.state = TaskState::kWaiting;
    ++next.incarnation;
    next.reason.clear();
    launch(txn, job, *txn.put(std::move(next)));
  } else if (task.state == TaskState::kWaiting && task.retry_at) {
    next.state = TaskState::kEnded;
    next.retry_at = {};
    txn.put(std::move(next));
  } else if (task.state != TaskState::kEnded) {
    txn.act(job.allocation->grants[task.grant].node, job,
            StopPart{TaskPart{task.group, task.index, task.incarnation}, job.spec->kill_wait});
  }
}

std::uint32_t tasks_granted(const Job& job, std::uint32_t group) {
  std::uint32_t granted = 0;
  if (job.allocation)
    for (const Grant& grant : job.allocation->grants)
      if (grant.group == group)
        granted += grant.tasks;
  return granted;
}

Result<void> check_task_count(const Job& job, const Caller& caller, const SetTaskCount& ask) {
  if (!may_act(caller, job))
    return denied(format("Access/permission denied: job {} belongs to another user", ask.job.value));
  if (is_final(job.state) || job.state == JobState::kCompleting)
    return conflict(format("job {} is over", ask.job.value));
  if (ask.group >= job.spec->groups.size() || job.spec->groups[ask.group].launch != Launch::kTasks)
    return invalid(format("job {} has no group {} of tasks", ask.job.value, ask.group), "group");
  if (!job.spec->health_check.empty())
    return invalid(format("job {} runs health check {}, which has one task", ask.job.value, job.spec->health_check),
                   "count");
  if (ask.count == 0)
    return invalid("a group has at least one task", "count");
  return {};
}

}  // namespace

Result<void> set_task_count(Txn& txn, const Caller& caller, const SetTaskCount& ask) {
  const Ref<Job> job = txn.job(ask.job);
  if (!job)
    return not_found(format("Invalid job id specified: {}", ask.job.value));
  TRY(check_task_count(*job, caller, ask));
  const std::uint32_t granted = tasks_granted(*job, ask.group);
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
  if (now->state == JobState::kRunning)
    for (const auto& task : all_tasks(txn, now->id))
      if (task->group == ask.group && task->attempt == now->attempt)
        follow_count(txn, *now, *task);
  return {};
}

void task_timer(Txn& txn, TaskKey key) {
  const Ref<Task> task = txn.task(key);
  const Ref<Job> job = txn.job(key.job);
  if (!task || !task->retry_at || task->retry_at > txn.now())
    return;
  Task due = *task;
  due.retry_at = {};
  due.reason.clear();
  const bool lives = job && (job->state == JobState::kRunning || job->state == JobState::kSuspended);
  const bool start = lives && task->attempt == job->attempt && task->state == TaskState::kWaiting &&
                     wanted(job->spec->groups[task->group], *task);
  if (!start && due.state == TaskState::kWaiting)
    due.state = TaskState::kEnded;
  const Ref<Task> now = txn.put(std::move(due));
  if (start && !is_paused(*job))
    launch(txn, *job, *now);
}

namespace {

// Tasks of the current attempt on a grant.
std::vector<Ref<Task>> tasks_on(Txn& txn, const Job& job, std::uint32_t grant) {
  std::vector<Ref<Task>> out;
  if (const auto in = txn.inner().tasks_in.find({job.id, grant}); in != txn.inner().tasks_in.end())
    for (const TaskKey& key : in->second)
      if (Ref<Task> task = txn.task(key); task->attempt == job.attempt)
        out.push_back(std::move(task));
  return out;
}

}  // namespace

void lose_tasks_of(Txn& txn, const Job& job, const std::vector<bool>& grants) {
  for (std::uint32_t g = 0; g < grants.size(); ++g) {
    if (!grants[g])
      continue;
    for (const Ref<Task>& task : tasks_on(txn, job, g)) {
      Task lost = ended_without_a_word(txn, *task);
      if (task->state != TaskState::kEnded)
        lost.exit = {0, 9, false};
      lost.grant = kNoGrant;
      txn.put(std::move(lost));
    }
  }
}

void move_tasks_of(Txn& txn, const Job& job, const std::vector<std::uint32_t>& position) {
  for (const auto& task : all_tasks(txn, job.id)) {
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
