#include "foresight/cluster_copy.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/hostlist.h"
#include "base/text.h"
#include "model/command.h"
#include "model/job.h"
#include "views/reasons.h"

namespace lockstep {

namespace {

constexpr int kSlicesMax = 1'000'000;  // of one moment's planning: more means that the planner goes in circles

AgentReport report(const Tables& tables, NodeId id, JobId job, AttemptNo attempt, ReportBody body) {
  const Node* node = tables.node(id);
  return {id, node ? node->boot_id : std::string(), job, attempt, std::move(body)};
}

// What a node says when it has done as it was told; nothing where the core needs no word.
struct Done {
  std::optional<ReportBody> operator()(const StartAttempt&) const { return AttemptStarted{}; }
  std::optional<ReportBody> operator()(const StopAttempt&) const { return MemberStopped{}; }
  std::optional<ReportBody> operator()(const SignalAttempt&) const { return std::nullopt; }
  std::optional<ReportBody> operator()(const PauseAttempt& a) const { return MemberPaused{a.paused, a.number}; }
  std::optional<ReportBody> operator()(const StartPart& a) const {
    if (const auto* step = std::get_if<StepPart>(&a.part))
      return StepStarted{step->step};
    const auto* task = std::get_if<TaskPart>(&a.part);
    return task ? std::optional<ReportBody>(TaskStarted{task->group, task->index, task->incarnation}) : std::nullopt;
  }
  std::optional<ReportBody> operator()(const StopPart& a) const {
    if (const auto* step = std::get_if<StepPart>(&a.part))
      return StepEnded{step->step, {}};
    const auto* task = std::get_if<TaskPart>(&a.part);
    return task ? std::optional<ReportBody>(TaskEnded{task->group, task->index, task->incarnation, {0, 15, false}})
                : std::nullopt;
  }
  std::optional<ReportBody> operator()(const SignalPart&) const { return std::nullopt; }
};

// No node of a copy confirms anything, and none is asked.
CoreSettings without_nodes(CoreSettings settings) {
  settings.unkillable_after = kForever;
  return settings;
}

std::string sorted_list(std::vector<std::string> names) {
  sort_hosts(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return compress_hostlist(names);
}

}  // namespace

std::string host_list(const Tables& tables, const std::vector<NodeId>& nodes) {
  std::vector<std::string> names;
  for (const NodeId id : nodes)
    if (const Node* node = tables.node(id))
      names.push_back(node->meta.name);
  return sorted_list(std::move(names));
}

std::string host_list(const Tables& tables, const std::vector<Grant>& grants) {
  std::vector<NodeId> nodes;
  for (const Grant& grant : grants) nodes.push_back(grant.node);
  return host_list(tables, nodes);
}

ClusterCopy::ClusterCopy(const Tables& tables, const Clock& clock, CoreSettings settings)
    : clock_(clock),
      state_(std::make_unique<ClusterState>(without_nodes(settings))),
      planner_(std::make_unique<Planner>(PlannerSettings{settings.defragment, settings.move_after})) {
  const std::vector<Change> snapshot = tables.snapshot();
  state_->restore(snapshot);
  if (tables.cluster)
    clock_.now = std::max(clock_.now, tables.cluster->clock);
  begun_ = clock_.now;
  planner_->observe(snapshot);
}

WallTime ClusterCopy::wall(Instant at) const {
  if (!at || at >= kNever)
    return {};
  return WallTime{(at + clock_.wall_offset).us / 1'000'000 * 1'000'000};
}

void ClusterCopy::take(const Outcome& outcome) {
  planner_->observe(outcome.changes);
  for (const Change& change : outcome.changes) {
    const auto* record = std::get_if<Ref<Job>>(&change.record);
    if (!record)
      continue;
    const Job& job = **record;
    if (change.removed || job.state != JobState::kPending) {
      notes_.erase(job.id);
      refused_.erase(job.id);
    }
    if (job.state == JobState::kStarting && !change.removed) {
      started_.push_back(job.id);
      if (job.array_job)
        newest_[job.array_job] = job.id;
    }
    if (is_final(job.state) && !change.removed)
      ended_.push_back(job.id);
  }
  actions_.insert(actions_.end(), outcome.actions.begin(), outcome.actions.end());
}

Result<Answer> ClusterCopy::change(CommandBody body, const Caller& caller) {
  Command command{caller, std::move(body), {}};
  for (;;) {
    auto outcome = apply(*state_, command, clock_.now);
    if (!outcome.ok())
      return outcome.error();
    take(*outcome);
    obey();
    if (!outcome->rest)
      return outcome->answer;
    command.part = *outcome->rest;
  }
}

void ClusterCopy::obey() {
  while (!actions_.empty()) {
    const std::vector<Action> actions = std::exchange(actions_, {});
    for (const Action& action : actions) {
      auto said = std::visit(Done{}, action.body);
      if (!said)
        continue;
      auto outcome =
          apply(*state_, {{UserId{}, true}, report(tables(), action.node, action.job, action.attempt, *said)}, now());
      if (outcome.ok())
        take(*outcome);
    }
  }
}

void ClusterCopy::propose(ApplyPlan plan) {
  const auto answer = change(std::move(plan));
  if (answer.ok())
    for (const RefusedPart& refused : answer->refused)
      if (refused.reason != kJobChanged && (refused.part == PlanPart::kStart || refused.part == PlanPart::kPreemption))
        refused_[refused.job] = refused;
}

const RefusedPart* ClusterCopy::refused(JobId job) const {
  const auto at = refused_.find(job);
  return at == refused_.end() ? nullptr : &at->second;
}

void ClusterCopy::plan() {
  bool due = planner_->wake_at() <= clock_.now;
  for (int slice = 0; slice < kSlicesMax && (due || !planner_->idle()); ++slice, due = false) {
    PlanChunk chunk = planner_->plan(clock_.now, {});
    for (const PlanNote& note : chunk.notes)
      if (const Job* job = tables().job(note.job); job && job->state == JobState::kPending)
        notes_.put(note);
    if (!chunk.empty())
      propose(ApplyPlan{std::move(chunk)});
    planner_->settled();
  }
}

void ClusterCopy::tick() { (void)change(Tick{}); }

bool ClusterCopy::step(Instant until) {
  if (!stopped_leftovers_) {
    // What was ending when the copy was made is gone by then.
    stopped_leftovers_ = true;
    std::vector<JobId> ending;
    std::set<JobId> hang;
    for (const auto& [id, node] : tables().nodes)
      for (const Unconfirmed& one : node->unconfirmed) hang.insert(one.job);
    for (const auto& [id, job] : tables().jobs)
      if (job->state == JobState::kCompleting && !hang.contains(id))
        ending.push_back(id);
    for (const JobId id : ending) finish(id);
    if (!ending.empty()) {
      plan();
      return true;
    }
  }
  Instant next = state_->next_timer();
  if (const Instant wake = planner_->wake_at(); wake < kNever)
    next = std::min(next, std::max(wake, clock_.now + seconds(1)));
  next = std::max(next, clock_.now);
  if (next >= kNever || next > until)
    return false;
  clock_.now = next;
  while (state_->next_timer() <= clock_.now) tick();
  plan();
  return true;
}

void ClusterCopy::finish(JobId id) {
  const Ref<Job>* found = tables().jobs.get(id);
  if (!found || !holds_allocation((*found)->state))
    return;
  const Ref<Job> job = *found;
  const auto& grants = job->allocation->grants;
  const auto say = [&](NodeId node, ReportBody body) {
    auto outcome =
        apply(*state_, {{UserId{}, true}, report(tables(), node, id, job->attempt, std::move(body))}, clock_.now);
    if (outcome.ok())
      take(*outcome);
  };
  if (job->state != JobState::kCompleting) {
    if (job->spec->groups.front().launch == Launch::kScript) {
      say(grants.front().node, ScriptEnded{});
    } else {
      (void)change(EndJob{id, {}, false});
      if (const Job* now = tables().job(id); now && holds_allocation(now->state) && now->state != JobState::kCompleting)
        (void)change(CancelJob{.target = {id, std::nullopt}});
    }
  }
  for (const Grant& grant : grants) say(grant.node, MemberStopped{});
  obey();
}

std::vector<JobId> ClusterCopy::take_started() { return std::exchange(started_, {}); }
std::vector<JobId> ClusterCopy::take_ended() { return std::exchange(ended_, {}); }

namespace {

void tell_place(Foreseen& out, const Tables& tables, const std::string& partition, const std::vector<Grant>& grants) {
  out.partition = partition;
  out.nodes = host_list(tables, grants);
  for (const Grant& grant : grants) out.cores += grant.cores.count();
}

}  // namespace

Foreseen ClusterCopy::foresee(JobId id) const {
  const Job* job = tables().job(id);
  if (job && job->array && !newest_.empty())
    if (const auto it = newest_.find(id); it != newest_.end())
      job = tables().job(it->second);
  Foreseen out;
  out.reason = "None";
  if (!job || is_final(job->state))
    return out;
  if (!job->allocation)
    return foresee_start(*job);
  out.started = true;
  const Instant granted = job->allocation->granted;  // of an elastic job: when it last grew
  out.start = wall(granted && (!job->started || granted < job->started) ? granted : job->started);
  tell_place(out, tables(), job->allocation->partition, job->allocation->grants);
  return out;
}

Foreseen ClusterCopy::foresee_start(const Job& job) const {
  Foreseen out;
  const PlanNote* note = notes_.of(job.id);
  out.reason = slurm_reason(job, note);
  if (job.promise) {
    out.binds = true;
    out.start = wall(std::max(job.promise->at, clock_.now));
    tell_place(out, tables(), job.promise->partition, job.promise->grants);
    return out;
  }
  if (job.spec->partitions.size() == 1)
    out.partition = job.spec->partitions.front();
  else if (const Partition* partition = tables().default_partition(); partition && job.spec->partitions.empty())
    out.partition = partition->meta.name;
  if (job.hold != Hold::kNone)
    return out;
  Instant at = planner_->expected_start(job.id);
  if (!at)
    at = notes_.expected_start(job.id);
  if (at)
    out.start = wall(std::max(at, clock_.now));
  if (note)
    out.nodes = host_list(tables(), note->expected_nodes);
  return out;
}

std::vector<const Partition*> partitions_asked(const Tables& tables, const JobSpec& spec) {
  std::vector<const Partition*> out;
  const auto add = [&](const Partition* partition) {
    if (partition)
      out.push_back(partition);
  };
  if (spec.partitions.empty())
    add(tables.default_partition());
  for (const std::string& name : spec.partitions) add(tables.partition(name));
  return out;
}

std::string user_name(const Tables& tables, const Job& job) {
  const User* user = tables.user(job.spec->user);
  return user ? user->meta.name : "";
}

}  // namespace lockstep
