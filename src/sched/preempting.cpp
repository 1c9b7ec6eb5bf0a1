#include "sched/preempting.h"

#include <algorithm>

#include "model/job.h"
#include "model/plan.h"
#include "rules/growth.h"
#include "sched/place.h"

namespace lockstep {

namespace {

constexpr std::size_t kKeptMost = 64;  // suspended jobs whose places are kept, the first in the order of rank

bool has_kept_place(const Job& job) { return job.promise && job.promise->held; }

// Each once: grants of a node lie side by side.
std::vector<NodeId> nodes_in_order(const std::vector<Grant>& grants) {
  std::vector<NodeId> out;
  for (const Grant& grant : grants)
    if (out.empty() || out.back() != grant.node)
      out.push_back(grant.node);
  return out;
}

bool own(const Holder& holder, const std::vector<Grant>& grants) {
  return !grants.empty() && holder.grant >= grants.data() && holder.grant < grants.data() + grants.size();
}

// Whether the grants fit beside everybody but the holders of `besides`.
bool free_for(const std::vector<Grant>& grants, const std::vector<Grant>& besides, const std::vector<NodeSlot>& nodes) {
  std::map<NodeId, NodeLoad> loads;
  for (const Grant& grant : grants) {
    if (grant.node.value >= nodes.size())
      return false;
    const NodeSlot& slot = nodes[grant.node.value];
    if (!slot.node || !node_usable(*slot.node))
      return false;
    const auto [load, fresh] = loads.try_emplace(grant.node);
    if (fresh)
      for (const Holder& holder : slot.holders)
        if (!own(holder, besides))
          add_grant(load->second, *holder.grant);
    if (!take(load->second, *slot.node, grant).ok())
      return false;
  }
  return true;
}

// When the first of those may be gone who keep a suspended job from going on, node by node; later it is looked at
// again. kNever: a node is not there, or somebody has no limit.
Instant room_expected(PlannerView& view, const Job& job) {
  Instant at = view.now();
  const std::vector<Grant>& held = view.held_grants(job);
  for (const Grant& grant : occupying_grants(job.allocation->grants)) {
    if (free_for({grant}, held, view.nodes()))
      continue;
    Instant first = kNever;
    if (const NodeSlot& slot = view.nodes()[grant.node.value]; slot.node && node_usable(*slot.node))
      for (const Holder& holder : slot.holders)
        if (!own(holder, held))
          first = std::min(first, holder.end);
    at = std::max(at, first);
  }
  return at;
}

// It has kept its memory.
NodeLoad load_to_come(Grant grant) {
  grant.memory_mb = 0;
  NodeLoad load;
  add_grant(load, grant);
  return load;
}

}  // namespace

void Preempting::keep_places(PlannerView& view, Shadows& shadows) const {
  std::vector<std::pair<OrderKey, const Job*>> ranked;
  for (const auto& [id, job] : suspended_) ranked.emplace_back(view.key_of(*job), job.get());
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(std::min(ranked.size(), kKeptMost));
  for (const auto& [key, job] : ranked) {
    Shadow shadow{.key = key,
                  .partition = kNoPartition,
                  .at = room_expected(view, *job),
                  .made = view.now(),
                  .grants = occupying_grants(job->allocation->grants),
                  .loads = {},
                  .binds_at = {},
                  .over = kNever};
    if (shadow.at == kNever)
      continue;
    if (job->limit_end && job->limit_end < kNever)
      shadow.over = shadow.at + std::max(Duration{}, job->limit_end - job->suspended_at);
    for (const Grant& grant : shadow.grants) shadow.loads.push_back(load_to_come(grant));
    shadows.add(view, std::move(shadow));
  }
}

void Preempting::forget(JobId id) {
  if (const auto kind = kinds_.find(id); kind != kinds_.end()) {
    const auto group = running_.find(kind->second);
    group->second.erase(id);
    if (group->second.empty())
      running_.erase(group);
    kinds_.erase(kind);
  }
  going_.erase(id);
  suspended_.erase(id);
  kept_.erase(id);
}

void Preempting::note_holder(const Ref<Job>& job) {
  const JobId id = job->id;
  const bool lives = job->state == JobState::kStarting || job->state == JobState::kRunning;
  const Eviction* eviction = job->eviction.get();
  if (lives && !eviction) {
    Kind kind{std::string(job->spec->qos), job->allocation->partition, job->spec->precedence,
              !job->spec->health_check.empty()};
    running_[kind][id] = job;
    kinds_[id] = std::move(kind);
    return;
  }
  if (job->state == JobState::kSuspended) {
    if (eviction)
      suspended_[id] = job;
    return;
  }
  const bool goes_whole = lives && eviction->mode != PreemptMode::kSuspend && eviction->nodes.empty();
  if (goes_whole || (!lives && !job->hangs))
    going_[id] = job;
}

void Preempting::observe(const Change& change) {
  const auto* ref = std::get_if<Ref<Job>>(&change.record);
  if (!ref)
    return;
  const Job& job = **ref;
  forget(job.id);
  if (change.removed)
    return;
  if (job.state == JobState::kPending && has_kept_place(job))
    kept_.insert(job.id);
  if (holds_allocation(job.state))
    note_holder(*ref);
}

void Preempting::start(PlannerView& view, Shadows& shadows, JobId id, std::vector<Grant> grants,
                       const std::string& partition, Instant end, PlanChunk& chunk) const {
  const JobSlot& slot = view.slot(view.find(id));
  PlannedStart planned{.job = id, .read = slot.job->meta.seq, .partition = partition, .grants = std::move(grants)};
  view.propose(planned, end);
  shadows.started(view, planned.grants, end);
  chunk.starts.push_back(std::move(planned));
}

// Starts the job on what is held for it, once that is free; gives up what is of no use.
void Preempting::serve_hold(PlannerView& view, Shadows& shadows, Instant now, JobSlot& slot, PlanChunk& chunk) {
  const JobId id = slot.job->id;
  const Promise& promise = *slot.job->promise;
  if (slot.told == Wait::kNone) {
    slot.told = Wait::kResources;
    chunk.notes.push_back({.job = id,
                           .wait = Wait::kResources,
                           .detail = {},
                           .expected_start = promise.at,
                           .expected_nodes = nodes_in_order(promise.grants)});
  }
  Shape shape(KeyOfSlot{});
  shape.spec = slot.job->spec;
  std::vector<Way>& ways = view.ways(shape);
  const auto way = std::find_if(ways.begin(), ways.end(), [&](const Way& w) {
    return w.open && view.partitions()[w.partition]->meta.name == promise.partition;
  });
  const bool there = free_for(promise.grants, promise.grants, view.nodes());
  // One that may not start, an element behind its array's throttle, would keep others from the place for as long.
  const bool useless = slot.refused || way == ways.end() ||
                       (there && (view.skipped(slot) || view.bar(*slot.job->spec, *way, &promise.grants)));
  if (useless)
    chunk.promises.push_back({id, {}});
  else if (there)
    start(view, shadows, id, promise.grants, promise.partition, way->end_from(now), chunk);
}

void Preempting::serve(PlannerView& view, Shadows& shadows, Instant now, PlanChunk& chunk) {
  for (const JobId id : kept_)
    if (const SlotNo s = view.find(id); s != kNoSlot && !view.proposed(id))
      serve_hold(view, shadows, now, view.slot(s), chunk);
}

// Starts the job where there is room already, and not on what is held for it.
void Preempting::start_elsewhere(PlannerView& view, Shadows& shadows, Instant now, const JobSlot& slot,
                                 PlanChunk& chunk) const {
  Shape shape(KeyOfSlot{});
  shape.spec = slot.job->spec;
  for (const Way& whole : view.ways(shape)) {
    if (!whole.open || view.bar(*shape.spec, whole))
      continue;
    const std::optional<Way> narrowed = view.open_way(*shape.spec, whole, now);
    const Way& way = narrowed ? *narrowed : whole;
    const Instant end = way.end_from(now);
    const Avoid avoid = shadows.avoid_for(view.key_of(*slot.job), end, end);
    if (!may_fit(view, way, shadows, avoid))
      continue;
    auto grants = place_now(view, *shape.spec, way, shadows, avoid);
    if (!grants || view.bar(*shape.spec, way, &*grants))
      continue;
    return start(view, shadows, slot.job->id, std::move(*grants), view.partitions()[way.partition]->meta.name, end,
                 chunk);
  }
}

// Whether its place is free, and nobody ahead of it waits for what is there.
bool Preempting::can_go_on(PlannerView& view, const Shadows& shadows, const Job& job) {
  const Avoid avoid = shadows.avoid_for_resume(view.key_of(job));
  const bool kept = std::any_of(job.allocation->grants.begin(), job.allocation->grants.end(), [&](const Grant& g) {
    const NodeSlot& slot = view.nodes()[g.node.value];
    return slot.shaded && !(shadows.seen(g.node, slot.load, avoid) == slot.load);
  });
  return !kept && free_for(occupying_grants(job.allocation->grants), view.held_grants(job), view.nodes());
}

void Preempting::serve_late(PlannerView& view, Shadows& shadows, Instant now, PlanChunk& chunk) {
  const auto given_up = [&](JobId id) {
    return std::any_of(chunk.promises.begin(), chunk.promises.end(),
                       [&](const PlannedPromise& p) { return p.job == id; });
  };
  for (const JobId id : kept_) {
    const SlotNo s = view.find(id);
    if (s != kNoSlot && !view.proposed(id) && !view.skipped(view.slot(s)) && !given_up(id))
      start_elsewhere(view, shadows, now, view.slot(s), chunk);
  }
  if (view.touch_clock() != stuck_clock_) {
    stuck_.clear();
    stuck_clock_ = view.touch_clock();
  }
  for (const auto& [id, job] : suspended_) {
    if (stuck_.contains(id) || resumed_.contains(id) || !can_go_on(view, shadows, *job))
      continue;
    resumed_.insert(id);
    chunk.resumes.push_back({id, job->meta.seq});
  }
}

void Preempting::settled() {
  victims_.clear();
  stuck_.insert(resumed_.begin(), resumed_.end());
  resumed_.clear();
}

Instant Preempting::kept_until(const PlannerView& view, JobId job) const {
  const SlotNo s = view.find(job);
  return s != kNoSlot && kept_.contains(job) ? view.slot(s).job->promise->at : Instant{};
}

}  // namespace lockstep
