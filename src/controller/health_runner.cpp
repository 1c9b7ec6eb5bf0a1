#include "controller/health_runner.h"

#include <algorithm>

#include "model/command.h"
#include "model/spec.h"

namespace lockstep {

void HealthRunner::restart(std::span<const Change> snapshot) {
  const std::uint64_t last_ask = last_ask_;  // answers to what was asked before may still come
  *this = HealthRunner();
  last_ask_ = last_ask;
  observe(snapshot);
}

void HealthRunner::observe(std::span<const Change> changes) {
  for (const Change& change : changes) {
    if (const auto* job = std::get_if<Ref<Job>>(&change.record))
      saw(*job, change.removed);
    else if (const auto* node = std::get_if<Ref<Node>>(&change.record))
      saw(*node, change.removed);
    else if (const auto* check = std::get_if<Ref<HealthCheck>>(&change.record))
      saw(*check, change.removed);
  }
}

void HealthRunner::saw(const Ref<HealthCheck>& check, bool removed) {
  const std::string& name = check->meta.name;
  if (removed)
    checks_.erase(name);
  else
    checks_[name] = check;
  std::erase_if(refused_, [&](const auto& entry) { return entry.first.second == name; });
  for (const auto& [id, node] : nodes_) stale_.insert(id);
  for (const auto& [job, of] : runs_)
    if (of == name && removed)
      orphans_.insert(job);
    else if (of == name)
      orphans_.erase(job);
}

void HealthRunner::saw(const Ref<Node>& node, bool removed) {
  if (removed) {
    nodes_.erase(node->id);
    std::erase_if(refused_, [&](const auto& entry) { return entry.first.first == node->id; });
  } else {
    nodes_[node->id] = node;
  }
  stale_.insert(node->id);
}

void HealthRunner::occupy(const Allocation& allocation, int times) {
  for (const Grant& grant : allocation.grants) {
    const auto at = busy_.try_emplace(grant.node).first;
    const bool was_idle = at->second == 0;
    at->second += times;
    const bool is_idle = at->second == 0;
    if (is_idle)
      busy_.erase(at);
    if (was_idle != is_idle && !checks_.empty())
      stale_.insert(grant.node);
  }
}

void HealthRunner::note_run(const Job& job, bool ended) {
  if (ended) {
    runs_.erase(job.id);
    orphans_.erase(job.id);
  } else {
    const auto [run, fresh] = runs_.try_emplace(job.id, job.spec->health_check);
    if (fresh && !checks_.contains(run->second))
      orphans_.insert(job.id);
  }
}

void HealthRunner::saw(const Ref<Job>& job, bool removed) {
  const Ref<Allocation> has = !removed && holds_allocation(job->state) ? job->allocation : nullptr;
  const auto known = allocations_.find(job->id);
  const Ref<Allocation> had = known == allocations_.end() ? nullptr : known->second;
  if (had != has) {
    if (has)
      occupy(*has, 1);
    if (had)
      occupy(*had, -1);
    if (has)
      allocations_[job->id] = has;
    else
      allocations_.erase(known);
  }
  if (!job->spec->health_check.empty())
    note_run(*job, removed || is_final(job->state));
}

void HealthRunner::forget_entries(NodeId id) {
  const auto at = entries_.find(id);
  if (at == entries_.end())
    return;
  for (const auto& [check, due] : at->second) {
    due_.erase({due, id, check});
    leftovers_.erase({due, id, check});
  }
  entries_.erase(at);
}

void HealthRunner::enter(std::set<Entry>& among, NodeId node, const std::string& check, Instant due) {
  if (const auto refused = refused_.find({node, check}); refused != refused_.end())
    due = std::max(due, refused->second.until);
  among.emplace(due, node, check);
  entries_[node][check] = due;
}

// What is to be done on the node, and when.
void HealthRunner::refresh(NodeId id) {
  forget_entries(id);
  const auto known = nodes_.find(id);
  if (known == nodes_.end() || under_way_.contains(id))
    return;
  const Node& node = *known->second;
  for (const HealthFinding& finding : node.health) {
    const auto check = checks_.find(finding.check);
    if (check == checks_.end() || !checks_node(*check->second, node) ||
        (check->second->on_failure == OnUnhealthy::kTell && finding.verdict == HealthVerdict::kBad))
      enter(leftovers_, id, finding.check, {});
  }
  if (busy_.contains(id) || entries_.contains(id))
    return;
  for (const auto& [name, check] : checks_)
    if (checks_node(*check, node) && node_checkable(node, name))
      enter(due_, id, name, health_due(*check, finding_of(node, name)));
}

bool HealthRunner::has_slot() const { return runs_.size() + runs_asked_ < health_runs_most(nodes_.size()); }

void HealthRunner::ask_for(const Pair& pair, Turn& turn) {
  turn.asks.push_back({++last_ask_, RunHealthCheck{pair.second, pair.first}, {}});
  asked_[last_ask_] = {pair, {}};
  ++runs_asked_;
  under_way_.insert(pair.first);  // its entries are worked out again when the answer is there
}

void HealthRunner::cancel_orphans(Instant now, ActorBudget budget, Turn& turn) {
  while (!orphans_.empty() && orphans_at_ <= now && turn.asks.size() < budget.commands) {
    const JobId job = *orphans_.begin();
    orphans_.erase(orphans_.begin());
    turn.asks.push_back({++last_ask_, CancelJob{{job, {}}}, {}});
    asked_[last_ask_] = {{}, job};
  }
}

void HealthRunner::ask_for_due(std::set<Entry>& among, Instant now, ActorBudget budget, Turn& turn) {
  while (!among.empty() && std::get<Instant>(*among.begin()) <= now && (&among == &leftovers_ || has_slot()) &&
         turn.asks.size() < budget.commands) {
    const auto [due, node, check] = *among.begin();
    forget_entries(node);
    ask_for({node, check}, turn);
  }
}

Actor::Turn HealthRunner::step(Instant now, ActorBudget budget) {
  Turn turn;
  for (std::size_t looks = budget.looks; looks > 0 && !stale_.empty(); --looks) {
    const NodeId id = *stale_.begin();
    stale_.erase(stale_.begin());
    refresh(id);
  }
  cancel_orphans(now, budget, turn);
  ask_for_due(leftovers_, now, budget, turn);
  ask_for_due(due_, now, budget, turn);
  return turn;
}

void HealthRunner::answered(std::uint64_t id, const Result<Answer>& answer, Instant now) {
  const auto asked = asked_.find(id);
  if (asked == asked_.end())
    return;
  const auto [pair, cancels] = asked->second;
  asked_.erase(asked);
  if (cancels) {
    if (!answer.ok() && runs_.contains(cancels)) {
      orphans_.insert(cancels);
      orphans_at_ = now + kPause;
    }
    return;
  }
  --runs_asked_;
  under_way_.erase(pair.first);
  stale_.insert(pair.first);
  if (answer.ok()) {
    refused_.erase(pair);
    return;
  }
  const auto [refused, fresh] = refused_.try_emplace(pair, Refused{{}, kPause});
  refused->second.until = now + refused->second.pause;
  refused->second.pause = std::min(kPauseMost, Duration{refused->second.pause.us * 2});
}

Instant HealthRunner::next_timer() const {
  if (!stale_.empty())
    return {};
  Instant next = orphans_.empty() ? kNever : orphans_at_;
  if (!leftovers_.empty())
    next = std::min(next, std::get<Instant>(*leftovers_.begin()));
  if (!due_.empty() && has_slot())
    next = std::min(next, std::get<Instant>(*due_.begin()));
  return next;
}

}  // namespace lockstep
