#include "sched/preempting.h"

#include <algorithm>

#include "rules/preempt.h"
#include "sched/place.h"
#include "sched/victims.h"

namespace lockstep {

namespace {

constexpr std::size_t kTriesMost = 64;  // blocked shapes for which victims are looked for, in one pass

bool has_hold(const Job& job) { return job.promise && job.promise->held; }

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

}  // namespace

void Preempting::observe(const Change& change) {
  if (directory_.apply_directory(change))
    return;
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
  held_.erase(id);
  if (change.removed)
    return;
  if (job->state == JobState::kPending && has_hold(*job))
    held_.insert(id);
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
  } else if (!(lives && job->eviction->mode == PreemptMode::kSuspend)) {
    going_[id] = job;
  }
}

void Preempting::serve(PlannerView& view, Shadows& shadows, Instant now, PlanChunk& chunk) {
  for (const JobId id : held_) {
    const SlotNo s = view.find(id);
    if (s == kNoSlot || view.proposed(id))
      continue;
    JobSlot& slot = view.slot(s);
    const Promise& promise = *slot.job->promise;
    if (slot.refused) {
      chunk.promises.push_back({id, {}});
      continue;
    }
    if (slot.told == Wait::kNone) {
      slot.told = Wait::kResources;
      PlanNote note{.job = id, .wait = Wait::kResources, .detail = {}, .expected_start = promise.at};
      for (const Grant& grant : promise.grants) note.expected_nodes.push_back(grant.node);
      chunk.notes.push_back(std::move(note));
    }
    if (view.skipped(slot))
      continue;
    const auto start = [&](std::vector<Grant> grants, const std::string& partition, Instant end) {
      PlannedStart planned{.job = id, .read = slot.job->meta.seq, .partition = partition, .grants = std::move(grants)};
      view.propose(planned, end);
      shadows.started(view, planned.grants, end);
      chunk.starts.push_back(std::move(planned));
    };
    Shape shape(KeyOfSlot{});
    shape.spec = slot.job->spec;
    view.compile(shape);
    bool found = false;
    for (const Way& way : shape.ways) {
      if (!way.open || view.partitions()[way.partition]->meta.name != promise.partition)
        continue;
      found = true;
      if (free_for(promise.grants, promise.grants, view.nodes()))
        start(promise.grants, promise.partition, way.limit >= kForever ? kNever : now + way.limit);
    }
    if (!found) {
      chunk.promises.push_back({id, {}});
      continue;
    }
    for (const Way& way : shape.ways) {
      if (!way.open || view.proposed(id))
        continue;
      const Instant end = way.limit >= kForever ? kNever : now + way.limit;
      const Avoid avoid = shadows.avoid_for(view.key_of(*slot.job), end);
      if (!may_fit(view, way, shadows, avoid))
        continue;
      if (auto grants = place_now(view, *slot.job->spec, way, shadows, avoid))
        start(std::move(*grants), view.partitions()[way.partition]->meta.name, end);
    }
  }
  if (view.touch_clock() != stuck_clock_)
    stuck_.clear();
  for (const auto& [id, job] : suspended_) {
    if (stuck_.contains(id) || resumed_.contains(id))
      continue;
    const bool shaded = std::any_of(job->allocation->grants.begin(), job->allocation->grants.end(),
                                    [&](const Grant& g) { return view.nodes()[g.node.value].shaded; });
    if (shaded || !free_for(job->allocation->grants, view.held_grants(*job), view.nodes()))
      continue;
    resumed_.insert(id);
    chunk.resumes.push_back({id, job->meta.seq});
  }
}

void Preempting::search(PlannerView& view, const Shadows& shadows, Instant now,
                        const std::function<bool(std::uint32_t shape)>& blocked, PlanChunk& chunk) {
  exempt_until_ = kNever;
  if (running_.empty() || !preemption_is_on(directory_))
    return;
  const auto partition_named = [&](const std::string& name) -> const Partition* {
    for (const Ref<Partition>& p : view.partitions())
      if (p->meta.name == name)
        return p.get();
    return nullptr;
  };
  // What a job of a QOS and partition may preempt, asked once for all shapes that share them.
  const auto kinds_for = [&](const JobSpec& spec, const Partition& partition) {
    const PreemptRight right(directory_, spec, partition, nullptr, {});
    std::vector<const Kind*> out;
    if (!right.any())
      return out;
    for (const auto& [kind, jobs] : running_)
      if (right.outranks(kind.first, partition_named(kind.second)))
        out.push_back(&kind);
    return out;
  };
  std::map<Kind, std::vector<const Kind*>> known;
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
    bool any = false;
    for (const Way& way : shape.ways) {
      const Partition& partition = *view.partitions()[way.partition];
      const auto [it, fresh] = known.try_emplace({std::string(shape.spec->qos), partition.meta.name});
      if (fresh)
        it->second = kinds_for(*shape.spec, partition);
      any = any || (way.open && !it->second.empty());
    }
    if (!any)
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
    const Shape& shape = view.shapes()[next.shape];
    const SlotNo s = view.find(next.key.job);
    JobSlot& slot = view.slot(s);
    const Ref<JobSpec> spec = slot.job->spec;
    for (const Way& way : shape.ways) {
      if (!way.open || !way.possible)
        continue;
      const Partition& partition = *view.partitions()[way.partition];
      const PreemptRight right(directory_, *spec, partition, nullptr, {});
      std::vector<Victim> candidates;
      Duration grace;
      for (const Kind* kind : known.at({std::string(spec->qos), partition.meta.name})) {
        const Partition* where = partition_named(kind->second);
        for (const auto& [id, job] : running_.at(*kind)) {
          const auto terms = right.against(*job, where);
          if (!terms || victims_.contains(id))
            continue;
          if (terms->from > now) {
            exempt_until_ = std::min(exempt_until_, terms->from);
            continue;
          }
          grace = std::max(grace, terms->grace);
          candidates.push_back(
              {job.get(), loss_of(directory_, *job, terms->mode, now), terms->mode == PreemptMode::kSuspend});
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
      const Instant end = way.limit >= kForever ? kNever : now + way.limit;
      auto choice = choose_victims(view, *spec, way, candidates, going, shadows, shadows.avoid_for(next.key, end));
      if (!choice || choice->victims.empty())
        continue;
      PlannedPreemption planned{.job = slot.job->id,
                                .read = slot.job->meta.seq,
                                .partition = partition.meta.name,
                                .grants = choice->grants,
                                .victims = choice->victims};
      PlannedStart place{.job = planned.job,
                         .is_element = slot.job->array != nullptr,
                         .read = planned.read,
                         .partition = planned.partition,
                         .grants = std::move(choice->grants)};
      if (place.is_element)
        place.array_index = view.next_element(slot);
      for (const JobId victim : planned.victims) {
        victims_.insert(victim);
        going.push_back(running_.at(kinds_.at(victim)).at(victim).get());
      }
      view.propose(place, end);
      chunk.preemptions.push_back(std::move(planned));
      break;
    }
  }
}

void Preempting::settled() {
  victims_.clear();
  stuck_.insert(resumed_.begin(), resumed_.end());
  resumed_.clear();
}

Instant Preempting::held_until(const PlannerView& view, JobId job) const {
  const SlotNo s = view.find(job);
  return s != kNoSlot && held_.contains(job) ? view.slot(s).job->promise->at : Instant{};
}

}  // namespace lockstep
