#include "sched/preempting.h"

#include <algorithm>
#include <set>

#include "model/job.h"
#include "model/plan.h"
#include "rules/growth.h"
#include "rules/tres.h"
#include "sched/defrag.h"
#include "sched/place.h"

namespace lockstep {

namespace {

constexpr Duration kWaitMost =
    hours(7 * 24);                      // of a head behind jobs without a limit, when it is weighed against moves
constexpr std::size_t kTriesMost = 64;  // blocked shapes for which victims are looked for, in one pass
constexpr std::size_t kKeptMost = 64;   // suspended jobs whose places are kept, the first in the order of rank

bool has_kept_place(const Job& job) { return job.promise && job.promise->held; }

bool own(const Holder& holder, const std::vector<Grant>& grants) {
  return !grants.empty() && holder.grant >= grants.data() && holder.grant < grants.data() + grants.size();
}

const Partition* partition_of(const PlannerView& view, const std::string& name) {
  for (const Ref<Partition>& p : view.partitions())
    if (p->meta.name == name)
      return p.get();
  return nullptr;
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

// Devices that are free, or will be when these have gone.
std::int64_t devices_free(PlannerView& view, const std::vector<const Job*>& going) {
  std::int64_t free = 0;
  for (const NodeSlot& slot : view.nodes())
    if (slot.node && slot.cls != kNoClass && node_usable(*slot.node)) {
      const DeviceSet& healthy = view.classes()[slot.cls].healthy;
      free += std::int64_t{healthy.count()} - (healthy & slot.load.devices).count();
    }
  for (const Job* job : going)
    for (const Grant& grant : job->allocation->grants) free += grant.devices.count();
  return free;
}

// The same candidates, with those in parts that can give up some of their nodes and stay: as many of the nodes that the
// way could use as they can do without, the last ones first. Empty: there are none.
std::vector<Victim> in_parts(const Directory& directory, const Way& way, PlannerView& view,
                             const std::vector<Victim>& candidates, Instant now) {
  std::set<ClassNo> usable;
  for (const GroupWay& group : way.groups)
    for (const ClassNeed& need : group.needs) usable.insert(need.cls);
  std::vector<Victim> out;
  bool any = false;
  for (const Victim& victim : candidates) {
    const Job& job = *victim.job;
    std::vector<NodeId> nodes;
    if (!victim.keeps_memory && job.state == JobState::kRunning)
      for (std::size_t i = job.allocation->grants.size(); i-- > 0;) {
        const NodeId node = job.allocation->grants[i].node;
        if (!usable.contains(view.nodes()[node.value].cls) ||
            std::find(nodes.begin(), nodes.end(), node) != nodes.end())
          continue;
        nodes.push_back(node);
        if (!can_spare(job, nodes))
          nodes.pop_back();
      }
    if (nodes.empty()) {
      out.push_back(victim);
      continue;
    }
    any = true;
    std::sort(nodes.begin(), nodes.end());
    for (const NodeId node : nodes) out.push_back({&job, loss_on(directory, job, node, now), false, node});
  }
  return any ? out : std::vector<Victim>();
}

}  // namespace

namespace {

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

void Preempting::observe(const Change& change) {
  const auto* ref = std::get_if<Ref<Job>>(&change.record);
  if (!ref)
    return;
  const Ref<Job>& job = *ref;
  const JobId id = job->id;
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
  if (change.removed)
    return;
  if (job->state == JobState::kPending && has_kept_place(*job))
    kept_.insert(id);
  if (!holds_allocation(job->state))
    return;
  const bool lives = job->state == JobState::kStarting || job->state == JobState::kRunning;
  if (lives && !job->eviction) {
    Kind kind{std::string(job->spec->qos), job->allocation->partition};
    running_[kind][id] = job;
    kinds_[id] = std::move(kind);
  } else if (job->state == JobState::kSuspended) {
    if (job->eviction)
      suspended_[id] = job;
  } else if ((!lives && !job->hangs) ||
             (lives && job->eviction->mode != PreemptMode::kSuspend && job->eviction->nodes.empty())) {
    going_[id] = job;
  }
}

void Preempting::start(PlannerView& view, Shadows& shadows, JobId id, std::vector<Grant> grants,
                       const std::string& partition, Instant end, PlanChunk& chunk) const {
  const JobSlot& slot = view.slot(view.find(id));
  PlannedStart planned{.job = id, .read = slot.job->meta.seq, .partition = partition, .grants = std::move(grants)};
  view.propose(planned, end);
  shadows.started(view, planned.grants, end);
  chunk.starts.push_back(std::move(planned));
}

void Preempting::serve(PlannerView& view, Shadows& shadows, Instant now, PlanChunk& chunk) {
  for (const JobId id : kept_) {
    const SlotNo s = view.find(id);
    if (s == kNoSlot || view.proposed(id))
      continue;
    JobSlot& slot = view.slot(s);
    const Promise& promise = *slot.job->promise;
    if (slot.told == Wait::kNone) {
      slot.told = Wait::kResources;
      PlanNote note{.job = id, .wait = Wait::kResources, .detail = {}, .expected_start = promise.at};
      for (const Grant& grant : promise.grants)
        if (note.expected_nodes.empty() || note.expected_nodes.back() != grant.node)
          note.expected_nodes.push_back(grant.node);
      chunk.notes.push_back(std::move(note));
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
      start(view, shadows, id, promise.grants, promise.partition, way->limit >= kForever ? kNever : now + way->limit,
            chunk);
  }
}

void Preempting::serve_late(PlannerView& view, Shadows& shadows, Instant now, PlanChunk& chunk) {
  const auto given_up = [&](JobId id) {
    return std::any_of(chunk.promises.begin(), chunk.promises.end(),
                       [&](const PlannedPromise& p) { return p.job == id; });
  };
  for (const JobId id : kept_) {
    const SlotNo s = view.find(id);
    if (s == kNoSlot || view.proposed(id) || view.skipped(view.slot(s)) || given_up(id))
      continue;
    const JobSlot& slot = view.slot(s);
    Shape shape(KeyOfSlot{});
    shape.spec = slot.job->spec;
    std::vector<Way>& ways = view.ways(shape);
    for (const Way& whole : ways) {
      if (!whole.open || view.bar(*shape.spec, whole))
        continue;
      const std::optional<Way> narrowed = view.open_way(*shape.spec, whole, now);
      const Way& way = narrowed ? *narrowed : whole;
      const Instant end = way.limit >= kForever ? kNever : now + way.limit;
      const Avoid avoid = shadows.avoid_for(view.key_of(*slot.job), end, end);
      if (!may_fit(view, way, shadows, avoid))
        continue;
      auto grants = place_now(view, *shape.spec, way, shadows, avoid);
      if (!grants || view.bar(*shape.spec, way, &*grants))
        continue;
      start(view, shadows, id, std::move(*grants), view.partitions()[way.partition]->meta.name, end, chunk);
      break;
    }
  }
  if (view.touch_clock() != stuck_clock_) {
    stuck_.clear();
    stuck_clock_ = view.touch_clock();
  }
  for (const auto& [id, job] : suspended_) {
    if (stuck_.contains(id) || resumed_.contains(id))
      continue;
    const Avoid avoid = shadows.avoid_for_resume(view.key_of(*job));
    const bool kept = std::any_of(job->allocation->grants.begin(), job->allocation->grants.end(), [&](const Grant& g) {
      const NodeSlot& slot = view.nodes()[g.node.value];
      return slot.shaded && !(shadows.seen(g.node, slot.load, avoid) == slot.load);
    });
    if (kept || !free_for(occupying_grants(job->allocation->grants), view.held_grants(*job), view.nodes()))
      continue;
    resumed_.insert(id);
    chunk.resumes.push_back({id, job->meta.seq});
  }
}

bool Preempting::settle_limits(PlannerView& view, const JobSpec& spec, const Way& way,
                               const std::vector<Victim>& candidates, const Tres& tres, VictimChoice& choice) const {
  Admission& admission = view.admission();
  if (!admission.bounded())
    return true;
  QuotaTree quotas = admission.ledger().quotas();
  const Partition& partition = *view.partitions()[way.partition];
  const PreemptRight right(admission.directory(), spec, partition, &quotas, tres);
  std::vector<const Job*> gone;
  const auto victim_of = [&](JobId id) -> const Victim* {
    const auto at = std::lower_bound(candidates.begin(), candidates.end(), id,
                                     [](const Victim& v, JobId wanted) { return v.job->id < wanted; });
    return at == candidates.end() || at->job->id != id ? nullptr : &*at;
  };
  const auto remove = [&](const Victim& victim) {
    if (!right.against(*victim.job, partition_of(view, victim.job->allocation->partition)))
      return false;
    if (victim.keeps_memory)
      return true;
    quotas.add(victim.job->spec->account, victim.job->allocation->tres, -1);
    admission.index(victim.job, nullptr);
    gone.push_back(victim.job);
    return true;
  };
  bool fine = true;
  for (const JobId id : choice.victims) fine = fine && remove(*victim_of(id));
  if (fine && view.bar(spec, way, &choice.grants)) {
    fine = false;
    std::vector<const Victim*> more;
    if (right.for_quota())
      for (const Victim& victim : candidates)
        if (!victim.keeps_memory && victim.job->spec->account != spec.account &&
            std::find(choice.victims.begin(), choice.victims.end(), victim.job->id) == choice.victims.end())
          more.push_back(&victim);
    std::stable_sort(more.begin(), more.end(), [](const Victim* a, const Victim* b) { return a->loss < b->loss; });
    for (const Victim* victim : more) {
      if (!remove(*victim))
        continue;
      choice.victims.push_back(victim->job->id);
      choice.loss += victim->loss;
      if ((fine = !view.bar(spec, way, &choice.grants)))
        break;
    }
  }
  for (const Job* job : gone) admission.index(nullptr, job);
  return fine;
}

void Preempting::search(PlannerView& view, const Shadows& shadows, Instant now,
                        const std::function<bool(std::uint32_t shape)>& blocked, PlanChunk& chunk) {
  exempt_until_ = kNever;
  const Directory& directory = view.admission().directory();
  if (running_.empty() || !preemption_is_on(directory))
    return;
  const bool for_quota = directory.policy().preempt_for_quota && view.admission().bounded();
  const QuotaTree* quotas = for_quota ? &view.admission().ledger().quotas() : nullptr;
  // Whom jobs of a QOS and partition may preempt, asked once for all shapes that share them.
  std::map<Kind, std::vector<const Kind*>> known;
  const auto kinds_for = [&](const JobSpec& spec, const Partition& partition) -> const std::vector<const Kind*>& {
    const auto [it, fresh] = known.try_emplace({std::string(spec.qos), partition.meta.name});
    if (!fresh)
      return it->second;
    const PreemptRight right(directory, spec, partition, nullptr, {});
    for (const auto& [kind, jobs] : running_)
      if (for_quota || (right.any() && right.outranks(kind.first, partition_of(view, kind.second))))
        it->second.push_back(&kind);
    return it->second;
  };
  struct Try {
    OrderKey key;
    std::uint32_t shape;
    bool operator<(const Try& o) const { return key < o.key; }
  };
  std::vector<Try> tries;
  for (std::uint32_t i = 0; i < view.briefs().size(); ++i) {
    const ShapeBrief& brief = view.briefs()[i];
    if (brief.jobs == 0 || brief.kind == ShapeBrief::Kind::kNever || brief.partition == kNoPartition || !blocked(i))
      continue;
    const Shape& shape = view.shapes()[i];
    const std::vector<Way>& ways = view.ways(i);
    if (std::none_of(ways.begin(), ways.end(), [&](const Way& way) {
          return way.open && !kinds_for(*shape.spec, *view.partitions()[way.partition]).empty();
        }))
      continue;
    shape.jobs.each_after(OrderKey{}, true, [&](SlotNo s) {
      if (view.skipped(view.slot(s)))
        return true;
      tries.push_back({view.slot(s).key, i});
      return false;
    });
  }
  if (tries.size() > kTriesMost) {
    std::nth_element(tries.begin(), tries.begin() + kTriesMost, tries.end());
    tries.resize(kTriesMost);
  }
  std::sort(tries.begin(), tries.end());

  std::vector<const Job*> going;
  for (const auto& [id, job] : going_) going.push_back(job.get());
  for (const Try& next : tries) {
    const SlotNo s = view.find(next.key.job);
    const JobSlot& slot = view.slot(s);
    const Ref<JobSpec> spec = slot.job->spec;
    const std::vector<Way> ways = view.ways(next.shape);
    const Tres tres = for_quota ? least_tres(*spec) : Tres{};
    for (const Way& whole : ways) {
      if (!whole.open || !whole.possible)
        continue;
      const Partition& partition = *view.partitions()[whole.partition];
      const PreemptRight right(directory, *spec, partition, quotas, tres);
      if (!right.any() || (!right.for_quota() && view.bar(*spec, whole)))
        continue;
      std::vector<Victim> candidates;
      Duration grace;
      for (const Kind* kind : kinds_for(*spec, partition)) {
        const Partition* where = partition_of(view, kind->second);
        for (const auto& [id, job] : running_.at(*kind)) {
          if (victims_.contains(id))
            continue;
          const auto terms = right.against(*job, where);
          if (!terms)
            continue;
          if (terms->from > now) {
            exempt_until_ = std::min(exempt_until_, terms->from);
            continue;
          }
          grace = std::max(grace, terms->grace);
          candidates.push_back(
              {job.get(), loss_of(directory, *job, terms->mode, now), terms->mode == PreemptMode::kSuspend});
        }
      }
      if (candidates.empty())
        continue;
      std::sort(candidates.begin(), candidates.end(),
                [](const Victim& a, const Victim& b) { return a.job->id < b.job->id; });
      // A head that starts as soon without it need not preempt anybody.
      const Shadow* shadow = shadows.of_job(next.key.job);
      if (shadow && !shadow->overdue() && shadow->at <= now + grace)
        continue;
      const std::optional<Way> narrowed = view.open_way(*spec, whole, now);
      const Way& way = narrowed ? *narrowed : whole;
      const Instant end = way.limit >= kForever ? kNever : now + way.limit;
      const Avoid avoid = shadows.avoid_for(next.key, end, end);
      auto choice = choose_victims(view, *spec, way, candidates, going, shadows, avoid);
      if (choice && !settle_limits(view, *spec, way, candidates, tres, *choice))
        choice.reset();
      if (auto parts = in_parts(directory, way, view, candidates, now); !parts.empty()) {
        auto less = choose_victims(view, *spec, way, parts, going, shadows, avoid);
        const std::size_t whole_ones = less ? less->victims.size() : 0;
        if (less && (!choice || less->loss < choice->loss) &&
            settle_limits(view, *spec, way, candidates, tres, *less) && less->victims.size() == whole_ones)
          choice = std::move(less);
      }
      if (!choice || (choice->victims.empty() && choice->shrinks.empty()))
        continue;
      PlannedStart place{.job = slot.job->id,
                         .is_element = slot.job->array != nullptr,
                         .read = slot.job->meta.seq,
                         .partition = partition.meta.name,
                         .grants = choice->grants};
      if (place.is_element)
        place.array_index = view.next_element(slot);
      chunk.preemptions.push_back({.job = place.job,
                                   .read = place.read,
                                   .partition = place.partition,
                                   .grants = std::move(choice->grants),
                                   .victims = choice->victims,
                                   .shrinks = choice->shrinks});
      for (const PlannedShrink& part : choice->shrinks) victims_.insert(part.job);
      for (const JobId victim : choice->victims) {
        victims_.insert(victim);
        going.push_back(running_.at(kinds_.at(victim)).at(victim).get());
      }
      view.propose(place, end);
      break;
    }
  }
}

void Preempting::defragment(PlannerView& view, const Shadows& shadows, Instant now, Duration after, PlanChunk& chunk) {
  const Directory& directory = view.admission().directory();
  std::vector<const Job*> going;
  for (const auto& [id, job] : going_) going.push_back(job.get());
  const std::int64_t free = devices_free(view, going);
  for (const Shadow& head : shadows.all()) {
    const SlotNo s = view.find(head.key.job);
    if (s == kNoSlot || !view.slot(s).queued || view.skipped(view.slot(s)) || head.overdue())
      continue;
    const JobSlot& slot = view.slot(s);
    const Partition& partition = *view.partitions()[head.partition];
    std::vector<Victim> movable;
    Duration grace;
    for (const auto& [kind, jobs] : running_) {
      if (kind.second != partition.meta.name)
        continue;
      for (const auto& [id, job] : jobs) {
        const auto terms = move_terms(directory, *job, &partition, after);
        if (terms && terms->from > now) {
          exempt_until_ = std::min(exempt_until_, terms->from);
        } else if (terms) {
          grace = std::max(grace, terms->grace);
          movable.push_back({job.get(), move_loss(*job, now)});
        }
      }
    }
    std::int64_t devices = 0;
    for (const Grant& grant : head.grants) devices += grant.devices.count();
    if (devices > free)
      continue;  // moving makes nothing free in all
    const std::int64_t spared_ms = std::min(head.at - now - grace, kWaitMost).us / 1000;
    if (movable.empty() || spared_ms <= 0)
      continue;
    std::sort(movable.begin(), movable.end(), [](const Victim& a, const Victim& b) { return a.job->id < b.job->id; });
    const std::vector<Way>& ways = view.ways(slot.shape);
    const auto whole =
        std::find_if(ways.begin(), ways.end(), [&](const Way& w) { return w.open && w.partition == head.partition; });
    if (whole == ways.end())
      continue;
    const JobSpec spec = view.asked_of(slot);
    const std::optional<Way> narrowed = view.open_way(spec, *whole, now);
    const Way way = narrowed ? *narrowed : *whole;
    const std::int64_t gain = spared_ms * size_milli(head.grants) / kWholeDevice;
    auto moves = find_moves(view, spec, way, movable, going, shadows, head.key, gain);
    if (!moves)
      continue;
    PlannedStart place{.job = slot.job->id,
                       .is_element = slot.job->array != nullptr,
                       .read = slot.job->meta.seq,
                       .partition = partition.meta.name,
                       .grants = moves->grants};
    if (place.is_element)
      place.array_index = view.next_element(slot);
    PlannedPreemption planned{.job = place.job,
                              .read = place.read,
                              .partition = place.partition,
                              .grants = moves->grants,
                              .victims = {},
                              .shrinks = {}};
    for (Moves::One& one : moves->moved) {
      planned.victims.push_back(one.job);
      chunk.promises.push_back(
          {one.job,
           {.at = now + grace, .partition = partition.meta.name, .grants = std::move(one.grants), .held = true}});
    }
    chunk.preemptions.push_back(std::move(planned));
    view.propose(place, way.limit >= kForever ? kNever : now + way.limit);
    return;
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
