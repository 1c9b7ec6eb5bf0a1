#include "core/growth.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "core/attempts.h"
#include "core/confirm.h"
#include "core/preemption.h"
#include "core/tasks.h"
#include "core/topology.h"
#include "model/job.h"
#include "rules/growth.h"
#include "rules/topology.h"
#include "rules/tres.h"

namespace lockstep {

namespace {

std::vector<const Node*> nodes_of_grants(const Txn& txn, const std::vector<Grant>& grants) {
  std::vector<const Node*> nodes;
  for (const Grant& grant : grants) nodes.push_back(txn.tables().node(grant.node));
  return nodes;
}

}  // namespace

Ref<Job> regrant(Txn& txn, const Job& before, std::vector<Grant> grants, std::vector<MemberState> members) {
  charge_usage(txn, before, txn.now());
  auto allocation = std::make_shared<Allocation>(*before.allocation);
  allocation->grants = std::move(grants);
  allocation->granted = txn.now();
  const std::vector<Grant> left = occupying_grants(allocation->grants);
  if (const Partition* partition = txn.tables().partition(allocation->partition))
    allocation->tres = tres_of(*before.spec, *partition, left, nodes_of_grants(txn, left));
  Job job = before;
  job.allocation = std::move(allocation);
  job.members = std::move(members);
  return txn.put(std::move(job));
}

namespace {

// It had something there that is lost: nothing new may start there before the node is known to be another boot.
bool has_left(const Txn& txn, const Job& job, NodeId node) {
  const auto seats = txn.inner().seats_of(job).on(node);
  return std::any_of(seats.begin(), seats.end(),
                     [&](const Seats::Seat& seat) { return !occupies(job.allocation->grants[seat.grant]); });
}

// Its live steps use something there.
bool has_steps_on(const Txn& txn, const Job& job, NodeId node) {
  const auto live = txn.inner().live_steps.find(job.id);
  return live != txn.inner().live_steps.end() &&
         std::any_of(live->second.begin(), live->second.end(), [&](StepNo number) {
           const auto& places = txn.tables().step(job.id, number)->places;
           return std::any_of(places.begin(), places.end(), [&](const StepPlace& p) { return p.node == node; });
         });
}

std::string size_words(const Job& job) {
  const std::vector<Grant> left = occupying_grants(job.allocation->grants);
  std::uint32_t tasks = 0;
  for (const Grant& grant : left) tasks += grant.tasks;
  return format("attempt {}: {} tasks", job.attempt, tasks);
}

// Why the nodes cannot give these grants now, and their places are not what an elastic group may have.
Refusal objection_to_places(const Txn& txn, const Job& job, const std::vector<Grant>& grants) {
  std::map<NodeId, NodeLoad> loads;
  for (const Grant& grant : grants) {
    const Node* node = txn.tables().node(grant.node);
    if (!node || grant.group >= job.spec->groups.size())
      return refusal("NoSuchNode");
    if (!node_usable(*node) || has_left(txn, job, grant.node))
      return refusal("NodeNotUp", node->meta.name);
    if (!is_elastic(job.spec->groups[grant.group]) || grant.tasks == 0)
      return refusal("NotAsAsked");
    const auto there = txn.inner().loads.find(grant.node);
    NodeLoad& load =
        loads.try_emplace(grant.node, there == txn.inner().loads.end() ? NodeLoad{} : there->second).first->second;
    if (!take(load, *node, grant).ok())
      return refusal("Taken", node->meta.name);
  }
  // A member that is on its way out cannot be told to start more.
  for (std::size_t i = 0; i < job.members.size(); ++i)
    if (job.members[i] == MemberState::kStopped && loads.contains(job.allocation->grants[i].node))
      return refusal(kJobChanged);
  return {};
}

// Why the job with all its grants would not be what was asked for.
Refusal objection_to_whole(const Txn& txn, const Job& job, const Partition& partition, const std::vector<Grant>& all,
                           const std::vector<const Node*>& nodes) {
  const JobSpec& spec = *job.spec;
  const bool switches_over = txn.now() >= switches_end(spec, job.eligible);
  if (const auto whole = check_allocation(spec, partition, all, nodes); !whole.ok())
    return refusal("NotAsAsked", whole.error().message);
  if (const auto placed = check_domains(spec, partition, levels_of(txn.tables()), all, nodes, switches_over);
      !placed.ok())
    return refusal("Topology", placed.error().message);
  return {};
}

}  // namespace

Refusal objection_of_rules(const Txn& txn, const Job& job, const Partition& partition, const std::vector<Grant>& all,
                           const std::vector<const Node*>& nodes, StartRules& rules) {
  Ledger without = txn.inner().ledger;
  without.index(&job, nullptr);
  const Duration left = job.limit_end >= kNever ? kForever : job.limit_end - txn.now();
  if (left.us <= 0)
    return refusal("TimeLimit");
  if (auto bar = rules.bar(*job.spec, partition, all, nodes, left, &without))
    return {"Barred", std::move(bar->detail), bar->wait};
  return {};
}

namespace {

// Why the running job may not have these as well.
Refusal objection_to_more(const Txn& txn, const Job& job, const PlannedGrowth& planned, StartRules& rules) {
  const Partition* plain = txn.tables().partition(job.allocation->partition);
  if (!plain || !plain->up)
    return refusal("PartitionClosed", job.allocation->partition);
  const std::optional<Partition> eased = eased_for(txn.tables(), *plain, job.spec->qos);
  const Partition& partition = eased ? *eased : *plain;
  if (Refusal why = objection_to_places(txn, job, planned.grants))
    return why;
  std::vector<Grant> all = occupying_grants(job.allocation->grants);
  all.insert(all.end(), planned.grants.begin(), planned.grants.end());
  const std::vector<const Node*> nodes = nodes_of_grants(txn, all);
  if (Refusal why = objection_to_whole(txn, job, partition, all, nodes))
    return why;
  if (!spares_kept_places(txn, job.id, planned.grants))
    return refusal("HeldForOthers");
  return objection_of_rules(txn, job, partition, all, nodes, rules);
}

}  // namespace

Refusal apply_growth(Txn& txn, const PlannedGrowth& planned, StartRules& rules) {
  const Ref<Job> job = txn.job(planned.job);
  if (!job || job->state != JobState::kRunning || job->eviction || planned.grants.empty())
    return refusal(kJobChanged);
  if (Refusal why = objection_to_more(txn, *job, planned, rules))
    return why;
  std::vector<Grant> grants = job->allocation->grants;
  std::vector<MemberState> members = job->members;
  std::vector<NodeId> fresh;  // on which nothing of it runs yet
  std::set<NodeId> known;
  std::vector<std::uint32_t> ready;
  for (const Grant& grant : planned.grants) {
    const auto there = txn.inner().seats_of(*job).on(grant.node);
    if (there.empty() && known.insert(grant.node).second)
      fresh.push_back(grant.node);
    const MemberState state = there.empty() ? MemberState::kAssigned : members[there.front().grant];
    if (state == MemberState::kRunning || state == MemberState::kPaused)  // which was told to go on
      ready.push_back(static_cast<std::uint32_t>(grants.size()));
    grants.push_back(grant);
    members.push_back(state);
  }
  Job next = *job;
  if (!fresh.empty() && !next.confirm_by)
    next.confirm_by = txn.now() + kStartWithin;
  const Ref<Job> grown = regrant(txn, std::move(next), std::move(grants), std::move(members));
  txn.event(*grown, "Grown", size_words(*grown));
  for (NodeId node : fresh) txn.act(node, *grown, StartAttempt{});
  start_tasks_in(txn, *grown, ready);
  return {};
}

namespace {

// The grants that the job has for certain once the node is gone.
std::vector<Grant> grants_without(const Txn& txn, const Job& job, NodeId node) {
  std::vector<Grant> left;
  for (std::size_t i = 0; i < job.members.size(); ++i) {
    const Grant& grant = job.allocation->grants[i];
    const Node* there = txn.tables().node(grant.node);
    if (grant.node != node && !gives_up(job, grant.node) && job.members[i] != MemberState::kStopped && there &&
        there->link != NodeLink::kLost)
      left.push_back(grant);
  }
  return left;
}

// With what is left the group is still as large as was asked for at least.
bool can_do_with(const GroupSpec& group, const GroupSize& left) {
  return may_lose_tasks(group) && left.tasks >= std::max(group.tasks.min, 1u) &&
         left.nodes >= std::max(group.nodes.min, 1u);
}

}  // namespace

bool may_shrink(const Txn& txn, const Job& job, NodeId node) {
  if (job.state != JobState::kRunning || (job.eviction && job.eviction->nodes.empty()) || has_steps_on(txn, job, node))
    return false;
  const std::vector<Grant> left = grants_without(txn, job, node);
  for (std::size_t g = 0; g < job.spec->groups.size(); ++g) {
    const GroupSpec& group = job.spec->groups[g];
    if (group.launch == Launch::kTasks && group.one_failure_restarts_all)
      return false;
    const bool loses = std::any_of(job.allocation->grants.begin(), job.allocation->grants.end(),
                                   [&](const Grant& grant) { return grant.group == g && grant.node == node; });
    if (loses && !can_do_with(group, size_of(left, g)))
      return false;
  }
  return true;
}

bool may_give_up(const Txn& txn, const Job& job, const std::vector<NodeId>& nodes) {
  return job.state == JobState::kRunning && !job.eviction && can_spare(job, nodes) &&
         std::none_of(nodes.begin(), nodes.end(), [&](NodeId node) { return has_steps_on(txn, job, node); });
}

void shrink(Txn& txn, const Job& before, NodeId node) {
  Job job = before;
  if (gives_up(job, node))
    leave(job, node);
  std::vector<Grant> grants = job.allocation->grants;
  std::vector<MemberState> members = job.members;
  std::vector<bool> lost(grants.size());
  for (std::size_t i = 0; i < grants.size(); ++i)
    if (grants[i].node == node) {
      grants[i] = {.node = node, .group = grants[i].group};
      members[i] = MemberState::kStopped;
      lost[i] = true;
    }
  const Ref<Job> shrunk = regrant(txn, job, std::move(grants), std::move(members));
  txn.event(*shrunk, "Shrunk", size_words(*shrunk));
  lose_tasks_of(txn, *shrunk, lost);
}

void leave_node(Txn& txn, const Job& before, NodeId node) {
  Job job = before;
  if (!job.eviction || !job.eviction->by) {  // else others are to leave after their grace, and this goes beside it
    auto eviction = std::make_shared<Eviction>(job.eviction ? *job.eviction : Eviction{.at = txn.now()});
    if (!gives_up(job, node))
      eviction->nodes.push_back(node);
    job.eviction = std::move(eviction);
  }
  job.confirm_by = confirm_stop_by(txn, job);
  const Ref<Job> told = txn.put(std::move(job));
  txn.act(node, *told, StopAttempt{told->spec->kill_wait});
}

void let_return(Txn& txn, NodeId node) {
  const auto on = txn.inner().jobs_on.find(node);
  if (on == txn.inner().jobs_on.end())
    return;
  for (JobId id : std::vector<JobId>(on->second.begin(), on->second.end())) {
    const Ref<Job> before = txn.job(id);
    const std::vector<Grant>& grants = before->allocation->grants;
    if (!has_left(txn, *before, node))
      continue;
    auto allocation = std::make_shared<Allocation>(*before->allocation);
    Job job = *before;
    std::vector<std::uint32_t> moved;  // where each grant is now
    allocation->grants.clear();
    job.members.clear();
    for (std::size_t i = 0; i < grants.size(); ++i) {
      const bool gone = grants[i].node == node && !occupies(grants[i]);
      moved.push_back(gone ? kNoGrant : static_cast<std::uint32_t>(job.members.size()));
      if (gone)
        continue;
      allocation->grants.push_back(grants[i]);
      job.members.push_back(before->members[i]);
    }
    job.allocation = std::move(allocation);
    const Ref<Job> now_there = txn.put(std::move(job));
    move_tasks_of(txn, *now_there, moved);
    const auto live = txn.inner().live_steps.find(id);
    if (live == txn.inner().live_steps.end())
      continue;
    for (StepNo number : std::vector<StepNo>(live->second.begin(), live->second.end())) {
      Step step = *txn.step(id, number);
      for (StepPlace& place : step.places) place.grant = moved[place.grant];
      txn.put(std::move(step));
    }
  }
}

}  // namespace lockstep
