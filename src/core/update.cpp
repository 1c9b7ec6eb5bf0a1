// UpdateJob: a new version of what was asked for, checked like a submission.
#include <algorithm>

#include "base/text.h"
#include "core/accounting.h"
#include "core/arrays.h"
#include "core/attempts.h"
#include "core/dependencies.h"
#include "core/jobs.h"
#include "core/resize.h"
#include "core/timers.h"
#include "model/bounds.h"
#include "model/job.h"
#include "rules/priority.h"
#include "rules/user_words.h"

namespace lockstep {

namespace {

bool needs_pending(const UpdateJob& u) {
  return u.account || u.qos || u.reservation || u.constraint || u.partitions || u.only_nodes || u.exclude_nodes ||
         u.begin || u.deadline || u.nice || u.priority || u.nodes || u.tasks || u.dependencies;
}

template <class T, class U>
void set_if(T& to, const std::optional<U>& from) {
  if (from)
    to = *from;
}

JobSpec changed(const JobSpec& before, const UpdateJob& u) {
  JobSpec spec = before;
  set_if(spec.name, u.name);
  set_if(spec.account, u.account);
  set_if(spec.qos, u.qos);
  set_if(spec.comment, u.comment);
  set_if(spec.reservation, u.reservation);
  set_if(spec.partitions, u.partitions);
  set_if(spec.time_limit, u.time_limit);
  set_if(spec.begin, u.begin);
  set_if(spec.deadline, u.deadline);
  set_if(spec.nice, u.nice);
  set_if(spec.dependencies, u.dependencies);
  set_if(spec.requeue, u.requeue);
  if (u.labels) {
    Labels labels = *u.labels;
    std::ranges::stable_sort(labels, {}, [](const auto& label) { return label.first; });
    spec.labels = std::move(labels);
  }
  if (u.priority)
    spec.priority = *u.priority;
  if (u.requeue)
    spec.requeue_set = true;
  GroupSpec& group = spec.groups.front();
  set_if(group.constraint, u.constraint);
  set_if(group.only_nodes, u.only_nodes);
  set_if(group.exclude_nodes, u.exclude_nodes);
  set_if(group.tasks, u.tasks);
  set_if(group.per_task.memory_mb, u.memory_mb_per_task);
  set_if(group.per_task.shared_milli, u.shared_milli_per_task);
  if (u.cores_per_task) {
    group.per_task.cores = *u.cores_per_task;
    if (group.launch == Launch::kTasks)
      group.overcommit = group.per_task.cores == 0;  // it shares what is there
  }
  if (u.nodes) {
    // One task a node, as it is when nobody says otherwise, goes with the nodes.
    const bool follows = !u.tasks && group.tasks == group.nodes;
    group.nodes = *u.nodes;
    if (follows)
      group.tasks = *u.nodes;
  }
  return spec;
}

constexpr std::size_t kWaitsMost = 10'000;  // jobs that one may wait for, directly and through others, to be updated

// Whether job `from` waits, directly or through others, for job `to`.
Result<bool> waits_for(Txn& txn, JobId from, JobId to) {
  std::vector<JobId> open{from};
  std::set<JobId> seen;
  while (!open.empty()) {
    const JobId id = open.back();
    open.pop_back();
    if (id == to)
      return true;
    const Ref<Job> job = txn.job(id);
    if (!job || !seen.insert(id).second || job->state != JobState::kPending)
      continue;
    txn.looked();
    if (seen.size() > kWaitsMost)
      return Error{Errc::kExhausted,
                   format("Job dependency problem: job {} waits for more than {} others, directly and through them; "
                          "make a shorter chain",
                          from.value, kWaitsMost),
                   "dependencies"};
    for (const Dependency& d : job->spec->dependencies)
      if (d.job)
        open.push_back(d.job);
  }
  return false;
}

// Elements of an array share a spec, and share the changed one.
struct Changed {
  Ref<JobSpec> before, after;
  bool pending = false;
};

bool changes_standing(const UpdateJob& ask) { return ask.account || ask.qos || ask.reservation; }

bool changes_size(const UpdateJob& ask) {
  return ask.cores_per_task || ask.shared_milli_per_task || ask.memory_mb_per_task;
}

bool changes_turn(const UpdateJob& ask) {
  return ask.time_limit || ask.nodes || ask.tasks || ask.name || ask.partitions || changes_size(ask);
}

// The spec the record gets, checked like a submission; that of the last element is taken again where it may be.
Result<Ref<JobSpec>> changed_spec(Txn& txn, const Job& before, const UpdateJob& ask, Changed& last) {
  const bool pending = before.state == JobState::kPending;
  const bool known = last.before == before.spec && last.pending == pending && !changes_standing(ask);
  Ref<JobSpec> spec = known ? last.after : std::make_shared<const JobSpec>(changed(*before.spec, ask));
  if (changes_standing(ask)) {
    spec = TRY(with_standing(txn, spec));
    const bool moved = spec->account != before.spec->account || spec->qos != before.spec->qos;
    if (moved && pending)
      TRY(check_submit_limits(
          txn, *spec, before.array ? static_cast<std::int64_t>(txn.array(before.id).waiting.size()) : std::int64_t{1}));
  }
  if (pending && !known)
    TRY(check_spec(txn, *spec, before.spec.get()));
  last = {before.spec, spec, pending};
  return spec;
}

Result<void> check_new_dependencies(Txn& txn, const JobSpec& spec, JobId id) {
  TRY(check_dependencies(txn, spec, id));
  for (const Dependency& d : spec.dependencies)
    if (d.job && TRY(waits_for(txn, d.job, id)))
      return invalid(format("Job dependency problem: job {} waits for job {}", d.job.value, id.value), "dependencies");
  return {};
}

// Another time limit for a job that has started. before: what was asked until now.
Result<void> move_limit_end(Txn& txn, Job& job, const JobSpec& before) {
  const Partition* partition = txn.tables().partition(job.allocation->partition);
  const Duration limit = limit_of(*job.spec, partition, txn.settings());
  if (limit.us < 0 || limit > kForever)
    return invalid("Requested time limit is invalid (missing or exceeds some limit)", "time_limit");
  if (!txn.caller().admin && limit > limit_of(before, partition, txn.settings()))
    return denied(format("user {} may not raise the time limit of job {} while it runs",
                         user_words(txn.tables(), txn.caller().user), job.id.value));
  if (job.state == JobState::kRunning || job.state == JobState::kSuspended)
    job.limit_end = limit >= kForever ? kNever : job.started + job.suspended_before + limit;
  return {};
}

// Its hold, if any, is what natural_hold() says, and nobody's wish.
bool is_held_naturally(const Job& job) {
  return job.hold == Hold::kNone || job.hold == Hold::kDependency || job.hold == Hold::kDependencyNever ||
         job.hold == Hold::kBeginTime;
}

Result<void> check_size(const UpdateJob& ask) {
  if (ask.cores_per_task && *ask.cores_per_task > kAmountMax)
    return invalid(format("{} cores are more than a task can have", *ask.cores_per_task), "cores_per_task");
  if (ask.shared_milli_per_task && *ask.shared_milli_per_task > 1000 * std::uint64_t{kAmountMax})
    return invalid(format("{} thousandths of cores are more than a task can have", *ask.shared_milli_per_task),
                   "shared_milli_per_task");
  if (ask.memory_mb_per_task && (*ask.memory_mb_per_task < 0 || *ask.memory_mb_per_task > kMegabytesMax))
    return invalid(format("{} MB are no amount of memory", *ask.memory_mb_per_task), "memory_mb_per_task");
  return {};
}

Result<void> update_record(Txn& txn, JobId id, const UpdateJob& ask, Changed& last) {
  TRY(check_size(ask));
  const Ref<Job> before = txn.job(id);
  const bool pending = before->state == JobState::kPending;
  if (!pending && needs_pending(ask))
    return conflict(format("Job is no longer pending execution: {}", id.value));
  if (is_final(before->state))
    return conflict(format("job {} has ended", id.value));
  Job job = *before;
  job.spec = TRY(changed_spec(txn, *before, ask, last));
  if (ask.dependencies)
    TRY(check_new_dependencies(txn, *job.spec, id));
  ++job.meta.generation;
  if (ask.nice || ask.priority)
    job.priority = plain_priority(*job.spec);
  if (pending && changes_turn(ask))
    place_among_equals(txn, job);
  if (!pending && ask.time_limit)
    TRY(move_limit_end(txn, job, *before->spec));
  const bool settles = pending && is_held_naturally(job) && (ask.dependencies || ask.begin);
  const Ref<Job> now = txn.put(std::move(job));
  if (!pending && changes_size(ask))
    TRY(resize_task(txn, *now));
  if (settles)
    settle_hold(txn, id);
  txn.refresh_timers(id);
  return {};
}

// The records that the update is for, in the order in which they are changed.
Result<std::vector<JobId>> records_to_update(Txn& txn, Targets& targets, const UpdateJob& ask) {
  if (!targets.whole)
    return records_for(txn, targets);
  const Job& named = *targets.named;
  std::vector<JobId> records;
  if (named.array && !is_final(named.state) && txn.part().from == 0)
    records.push_back(named.id);
  for (JobId id : targets.records) {
    const JobState state = txn.job(id)->state;
    if (!named.array || state == JobState::kPending || (!is_final(state) && !needs_pending(ask)))
      records.push_back(id);
  }
  return records;
}

}  // namespace

Result<Answer> update_job(Txn& txn, const UpdateJob& ask) {
  Targets targets = TRY(find_targets(txn, ask.target));
  if (ask.if_seq != 0 && txn.part().from == 0 && targets.named->meta.seq != ask.if_seq)
    return conflict(format("job {} has changed since version {}: read it again", targets.named->id.value, ask.if_seq));
  if (!txn.caller().admin && (ask.priority || (ask.nice && *ask.nice < targets.named->spec->nice)))
    return denied("only an administrator raises a priority");
  if (ask.throttle) {
    if (!targets.named->array)
      return invalid(format("job {} is no array", targets.named->id.value), "throttle");
    txn.edit_array(targets.named->id).throttle = *ask.throttle;
  }
  const std::vector<JobId> records = TRY(records_to_update(txn, targets, ask));
  Changed last;
  for (JobId id : records) {
    if (const Ref<Job> job = txn.job(id); job->array_job && txn.tired()) {
      targets.next = job->array_index;
      break;
    }
    TRY(update_record(txn, id, ask, last));
  }
  if (targets.next)
    txn.cut({*targets.next, true});
  return Answer{.job = targets.named->id, .seq = txn.job(targets.named->id)->meta.seq};
}

}  // namespace lockstep
