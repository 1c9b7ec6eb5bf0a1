#include "sched/view.h"

#include <algorithm>

#include "base/check.h"
#include "model/job.h"
#include "rules/growth.h"
#include "rules/need.h"
#include "rules/preempt.h"
#include "rules/tres.h"
#include "sched/mix.h"

namespace lockstep {

namespace {

constexpr std::size_t kClassesLaidMost = 256;  // then shapes are compiled anew

constexpr std::uint64_t kTierMax = (1u << 16) - 1, kPriorityMax = (std::uint64_t{1} << 48) - 1;

const Promise* kept_place_of(const Job& job) { return job.promise && job.promise->held ? job.promise.get() : nullptr; }

// A job that a place is kept for is in no queue any more: it starts there (sched/preempting.h).
bool waits_in_queue(const Job& job) {
  return job.state == JobState::kPending && job.hold == Hold::kNone && !kept_place_of(job) &&
         (!job.array || !job.array->waiting.empty());
}

// How long a kept place is taken away from others: until the job would have ended.
Instant kept_place_end(const Job& job) {
  const Duration limit = job.spec->time_limit;
  return limit.us == 0 || limit >= kForever ? kNever : job.promise->at + limit;
}

// Capacity counts as free again only when the whole allocation ends, as in the core.
Instant expected_end(const Job& job) {
  if (job.state == JobState::kCompleting)
    return job.hangs ? kNever : Instant{1};  // any moment
  if (job.state == JobState::kSuspended)
    return all_gave_up(job) || job.hangs ? kNever
                                         : Instant{1};  // its cores any moment, as soon as its nodes confirm it
  if (job.eviction && job.eviction->nodes.empty())
    return job.eviction->at;
  if (job.limit_end)
    return job.limit_end;
  // Not seen running yet: its time counts from when it was granted.
  return job.allocation->limit >= kForever || !job.allocation->granted
             ? kNever
             : job.allocation->granted + job.allocation->limit;
}

// Whether the job holds after the change what it held before.
bool keeps_grants(const Job& before, const Job& after) {
  return before.allocation == after.allocation && is_paused(before) == is_paused(after) &&
         (!is_paused(after) || before.members == after.members);
}

}  // namespace

Duration limit_in(const JobSpec& spec, const Partition& partition) {
  if (spec.time_limit.us != 0)
    return spec.time_limit;
  return partition.time_default.us != 0 ? partition.time_default : partition.time_max;
}

std::uint32_t minute_after(Instant at) {
  constexpr std::int64_t kMinute = 60'000'000;
  return at.us <= 0 ? 0 : static_cast<std::uint32_t>(std::min<std::int64_t>((at.us - 1) / kMinute + 1, UINT32_MAX));
}

void remove_grant(NodeLoad& load, const Grant& grant) {
  load.cores = load.cores.minus(grant.cores);
  load.devices = load.devices.minus(grant.devices);
  for (const DevicePart& part : grant.parts)
    if (const auto at = std::find(load.parts.begin(), load.parts.end(), part); at != load.parts.end())
      load.parts.erase(at);
  add_counted(load.counted, grant.counted, -1);
  load.shared_milli -= grant.shared_milli;
  load.memory_mb -= grant.memory_mb;
  load.occupants -= occupies(grant);
  load.sole_occupants -= grant.whole_node;
  load.more_seats -= grant.more_seats;
}

PlannerView::PlannerView() = default;

void PlannerView::observe(const Change& change) {
  packing_.observe(change);
  if (std::holds_alternative<Ref<Packing>>(change.record)) {
    changed = true;  // what starts next goes by it
    return;
  }
  if (const auto* job = std::get_if<Ref<Job>>(&change.record))
    put_job(*job, change.removed);
  else if (const auto* node = std::get_if<Ref<Node>>(&change.record))
    put_node(*node, change.removed);
  else if (const auto* partition = std::get_if<Ref<Partition>>(&change.record))
    put_partition(*partition, change.removed);
  else if (const auto* topology = std::get_if<Ref<Topology>>(&change.record))
    put_topology(change.removed ? nullptr : *topology);
  else
    note_record(change);
}

// --- the queue ---

OrderKey PlannerView::key_of(const Job& job) const {
  std::uint64_t tier = 0, priority = job.priority;
  const Partition* first = nullptr;
  for (const PartitionNo p : partitions_of(*job.spec)) {
    tier = std::max<std::uint64_t>(tier, partitions_[p]->tier);
    first = first ? first : partitions_[p].get();
  }
  if (priorities_ && first)
    priority = priorities_->priority(*job.spec, first, job.eligible);
  if (const Qos* qos = admission_.directory().qos_named(job.spec->qos); qos && qos->scavenger)
    tier = priority = 0;  // behind everybody
  const std::uint64_t band =
      (kTierMax - std::min(tier, kTierMax)) << 48 | (kPriorityMax - std::min(priority, kPriorityMax));
  return {band, job.turn ? job.turn.us : job.submitted.us, job.id};
}

std::uint32_t PlannerView::shape_of(const Ref<JobSpec>& spec) {
  const std::size_t hash = shape_hash(*spec);
  const auto [begin, end] = shape_index_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (shapes_[it->second].spec == spec || same_shape(*shapes_[it->second].spec, *spec))
      return it->second;
  std::uint32_t index;
  if (free_shapes_.empty()) {
    index = static_cast<std::uint32_t>(shapes_.size());
    shapes_.emplace_back(KeyOfSlot{&slots_});
    briefs_.emplace_back();
  } else {
    index = free_shapes_.back();
    free_shapes_.pop_back();
  }
  shapes_[index].spec = spec;
  shapes_[index].hash = hash;
  briefs_[index].plain = spec->licenses.empty() && spec->reservation.empty();
  briefs_[index].names_nodes = std::any_of(spec->groups.begin(), spec->groups.end(),
                                           [](const Placement& group) { return !group.only_nodes.empty(); });
  shape_index_.emplace(hash, index);
  return index;
}

void PlannerView::lay_out() {
  laid_out_ = ++layout;
  classes_laid_.clear();
}

void PlannerView::lay_out_class(ClassNo c) {
  if (classes_laid_.size() == kClassesLaidMost)
    return lay_out();
  classes_laid_.emplace_back(++layout, c);
}

std::vector<Way>& PlannerView::ways(Shape& shape) {
  if (shape.compiled == layout)
    return shape.compiled_ways;
  if (shape.compiled < laid_out_)
    compile_anew(shape);
  else
    for (const auto& [since, c] : classes_laid_)
      for (Way& way : shape.compiled_ways)
        if (since > shape.compiled)
          look_at_class(*shape.spec, way.partition, c, classes_, way.groups);
  shape.compiled = layout;
  return shape.compiled_ways;
}

bool PlannerView::follow(ShapeBrief& brief) const {
  if (brief.kind != ShapeBrief::Kind::kCounted || brief.layout < laid_out_)
    return false;
  const auto demand_in = [&](ClassNo c) {
    unsigned n = 0;
    while (n < brief.needs && brief.demands[n].pool != c) ++n;
    return n;
  };
  for (const auto& [since, c] : classes_laid_) {
    if (since <= brief.layout)
      continue;
    const AlikeNodes& cls = classes_[c];
    if (cls.twin == kNoClass || demand_in(c) < brief.needs || !same_partition(cls, classes_[cls.twin], brief.partition))
      return false;
    const unsigned twin = demand_in(cls.twin);
    if (twin == brief.needs)
      continue;
    if (brief.needs == ShapeBrief::kNeeds || brief.memory_mb[twin] > cls.memory_least_mb ||
        cls.disk_least_mb < classes_[cls.twin].disk_least_mb)
      return false;
    brief.memory_mb[brief.needs] = brief.memory_mb[twin];
    brief.demands[brief.needs] = brief.demands[twin];
    brief.demands[brief.needs++].pool = c;
  }
  brief.layout = layout;
  return true;
}

void PlannerView::compile_anew(Shape& shape) {
  shape.compiled_ways.clear();
  const JobSpec& spec = *shape.spec;
  for (const PartitionNo p : partitions_of(spec)) {
    const std::optional<Partition> eased = eased_for(admission_.directory(), *partitions_[p], spec.qos);
    const Partition& partition = eased ? *eased : *partitions_[p];
    Way way{.partition = p, .limit = limit_in(spec, partition)};
    if (spec.time_min.us > 0 && spec.time_min <= partition.time_max)
      way.limit = std::min(way.limit, partition.time_max);
    way.open = partition.up && way.limit <= partition.time_max;
    way.groups = groups_on(spec, partition, p, classes_);
    for (std::size_t g = 0; g < way.groups.size(); ++g) {
      way.groups[g].where = domain_ask(spec.groups[g], partition, levels_);
      const DomainAsk& where = way.groups[g].where;
      const bool single = way.groups[g].even && way.groups[g].nodes == 1;
      way.groups[g].bound = where.unknown || (!single && (where.level != 0 || (by_domain_ && where.binds())));
    }
    shape.compiled_ways.push_back(std::move(way));
  }
}

std::uint64_t PlannerView::queue_mark(const JobSlot& slot) const {
  return mix(mix(slot.key.band, static_cast<std::uint64_t>(slot.key.rank)), slot.key.job.value) +
         mix(shapes_[slot.shape].hash, slot.key.job.value) * std::min<std::uint64_t>(elements(slot), 1u << 20);
}

namespace {

// Whether another job's start may let it start.
bool follows_others(const JobSpec& spec) {
  return std::any_of(spec.groups.begin(), spec.groups.end(), [](const GroupSpec& group) {
    return std::any_of(group.neighbours.begin(), group.neighbours.end(), [](const NeighbourTerm& term) {
      return term.weight == 0 && term.wish != NeighbourTerm::Wish::kApart;
    });
  });
}

}  // namespace

void PlannerView::enqueue(SlotNo s, bool came) {
  JobSlot& slot = slots_[s];
  slot.key = key_of(*slot.job);
  const Instant until = switches_end(*slot.job->spec, slot.job->eligible);
  slot.shape = shape_of(until <= now_ ? without_switches(*slot.job->spec) : slot.job->spec);
  if (until > now_ && until != kNever)
    switches_.insert({until, slot.job->id});
  slot.queued = true;
  slot.promised_min = 0;
  shapes_[slot.shape].jobs.insert(s);
  ++briefs_[slot.shape].jobs;
  queue_.insert(s);
  ++queued_;
  following_ += follows_others(*slot.job->spec);
  queue_sum += queue_mark(slot);
  fresh.push_back(slot.job->id);
  if (slot.job->promise && !slot.job->promise->held)
    promised_.insert(slot.job->id);
  (came ? arrived : changed) = true;
}

void PlannerView::dequeue(SlotNo s) {
  JobSlot& slot = slots_[s];
  if (!slot.queued)
    return;
  queue_sum -= queue_mark(slot);
  if (!switches_.empty())
    switches_.erase({switches_end(*slot.job->spec, slot.job->eligible), slot.job->id});
  slot.queued = false;
  promised_.erase(slot.job->id);
  --queued_;
  following_ -= follows_others(*slot.job->spec);
  queue_.erase(s);
  Shape& shape = shapes_[slot.shape];
  shape.jobs.erase(s);
  --briefs_[slot.shape].jobs;
  if (shape.jobs.empty()) {
    const auto [begin, end] = shape_index_.equal_range(shape.hash);
    for (auto it = begin; it != end; ++it)
      if (it->second == slot.shape) {
        shape_index_.erase(it);
        break;
      }
    free_shapes_.push_back(slot.shape);
    shape = Shape(KeyOfSlot{&slots_});
    briefs_[slot.shape] = {};
  }
  slot.shape = kNoShape;
  changed = true;
}

// Tiers, defaults or priorities may have changed: jobs whose key is different now move.
void PlannerView::reorder() {
  std::vector<SlotNo> moved;
  queue_.each_after(OrderKey{}, true, [&](SlotNo s) {
    if (key_of(*slots_[s].job) != slots_[s].key)
      moved.push_back(s);
    return true;
  });
  move_in_order(moved);
}

void PlannerView::move_in_order(const std::vector<SlotNo>& moved) {
  for (const SlotNo s : moved) dequeue(s);
  for (const SlotNo s : moved) enqueue(s);
}

SlotNo PlannerView::new_slot(JobId id) {
  SlotNo s;
  if (free_slots_.empty()) {
    s = static_cast<SlotNo>(slots_.size());
    slots_.emplace_back();
  } else {
    s = free_slots_.back();
    free_slots_.pop_back();
  }
  slot_of_.put(id, s);
  return s;
}

void PlannerView::free_slot(SlotNo s) {
  const JobId id = slots_[s].job->id;
  slot_of_.erase(id);
  arrays_.erase(id);
  refused_.erase(id);
  holding_.erase(id);
  slots_[s] = {};
  free_slots_.push_back(s);
}

// What a new record of a job means for what the job holds, and for what is held for it.
struct PlannerView::JobStep {
  Ref<Job> before;  // null: the job is new
  bool held = false, holds = false;
  bool same_grants = false;  // it holds what it held
  bool as_proposed = false;  // it holds what was proposed
  const Promise* kept_before = nullptr;
  const Promise* kept = nullptr;
  OrderKey key;                    // in the queue, before
  std::uint32_t promised_min = 0;  // likewise
};

// Forgets the proposals that the record answers. True: the job holds what was proposed for it.
bool PlannerView::answer_proposals(const Job& job, bool removed) {
  const bool holds = !removed && holds_allocation(job.state);
  bool as_proposed = false;
  if (const auto proposal = proposals_.find({job.id}); proposal != proposals_.end() && holds)
    as_proposed = proposal->second.grants == job.allocation->grants;
  if (holds || removed || kept_place_of(job) || is_final(job.state))
    forget_proposal({job.id});
  if (job.array_job)
    forget_proposal({job.array_job, true, job.array_index});
  return as_proposed;
}

// Compares the record with the one before, and forgets what was proposed and is settled with it.
PlannerView::JobStep PlannerView::step_to(const Ref<Job>& job, bool removed, SlotNo s) {
  JobStep step;
  step.as_proposed = answer_proposals(*job, removed);
  step.holds = !removed && holds_allocation(job->state);
  step.kept = removed ? nullptr : kept_place_of(*job);
  if (s == kNoSlot)
    return step;
  const JobSlot& slot = slots_[s];
  step.before = slot.job;
  step.held = holds_allocation(slot.job->state);
  step.same_grants = step.held && step.holds && keeps_grants(*slot.job, *job);
  step.kept_before = kept_place_of(*slot.job);
  if (step.held && !(step.holds && slot.job->allocation == job->allocation))
    forget_growth(job->id);
  if (slot.queued) {
    step.key = slot.key;
    step.promised_min = slot.promised_min;
  }
  return step;
}

// The job leaves the queue, and gives back what it does not hold any more.
void PlannerView::take_out(SlotNo s, const JobStep& step) {
  const Job& before = *step.before;
  dequeue(s);
  later_.erase({before.begin_after, before.id});
  if (step.held && !step.same_grants) {
    release_all(held_grants(before));
    neighbours_.drop(before.id);
    paused_.erase(before.id);
    changed = true;
  }
  if (step.kept_before && step.kept_before != step.kept) {
    release_all(step.kept_before->grants);
    changed = true;
  }
}

void PlannerView::put_in_slot(SlotNo s, const Ref<Job>& job) {
  JobSlot& slot = slots_[s];
  slot.job = job;
  if (job->allocation)
    holding_[job->id] = s;
  else
    holding_.erase(job->id);
  slot.array = job->array != nullptr;
  slot.element = bool{job->array_job};
  slot.refused = false;
  refused_.erase(job->id);
  if (!job->array)
    return;
  IntervalSet& unplanned = arrays_[job->id].unplanned;
  unplanned = job->array->waiting;
  for (auto p = proposals_.lower_bound({job->id, true, 0}); p != proposals_.end() && p->first.job == job->id; ++p)
    unplanned.erase(p->first.index);
  changed = true;
}

void PlannerView::hold_allocation(JobSlot& slot, bool same_grants, bool relabelled) {
  const Job& job = *slot.job;
  const Instant end = expected_end(job);
  if (!same_grants) {
    if (is_paused(job)) {
      std::vector<Grant>& kept = paused_[job.id];
      for (std::size_t i = 0; i < job.allocation->grants.size(); ++i) {
        const Grant& grant = job.allocation->grants[i];
        kept.push_back(gave_up(job, i) ? memory_of(grant) : grant);
      }
    }
    hold_all(held_grants(job), end, job.allocation->granted, job.predicted);
    neighbours_.put(job.id, job.spec, job.allocation->grants);
    changed = true;
  } else if (end != slot.end) {
    move_end(held_grants(job), end);
    changed = true;
  }
  if (same_grants && relabelled) {  // others may be let in by that, or kept out
    neighbours_.put(job.id, job.spec, job.allocation->grants);
    ++bounds;
    changed = true;
  }
  slot.end = end;
}

void PlannerView::withdraw_note(JobSlot& slot) {
  if (slot.told != Wait::kNone)
    withdrawn.push_back({.job = slot.job->id});
  slot.told = Wait::kNone;
  slot.told_min = 0;
  slot.head = false;
}

void PlannerView::queue_or_rest(SlotNo s, const JobStep& step) {
  const Job& job = *slots_[s].job;
  if (!waits_in_queue(job))
    return withdraw_note(slots_[s]);
  if (job.begin_after > now_)
    later_.insert({job.begin_after, job.id});
  else if (!proposals_.contains({job.id}))  // else its answer is on the way
    enqueue(s, !step.before);
  // Its time stands where nothing that a forecast looks at is different.
  if (slots_[s].queued && slots_[s].key == step.key)
    slots_[s].promised_min = step.promised_min;
}

// Brings the view to a job's new record: what it holds, what is held for it, and its place in the queue.
void PlannerView::put_job(const Ref<Job>& job, bool removed) {
  const bool was_changed = changed;
  SlotNo s = find(job->id);
  const JobStep step = step_to(job, removed, s);
  admission_.index(step.before.get(), removed ? nullptr : job.get());
  if (step.before)
    take_out(s, step);
  if (removed || (is_final(job->state) && !job->array)) {
    if (step.before) {
      withdraw_note(slots_[s]);
      free_slot(s);
    }
    return;
  }
  if (s == kNoSlot)
    s = new_slot(job->id);
  put_in_slot(s, job);
  if (step.holds) {
    hold_allocation(slots_[s], step.same_grants, step.before && step.before->spec->labels != job->spec->labels);
    // What was proposed is committed: nothing new to a pass, unless a head waits, whose place may now be a better one,
    // or who is let in by others being there.
    if (step.as_proposed && shaded_ == 0 && following_ == 0 && !admission_.counts())
      changed = was_changed;
  }
  if (step.kept && step.kept != step.kept_before) {
    hold_all(step.kept->grants, kept_place_end(*job), now_, {});
    changed = true;
  }
  queue_or_rest(s, step);
}

void PlannerView::advance(Instant now) {
  const bool awaited = awaits_nodes();
  now_ = std::max(now_, now);
  if (awaited && !awaits_nodes())
    changed = true;  // what waited for them goes on
  if (now_ >= boundary_) {
    boundary_ = admission_.next_boundary(now_);
    ++gains;
    for (AlikeNodes& cls : classes_) std::fill(cls.gained.begin(), cls.gained.end(), gains);
    ++bounds;
    changed = true;
  }
  while (!later_.empty() && later_.begin()->first <= now_) {
    const JobId id = later_.begin()->second;
    later_.erase(later_.begin());
    enqueue(find(id));
  }
  // Those that waited long enough for few switches ask for less now.
  while (!switches_.empty() && switches_.begin()->first <= now_) {
    const SlotNo s = find(switches_.begin()->second);
    switches_.erase(switches_.begin());
    dequeue(s);
    enqueue(s);
  }
}

Instant PlannerView::next_release() const {
  Instant at = later_.empty() ? kNever : later_.begin()->first;
  if (awaits_nodes())
    at = std::min(at, awaits_until());
  if (queued_ == 0)
    return at;
  at = std::min(at, boundary_);
  if (!switches_.empty())
    at = std::min(at, switches_.begin()->first);
  if (admission_.bounded() || priorities_)
    at = std::min(
        at, admission_.priorities_as_of(now_) + std::max(seconds(1), admission_.directory().policy().calc_period));
  return at;
}

void PlannerView::clear_refused() {
  for (const JobId id : refused_)
    if (const SlotNo s = find(id); s != kNoSlot)
      slots_[s].refused = false;
  refused_.clear();
  changed = true;
}

bool PlannerView::skipped(const JobSlot& slot) const {
  if (slot.refused)
    return true;
  if (!slot.array && !slot.element)
    return false;
  const JobId id = slot.job->array ? slot.job->id : slot.job->array_job;
  if (!id)
    return false;
  const auto side = arrays_.find(id);
  if (slot.job->array && side->second.unplanned.empty())
    return true;
  const SlotNo of = find(id);
  if (of == kNoSlot || !slots_[of].job->array)
    return false;
  const ArrayState& state = *slots_[of].job->array;
  return state.throttle != 0 && state.running + side->second.proposed >= state.throttle;
}

std::uint32_t PlannerView::next_element(const JobSlot& slot) const {
  return arrays_.at(slot.job->id).unplanned.front();
}

std::uint64_t PlannerView::elements(const JobSlot& slot) const {
  return slot.array ? arrays_.at(slot.job->id).unplanned.size() : 1;
}

// --- proposals ---

void PlannerView::propose(const PlannedStart& start, Instant end) {
  const SlotNo s = find(start.job);
  CHECK(s != kNoSlot);
  const bool was_changed = changed;
  JobSlot& slot = slots_[s];
  const JobId array = slot.job->array ? start.job : slot.job->array_job;
  Proposal& proposal = proposals_[{start.job, start.is_element, start.array_index}];
  CHECK(proposal.grants.empty());
  proposal.grants = start.grants;
  proposal.array = array;
  if (admission_.counts()) {
    const auto way = std::find_if(partitions_.begin(), partitions_.end(),
                                  [&](const auto& p) { return p->meta.name == start.partition; });
    std::vector<const Node*> nodes;
    for (const Grant& grant : start.grants) nodes.push_back(nodes_[grant.node.value].node.get());
    proposal.spec = slot.job->spec;
    proposal.partition = start.partition;
    proposal.tres = tres_of(*proposal.spec, **way, start.grants, nodes);
    proposal.now = now_;
    proposal.limit_end = end;
    admission_.count(proposal.claim(), 1);
  }
  hold_all(proposal.grants, end, now_, slot.job->predicted);
  if (!start.is_element)
    neighbours_.put(start.job, slot.job->spec, proposal.grants);
  if (array && find(array) != kNoSlot)
    ++arrays_[array].proposed;
  if (start.is_element) {
    queue_sum -= queue_mark(slot);
    arrays_[start.job].unplanned.erase(start.array_index);
    queue_sum += queue_mark(slot);
  }
  if (!start.is_element || arrays_[start.job].unplanned.empty())
    dequeue(s);
  changed = was_changed;  // the pass that proposes knows
}

void PlannerView::forget_proposal(const ProposalKey& key) {
  const auto it = proposals_.find(key);
  if (it == proposals_.end())
    return;
  if (const auto side = arrays_.find(it->second.array); side != arrays_.end() && side->second.proposed > 0)
    --side->second.proposed;
  if (it->second.spec)
    admission_.count(it->second.claim(), -1);
  release_all(it->second.grants);
  if (!key.is_element)
    neighbours_.drop(key.job);
  proposals_.erase(it);
  changed = true;
}

void PlannerView::propose(const PlannedGrowth& growth) {
  const bool was_changed = changed;
  const JobSlot& slot = slots_[find(growth.job)];
  Growth& proposal = growths_[growth.job];
  CHECK(proposal.grants.empty());
  proposal.grants = growth.grants;
  if (admission_.counts()) {
    const Allocation& allocation = *slot.job->allocation;
    const auto partition = std::find_if(partitions_.begin(), partitions_.end(),
                                        [&](const auto& p) { return p->meta.name == allocation.partition; });
    std::vector<Grant> all = occupying_grants(allocation.grants);
    all.insert(all.end(), growth.grants.begin(), growth.grants.end());
    std::vector<const Node*> nodes;
    for (const Grant& grant : all) nodes.push_back(nodes_[grant.node.value].node.get());
    Proposal& before = proposal.before;
    before.spec = slot.job->spec;
    before.partition = allocation.partition;
    before.tres = allocation.tres;
    before.now = allocation.granted;
    before.limit_end = slot.job->limit_end;
    before.grants = allocation.grants;
    proposal.after = before;
    proposal.after.grants = all;
    proposal.after.tres = tres_of(*before.spec, **partition, all, nodes);
    admission_.count(before.claim(), -1);
    admission_.count(proposal.after.claim(), 1);
  }
  hold_all(proposal.grants, slot.end, now_, slot.job->predicted);
  changed = was_changed;
}

void PlannerView::forget_growth(JobId id) {
  const auto it = growths_.find(id);
  if (it == growths_.end())
    return;
  if (it->second.before.spec) {
    admission_.count(it->second.after.claim(), -1);
    admission_.count(it->second.before.claim(), 1);
  }
  release_all(it->second.grants);
  growths_.erase(it);
  changed = true;
}

void PlannerView::drop_growths() {
  while (!growths_.empty()) forget_growth(growths_.begin()->first);
}

bool PlannerView::drop_proposals() {
  if (proposals_.empty())
    return false;
  while (!proposals_.empty()) {
    const ProposalKey key = proposals_.begin()->first;
    forget_proposal(key);
    const SlotNo s = find(key.job);
    if (s == kNoSlot)
      continue;
    JobSlot& slot = slots_[s];
    slot.refused = true;
    refused_.insert(key.job);
    if (slot.job->array) {
      if (slot.queued)
        queue_sum -= queue_mark(slot);
      arrays_[key.job].unplanned = slot.job->array->waiting;
      if (slot.queued)
        queue_sum += queue_mark(slot);
    }
    if (!slot.queued && waits_in_queue(*slot.job) && slot.job->begin_after <= now_)
      enqueue(s);
  }
  return true;
}

}  // namespace lockstep
