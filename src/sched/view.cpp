#include "sched/view.h"

#include <algorithm>

#include "base/check.h"
#include "sched/shape.h"

namespace lockstep {

namespace {

// Capacity counts as free again only when the whole allocation ends, as in the core.
bool waits_in_queue(const Job& job) {
  return job.state == JobState::kPending && job.hold == Hold::kNone && (!job.array || !job.array->waiting.empty());
}

Instant expected_end(const Job& job) {
  if (job.state == JobState::kCompleting)
    return Instant{1};  // any moment
  return job.limit_end ? job.limit_end : kNever;
}

// Whether both are the same to a placement.
bool same_node(const Node& a, const Node& b) {
  return a.meta.name == b.meta.name && a.cores == b.cores && a.memory_mb == b.memory_mb &&
         a.tmp_disk_mb == b.tmp_disk_mb && a.devices == b.devices && a.features == b.features &&
         a.domains == b.domains && a.sockets == b.sockets && a.threads_per_core == b.threads_per_core;
}

}  // namespace

Duration limit_in(const JobSpec& spec, const Partition& partition) {
  if (spec.time_limit.us != 0)
    return spec.time_limit;
  return partition.time_default.us != 0 ? partition.time_default : partition.time_max;
}

void PlannerView::observe(const Change& change) {
  if (const auto* job = std::get_if<Ref<Job>>(&change.record)) {
    put_job(*job, change.removed);
  } else if (const auto* node = std::get_if<Ref<Node>>(&change.record)) {
    put_node(*node, change.removed);
  } else if (const auto* partition = std::get_if<Ref<Partition>>(&change.record)) {
    if (change.removed)
      partitions_.erase((*partition)->meta.name);
    else
      partitions_[(*partition)->meta.name] = *partition;
    ++generation;
    ++partition_generation;
    freed = true;
    reorder();
  }
}

NodeSlot& PlannerView::node_slot(NodeId node) {
  if (node.value >= nodes_.size())
    nodes_.resize(node.value + 1);
  return nodes_[node.value];
}

void PlannerView::put_node(const Ref<Node>& node, bool removed) {
  NodeSlot& slot = node_slot(node->id);
  const bool same = !removed && slot.node && slot.version != 0 && node_usable(*node) && same_node(*slot.node, *node);
  slot.node = removed ? nullptr : node;
  relist(node->id);
  if (same)
    return;
  ++generation;
  slot.version = !removed && node_usable(*node) ? generation : 0;
  freed = loaded = true;
}

void PlannerView::relist(NodeId id) {
  NodeSlot& slot = nodes_[id.value];
  if (slot.listed) {
    free_.erase({slot.weight, slot.free_devices, slot.free_cores, id});
    free_devices_ -= slot.free_devices;
  }
  slot.listed = false;
  if (!slot.node || !node_usable(*slot.node) || slot.load.whole_holders > 0)
    return;
  const std::uint32_t taken = slot.load.cores.count();
  if (taken >= slot.node->cores)
    return;
  slot.free_cores = slot.node->cores - taken;
  const std::uint32_t devices = slot.load.devices.count();
  const auto all = static_cast<std::uint32_t>(slot.node->devices.size());
  slot.free_devices = devices < all ? all - devices : 0;
  slot.weight = slot.node->weight;
  slot.listed = true;
  free_.insert({slot.weight, slot.free_devices, slot.free_cores, id});
  free_devices_ += slot.free_devices;
}

void PlannerView::hold_all(const std::vector<Grant>& grants) {
  for (const Grant& grant : grants) {
    NodeSlot& slot = node_slot(grant.node);
    slot.holders.push_back(&grant);
    add_grant(slot.load, grant);
    relist(grant.node);
  }
  loaded = true;
}

// A proposal may overlap with what someone else got in the meantime, so the load is summed up anew.
void PlannerView::release_all(const std::vector<Grant>& grants) {
  for (const Grant& grant : grants) {
    NodeSlot& slot = nodes_[grant.node.value];
    std::erase(slot.holders, &grant);
    slot.load = {};
    for (const Grant* holder : slot.holders) add_grant(slot.load, *holder);
    relist(grant.node);
  }
  freed = loaded = true;
}

OrderKey PlannerView::key_of(const Job& job) const {
  std::int64_t tier = 0;
  for (const Partition* partition : partitions_of(*job.spec)) tier = std::max<std::int64_t>(tier, partition->tier);
  return {-tier, UINT64_MAX - job.priority, job.submitted, job.id};
}

std::vector<const Partition*> PlannerView::partitions_of(const JobSpec& spec) const {
  std::vector<const Partition*> out;
  for (const std::string& name : spec.partitions) {
    const auto it = partitions_.find(name);
    if (it != partitions_.end())
      out.push_back(it->second.get());
  }
  if (spec.partitions.empty())
    for (const auto& [name, partition] : partitions_)
      if (partition->is_default) {
        out.push_back(partition.get());
        break;
      }
  return out;
}

const std::vector<bool>& PlannerView::members(const std::string& partition) {
  auto& [made, bits] = members_[partition];
  if (made != generation) {
    made = generation;
    bits.assign(nodes_.size(), false);
    const auto it = partitions_.find(partition);
    if (it != partitions_.end()) {
      std::set<std::string_view> names(it->second->nodes.begin(), it->second->nodes.end());
      const bool all = names.contains("ALL");
      for (const NodeSlot& slot : nodes_)
        if (slot.node && (all || names.contains(slot.node->meta.name)))
          bits[slot.node->id.value] = true;
    }
  }
  return bits;
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
    shapes_.emplace_back();
  } else {
    index = free_shapes_.back();
    free_shapes_.pop_back();
  }
  shapes_[index] = Shape{.spec = spec, .hash = hash};
  shape_index_.emplace(hash, index);
  return index;
}

void PlannerView::enqueue(JobSlot& slot) {
  slot.key = key_of(*slot.job);
  slot.shape = shape_of(slot.job->spec);
  slot.queued = true;
  shapes_[slot.shape].jobs.insert(slot.key);
}

void PlannerView::dequeue(JobSlot& slot) {
  if (!slot.queued)
    return;
  slot.queued = false;
  Shape& shape = shapes_[slot.shape];
  shape.jobs.erase(slot.key);
  if (shape.jobs.empty()) {
    const auto [begin, end] = shape_index_.equal_range(shape.hash);
    for (auto it = begin; it != end; ++it)
      if (it->second == slot.shape) {
        shape_index_.erase(it);
        break;
      }
    free_shapes_.push_back(slot.shape);
    shape = {};
  }
  slot.shape = kNoShape;
}

void PlannerView::put_job(const Ref<Job>& job, bool removed) {
  const bool holds = !removed && holds_allocation(job->state);
  if (holds || removed || is_final(job->state))
    forget_proposal({job->id});
  if (job->array_job)
    forget_proposal({job->array_job, true, job->array_index});

  const auto it = jobs_.find(job->id);
  Ref<Job> before = it == jobs_.end() ? nullptr : it->second.job;
  const bool held = before && holds_allocation(before->state);
  const bool same_grants = held && holds && before->allocation == job->allocation;
  if (before) {
    JobSlot& slot = it->second;
    // A change of what it asks for, or of when, gives everyone behind it another look.
    if (slot.queued && !waits_in_queue(*job))
      freed = true;
    dequeue(slot);
    later_.erase({before->begin_after, job->id});
    if (held) {
      ends_.erase({slot.end, job->id});
      if (!same_grants)
        release_all(before->allocation->grants);
    }
  }
  if (removed || (is_final(job->state) && !job->array)) {
    if (before) {
      if (it->second.told != Wait::kNone)
        withdrawn.push_back({.job = job->id});
      jobs_.erase(it);
    }
    return;
  }
  JobSlot& slot = jobs_[job->id];
  const bool changed_ask = !before || before->spec != job->spec || before->priority != job->priority ||
                           before->hold != job->hold || before->state != job->state;
  slot.job = job;
  slot.refused = false;
  if (job->array) {
    slot.unplanned = job->array->waiting;
    for (auto p = proposals_.lower_bound({job->id, true, 0}); p != proposals_.end() && p->first.job == job->id; ++p)
      slot.unplanned.erase(p->first.index);
  }
  if (holds) {
    if (!same_grants)
      hold_all(job->allocation->grants);
    slot.end = expected_end(*job);
    ends_.insert({slot.end, job->id});
    if (same_grants && slot.end != expected_end(*before))
      loaded = true;
  }
  // An element that stopped running gives its array room for another one.
  if (before && before->array && job->array && job->array->running < before->array->running)
    freed = true;
  if (before && before->array && job->array && job->array->throttle != before->array->throttle)
    freed = true;
  if (!waits_in_queue(*job)) {
    if (slot.told != Wait::kNone)
      withdrawn.push_back({.job = job->id});
    slot.told = Wait::kNone;
    slot.told_detail.clear();
    slot.told_start = {};
    return;
  }
  if (job->begin_after > now_) {
    later_.insert({job->begin_after, job->id});
    return;
  }
  if (before && before->spec != job->spec)
    freed = true;
  if (proposals_.contains({job->id}))
    return;  // its answer is on the way
  enqueue(slot);
  if (changed_ask)
    fresh.push_back(job->id);
}

void PlannerView::advance(Instant now) {
  now_ = std::max(now_, now);
  while (!later_.empty() && later_.begin()->first <= now_) {
    const JobId id = later_.begin()->second;
    later_.erase(later_.begin());
    enqueue(jobs_.at(id));
    fresh.push_back(id);
  }
}

void PlannerView::reorder() {
  for (auto& [id, slot] : jobs_) {
    if (!slot.queued)
      continue;
    dequeue(slot);
    enqueue(slot);
  }
}

void PlannerView::clear_refused() {
  for (auto& [id, slot] : jobs_) slot.refused = false;
}

JobSlot* PlannerView::slot(JobId id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

bool PlannerView::throttled(const JobSlot& slot) {
  const JobSlot* array = slot.job->array ? &slot : slot.job->array_job ? this->slot(slot.job->array_job) : nullptr;
  if (!array || !array->job->array)
    return false;
  const ArrayState& state = *array->job->array;
  return state.throttle != 0 && state.running + array->proposed >= state.throttle;
}

std::vector<PlannerView::Release> PlannerView::releases() const {
  std::vector<Release> out;
  out.reserve(ends_.size() + proposals_.size());
  for (const auto& [end, id] : ends_) out.push_back({end, &jobs_.at(id).job->allocation->grants});
  for (const auto& [key, proposal] : proposals_) out.push_back({proposal.end, &proposal.grants});
  std::stable_sort(out.begin(), out.end(), [](const Release& a, const Release& b) { return a.at < b.at; });
  return out;
}

void PlannerView::propose(const PlannedStart& start, Instant end) {
  JobSlot& slot = jobs_.at(start.job);
  const JobId array = slot.job->array ? start.job : slot.job->array_job;
  Proposal& proposal = proposals_[{start.job, start.is_element, start.array_index}];
  CHECK(proposal.grants.empty());
  proposal = {start.grants, end, array};
  hold_all(proposal.grants);
  if (JobSlot* of = array ? this->slot(array) : nullptr)
    ++of->proposed;
  if (start.is_element)
    slot.unplanned.erase(start.array_index);
  if (!start.is_element || slot.unplanned.empty())
    dequeue(slot);
}

void PlannerView::forget_proposal(const ProposalKey& key) {
  const auto it = proposals_.find(key);
  if (it == proposals_.end())
    return;
  if (JobSlot* of = it->second.array ? slot(it->second.array) : nullptr)
    --of->proposed;
  const bool was_freed = freed;
  release_all(it->second.grants);
  freed = was_freed;  // the change that ends a proposal takes the same resources, or was refused and is told apart
  proposals_.erase(it);
}

bool PlannerView::drop_proposals() {
  if (proposals_.empty())
    return false;
  while (!proposals_.empty()) {
    const ProposalKey key = proposals_.begin()->first;
    forget_proposal(key);
    JobSlot* of = slot(key.job);
    if (!of)
      continue;
    of->refused = true;
    if (of->job->array)
      of->unplanned = of->job->array->waiting;
    if (!of->queued && waits_in_queue(*of->job) && of->job->begin_after <= now_)
      enqueue(*of);
  }
  freed = true;
  return true;
}

}  // namespace lockstep
