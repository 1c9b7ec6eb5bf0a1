#include "sim/record_checker.h"

#include <algorithm>

#include "model/job.h"
#include "model/spec.h"

namespace lockstep::sim {

namespace {

std::uint32_t count_of(const std::vector<DeviceAsk>& asks) {
  std::uint32_t n = 0;
  for (const DeviceAsk& ask : asks)
    if (ask.whole())
      n += ask.count;
  return n;
}

}  // namespace

void RecordChecker::complain(const Job& job, const std::string& words) {
  verdict_.fail(format("job {} ({}) attempt {}: {}", job.id.value, job.spec->name, job.attempt, words));
}

std::size_t RecordChecker::machine_of(NodeId node) const { return machines_.at(node); }

void RecordChecker::saw(std::span<const Change> changes, Instant now) {
  for (const Change& change : changes) {
    if (const auto* job = std::get_if<Ref<Job>>(&change.record)) {
      job_changed(**job, change.removed, now);
      if (change.removed)
        jobs_.erase((*job)->id);
      else
        jobs_[(*job)->id] = *job;
    } else if (const auto* step = std::get_if<Ref<Step>>(&change.record)) {
      if (!change.removed)
        step_changed(**step);
    } else if (const auto* task = std::get_if<Ref<Task>>(&change.record)) {
      if (!change.removed)
        task_changed(**task);
    } else if (const auto* node = std::get_if<Ref<Node>>(&change.record)) {
      // Machines are called n1, n2, …
      machines_[(*node)->id] =
          static_cast<std::size_t>(parse_uint(std::string_view((*node)->meta.name).substr(1)).value_or(1)) - 1;
      counts_.closings += !(*node)->unconfirmed.empty();
    }
  }
}

void RecordChecker::job_changed(const Job& job, bool removed, Instant now) {
  const auto it = jobs_.find(job.id);
  const Job* before = it == jobs_.end() ? nullptr : it->second.get();
  if (removed) {
    if (before && !is_final(before->state) && !before->array)
      complain(*before, format("its record was removed in state {}", static_cast<int>(before->state)));
    return;
  }
  if (verdict_.noting && (!before || before->state != job.state || before->hold != job.hold))
    verdict_.note(now, format("job {} ({}) attempt {}: state {} hold {} {}", job.id.value, job.spec->name, job.attempt,
                              static_cast<int>(job.state), static_cast<int>(job.hold), job.end_reason));
  counts_.jobs += !before;
  check_version(before, job);
  check_attempt(before, job);
  const bool has = holds_allocation(job.state);
  if (job.array)
    throttles_[job.id] = job.array->throttle;
  if (job.array_job)
    check_throttle(job, has);
  if (is_final(job.state) && (!before || !is_final(before->state)))
    check_end(job, now);
}

// What a record says by itself, and beside the version before it.
void RecordChecker::check_version(const Job* before, const Job& job) {
  const bool node_fails =
      job.state == JobState::kNodeFail || (job.state == JobState::kCompleting && job.ending == JobState::kNodeFail);
  if (rules_.no_node_fails && node_fails)
    complain(job, format("a node's failure ends it ({}), and no node has failed: something only stood still",
                         job.end_reason));
  if (static_cast<bool>(job.allocation) != holds_allocation(job.state))
    complain(job, "an allocation is there exactly while the state holds one: it is not so");
  if (!before)
    return;
  if (job.attempt < before->attempt)
    complain(job, format("the attempt went back from {}", before->attempt));
  counts_.requeues += job.restarts > before->restarts;
}

void RecordChecker::check_attempt(const Job* before, const Job& job) {
  const bool had = before && holds_allocation(before->state);
  const bool has = holds_allocation(job.state);
  if (has && job.allocation) {
    if (!had || before->allocation->attempt != job.allocation->attempt) {
      ++counts_.attempts;
      if (had)
        complain(job, "a new attempt started while the old one held its allocation");
    }
    check_gang(job);
    check_paused(before, job);
  }
  if (had && before->allocation)
    check_stopped(*before, has ? &job : nullptr);
}

void RecordChecker::check_gang(const Job& job) {
  const Allocation& allocation = *job.allocation;
  if (job.members.size() != allocation.grants.size())
    complain(job, format("{} members for {} grants", job.members.size(), allocation.grants.size()));
  for (std::size_t g = 0; g < job.spec->groups.size(); ++g) {
    const GroupSpec& group = job.spec->groups[g];
    std::uint32_t tasks = 0;
    std::set<NodeId> on;
    for (const Grant& grant : allocation.grants) {
      if (grant.group != g || grant.tasks == 0)  // given back
        continue;
      on.insert(grant.node);
      tasks += grant.tasks;
      const std::uint32_t devices = count_of(group.per_node.devices) + count_of(group.per_task.devices) * grant.tasks;
      if (grant.devices.count() < devices)
        complain(job, format("{} devices granted on node {} where {} were asked for", grant.devices.count(),
                             grant.node.value, devices));
    }
    const std::size_t nodes = on.size();
    if (nodes < std::max<std::uint32_t>(1, group.nodes.min) || (group.nodes.max != 0 && nodes > group.nodes.max))
      complain(job, format("group {} got {} nodes and asked for {}-{}", g, nodes, group.nodes.min, group.nodes.max));
    if (tasks < group.tasks.min || tasks > group.tasks.max)
      complain(job, format("group {} got {} tasks and asked for {}-{}", g, tasks, group.tasks.min, group.tasks.max));
  }
}

void RecordChecker::check_stopped(const Job& before, const Job* after) {
  const Allocation& allocation = *before.allocation;
  for (std::size_t i = 0; i < allocation.grants.size(); ++i) {
    bool lives = false;
    for (std::size_t j = 0; after && j < after->members.size(); ++j)
      lives = lives || (after->allocation->grants[j].node == allocation.grants[i].node &&
                        after->members[j] != MemberState::kStopped);
    if (lives || before.members[i] == MemberState::kStopped)
      continue;
    const std::size_t machine = machine_of(allocation.grants[i].node);
    if (const std::size_t live = processes_.live(machine, before.id, allocation.attempt); live > 0)
      complain(before, format("declared stopped on n{}, where {} of its processes live", machine + 1, live));
  }
}

void RecordChecker::check_paused(const Job* before, const Job& job) {
  // By node: what grows or shrinks counts its members anew.
  std::set<NodeId> were;
  if (before && before->allocation && before->attempt == job.attempt)
    for (std::size_t i = 0; i < before->members.size(); ++i)
      if (before->members[i] == MemberState::kPaused)
        were.insert(before->allocation->grants[i].node);
  for (std::size_t i = 0; i < job.members.size() && i < job.allocation->grants.size(); ++i) {
    if (job.members[i] != MemberState::kPaused || were.contains(job.allocation->grants[i].node))
      continue;
    const std::size_t machine = machine_of(job.allocation->grants[i].node);
    if (const std::size_t live = processes_.running(machine, job.id, job.attempt); live > 0)
      complain(job, format("declared paused on n{}, where {} of its processes run", machine + 1, live));
  }
}

void RecordChecker::check_throttle(const Job& job, bool has_allocation) {
  auto& running = running_elements_[job.array_job];
  if (has_allocation)
    running.insert(job.id);
  else
    running.erase(job.id);
  const std::uint32_t throttle = throttles_[job.array_job];
  if (has_allocation && throttle != 0 && running.size() > throttle)
    complain(job, format("{} elements of array {} run at once, {} are allowed", running.size(), job.array_job.value,
                         throttle));
}

namespace {

// Groups of tasks that are replaced one by one do not start again as a whole.
bool starts_again_as_a_whole(const JobSpec& spec) {
  return spec.requeue && std::any_of(spec.groups.begin(), spec.groups.end(), [](const GroupSpec& g) {
           return g.launch == Launch::kScript || g.one_failure_restarts_all;
         });
}

}  // namespace

void RecordChecker::check_end(const Job& job, Instant now) {
  counts_.completed += job.state == JobState::kCompleted;
  counts_.node_fails += job.state == JobState::kNodeFail;
  const JobSpec& spec = *job.spec;
  if (job.state == JobState::kNodeFail && starts_again_as_a_whole(spec) && job.restarts < rules_.requeues_max)
    complain(job, format("a node's loss ended it after {} restarts, though it may be requeued", job.restarts));
  const bool limited = job.started && job.limit_end && job.limit_end < kNever;
  if (limited && now > job.limit_end + spec.kill_wait + rules_.limit_slack)
    complain(job, format("it ended {} s after its time limit", (now - job.limit_end).seconds()));
  const bool by_script = !job.array && spec.groups[0].launch == Launch::kScript;
  if (by_script && (job.state == JobState::kCompleted || job.state == JobState::kFailed))
    check_exit(job);
}

// What it reports is what its script did.
void RecordChecker::check_exit(const Job& job) {
  const auto* end = processes_.end_of({job.id, job.attempt, ScriptPart{}}, 0);
  if (job.state == JobState::kCompleted && (!end || end->how == ProcessChecker::How::kMachine))
    complain(job, "it counts as completed, but its script never ended by itself");
  else if (end && end->how != ProcessChecker::How::kMachine && !(end->exit == job.exit))
    complain(job, format("it reports exit {}:{}, its script returned {}:{}", job.exit.code, job.exit.signal,
                         end->exit.code, end->exit.signal));
  else if (!end && job.exit.code != 0)
    complain(job, format("it reports exit code {}, but its script never ended", job.exit.code));
}

void RecordChecker::step_changed(const Step& step) {
  if (step.state != StepState::kEnded)
    return;
  const WorkId key{step.job, step.attempt, StepPart{step.number}};
  for (const auto& [rank, exit] : step.failures) {
    const auto* end = processes_.end_of(key, rank);
    if (end && end->how != ProcessChecker::How::kMachine && !(end->exit == exit))
      verdict_.fail(format("{} rank {} reports exit {}:{}, it returned {}:{}", ProcessChecker::name(key), rank,
                           exit.code, exit.signal, end->exit.code, end->exit.signal));
  }
  if (!step.exit.ok() || step.cancelled)
    return;
  for (const StepPlace& place : step.places)
    for (const std::uint32_t rank : place.ranks) {
      const auto* end = processes_.end_of(key, rank);
      if (!end)
        verdict_.fail(format("{} ended well, but rank {} never ended", ProcessChecker::name(key), rank));
      else if (!end->exit.ok())
        verdict_.fail(format("{} ended well, but rank {} returned {}:{}", ProcessChecker::name(key), rank,
                             end->exit.code, end->exit.signal));
    }
}

void RecordChecker::task_changed(const Task& task) {
  if (task.state != TaskState::kEnded || !task.exit.ok())
    return;
  const WorkId key{task.job, task.attempt, TaskPart{task.group, task.index, task.incarnation}};
  const auto* end = processes_.end_of(key, task.index);
  if (end && end->how == ProcessChecker::How::kItself && !end->exit.ok())
    verdict_.fail(format("{} ended well, but it returned {}", ProcessChecker::name(key), end->exit.code));
}

}  // namespace lockstep::sim
