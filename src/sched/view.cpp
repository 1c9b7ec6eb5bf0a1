#include "sched/view.h"

#include <algorithm>

#include "base/check.h"
#include "rules/growth.h"
#include "rules/need.h"
#include "rules/preempt.h"
#include "rules/tres.h"

namespace lockstep {

namespace {

constexpr std::ptrdiff_t kLeftClassesMost = 32;  // without a node, before they are made anew
constexpr std::uint64_t kTierMax = (1u << 16) - 1, kPriorityMax = (std::uint64_t{1} << 48) - 1;

const Promise* hold_of(const Job& job) { return job.promise && job.promise->held ? job.promise.get() : nullptr; }

// What something is held for is in no queue any more: it starts there (sched/preempting.h).
bool waits_in_queue(const Job& job) {
  return job.state == JobState::kPending && job.hold == Hold::kNone && !hold_of(job) &&
         (!job.array || !job.array->waiting.empty());
}

// How long what is held for a job is taken away from others: until it would have ended.
Instant hold_end(const Job& job) {
  const Duration limit = job.spec->time_limit;
  return limit.us == 0 || limit >= kForever ? kNever : job.promise->at + limit;
}

// Capacity counts as free again only when the whole allocation ends, as in the core.
Instant expected_end(const Job& job) {
  if (job.state == JobState::kCompleting)
    return Instant{1};  // any moment
  if (job.state == JobState::kSuspended)
    return kNever;
  if (job.eviction)
    return job.eviction->at;
  if (job.limit_end)
    return job.limit_end;
  // Not seen running yet: its time counts from when it was granted.
  return job.allocation->limit >= kForever || !job.allocation->granted
             ? kNever
             : job.allocation->granted + job.allocation->limit;
}

// Whether both are the same to a placement.
bool same_node(const Node& a, const Node& b) {
  return a.meta.name == b.meta.name && a.cores == b.cores && a.memory_mb == b.memory_mb &&
         a.tmp_disk_mb == b.tmp_disk_mb && a.devices == b.devices && a.features == b.features &&
         a.domains == b.domains && a.sockets == b.sockets && a.threads_per_core == b.threads_per_core &&
         a.weight == b.weight && a.counted == b.counted;
}

bool overlap(const NodeLoad& load, const Grant& grant) {
  return load.cores.intersects(grant.cores) || load.devices.intersects(grant.visible()) ||
         std::any_of(load.parts.begin(), load.parts.end(), [&](const DevicePart& p) {
           return grant.devices.test(p.device) ||
                  std::find(grant.parts.begin(), grant.parts.end(), p) != grant.parts.end();
         });
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15 ^ (b + 0x632be59bd9b4e019);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
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
  load.memory_mb -= grant.memory_mb;
  load.holders -= occupies(grant);
  load.whole_holders -= grant.whole_node;
}

PlannerView::PlannerView() = default;

void PlannerView::observe(const Change& change) {
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

// --- what bounds starts beside nodes ---

void PlannerView::note_record(const Change& change) {
  std::vector<std::string> kept;  // nodes whose keepers may be others now
  if (const auto* r = std::get_if<Ref<Reservation>>(&change.record)) {
    kept = (*r)->nodes;
    if (const Reservation* before = admission_.directory().reservation((*r)->meta.name))
      kept.insert(kept.end(), before->nodes.begin(), before->nodes.end());
  }
  const Admission::Effect effect = admission_.observe(change);
  if (effect == Admission::Effect::kNone)
    return;
  begin_ledger();
  changed = true;
  ++bounds;
  ranked_as_of_ = kNever;
  if (std::holds_alternative<Ref<Qos>>(change.record))
    ++layout, ++generation, reorder();  // it may ease the bounds of partitions, and its jobs may be scavengers
  if (effect != Admission::Effect::kReservations)
    return;
  boundary_ = admission_.next_boundary(now_);
  keep_apart(kept);
}

void PlannerView::begin_ledger() {
  if (!admission_.turned_counting())
    return;
  for (const JobSlot& slot : slots_)
    if (slot.job)
      admission_.index(nullptr, slot.job.get());
}

// Classes tell nodes apart by the reservations that keep them.
void PlannerView::keep_apart(const std::vector<std::string>& names) {
  const std::set<std::string, std::less<>> named(names.begin(), names.end());
  const bool all = named.contains("ALL");
  ++layout;
  ++generation;
  for (NodeSlot& slot : nodes_) {
    if (!slot.node || !(all || named.contains(slot.node->meta.name)))
      continue;
    if (classes_[slot.cls].kept_by == admission_.keepers_of(slot.node->meta.name))
      continue;
    leave_class(slot);
    classify(slot);
  }
  const auto left = std::count_if(classes_.begin(), classes_.end(), [](const NodeClass& c) { return c.present == 0; });
  if (left > kLeftClassesMost)
    classify_all();
  for (const NodeSlot& slot : nodes_)
    if (slot.node)
      classes_[slot.cls].example = slot.node->meta.name;
}

std::vector<RunningUse> PlannerView::running_use() const {
  std::vector<RunningUse> out;
  for (const JobSlot& slot : slots_)
    if (slot.job && slot.job->allocation)
      out.push_back({slot.job->spec.get(), slot.job->allocation.get()});
  return out;
}

std::optional<Bar> PlannerView::bar(const JobSpec& spec, const Way& way, const std::vector<Grant>* grants) {
  if (!admission_.bounded())
    return std::nullopt;
  const Partition* partition = partitions_[way.partition].get();
  const std::optional<Partition> eased = eased_for(admission_.directory(), *partition, spec.qos);
  if (eased)
    partition = &*eased;
  StartAsk ask;
  if (grants) {
    std::vector<const Node*> nodes;
    for (const Grant& grant : *grants) nodes.push_back(nodes_[grant.node.value].node.get());
    ask = start_ask(spec, *partition, *grants, nodes, way.limit);
  } else {
    ask = start_ask(spec, *partition, way.limit);
  }
  return admission_.bar(ask, now_, [this] { return running_use(); });
}

std::optional<Way> PlannerView::open_way(const JobSpec& spec, const Way& way, Instant from) const {
  if (!admission_.reserves())
    return std::nullopt;
  const Instant to = from + std::min(way.limit, kForever);
  const auto closed = [&](const ClassNeed& need) {
    const NodeClass& cls = classes_[need.cls];
    return (!cls.kept_by.empty() || !spec.reservation.empty()) && !admission_.open_to(spec, cls.example, from, to);
  };
  const bool any = std::any_of(way.groups.begin(), way.groups.end(), [&](const GroupWay& group) {
    return std::any_of(group.needs.begin(), group.needs.end(), closed);
  });
  if (!any)
    return std::nullopt;
  Way out = way;
  for (GroupWay& group : out.groups) std::erase_if(group.needs, closed);
  return out;
}

bool PlannerView::rank_again(Instant now) {
  const bool weighted = admission_.weighted(most_partition_);
  const Instant as_of = weighted || admission_.bounded() ? admission_.priorities_as_of(now) : Instant{};
  if (as_of == ranked_as_of_)
    return false;
  ranked_as_of_ = as_of;
  changed = changed || as_of;
  if (!weighted && !priorities_)
    return false;
  priorities_ = nullptr;
  if (weighted) {
    Tres cluster;
    for (const NodeSlot& slot : nodes_)
      if (slot.node)
        add(cluster, tres_of_node(*slot.node));
    priorities_ = admission_.priorities(as_of, cluster, most_partition_, [this] { return running_use(); });
  }
  reorder();
  return true;
}

// --- partitions and nodes ---

void PlannerView::put_partition(const Ref<Partition>& partition, bool removed) {
  const auto at = std::lower_bound(partitions_.begin(), partitions_.end(), partition->meta.name,
                                   [](const auto& p, const std::string& name) { return p->meta.name < name; });
  const bool known = at != partitions_.end() && (*at)->meta.name == partition->meta.name;
  const bool same_nodes = known && !removed && (*at)->nodes == partition->nodes;
  ++generation;
  ++layout;
  changed = true;
  if (removed && known)
    partitions_.erase(at);
  else if (known)
    *at = partition;
  else if (!removed)
    partitions_.insert(at, partition);
  most_partition_ = 0;
  for (const auto& p : partitions_) most_partition_ = std::max(most_partition_, p->priority);
  ranked_as_of_ = kNever;
  admission_.partitions_choose(std::any_of(partitions_.begin(), partitions_.end(), [](const auto& p) {
    return !p->allow_accounts.empty() || !p->deny_accounts.empty() || !p->allow_qos.empty() || !p->deny_qos.empty();
  }));
  begin_ledger();
  if (!same_nodes) {
    named_.clear();
    for (const auto& p : partitions_) named_.emplace_back(p->nodes.begin(), p->nodes.end());
    classify_all();
  }
  reorder();
}

void PlannerView::classify_all() {
  for (NodeSlot& slot : nodes_)
    if (slot.node)
      leave_class(slot);
  classes_.clear();
  ++layout;
  for (NodeSlot& slot : nodes_)
    if (slot.node)
      classify(slot);
}

// The paths of nodes come with their own records.
void PlannerView::put_topology(const Ref<Topology>& topology) {
  std::vector<std::string> levels = topology ? topology->levels : std::vector<std::string>();
  if (levels == levels_)
    return;
  levels_ = std::move(levels);
  ++layout;
  ++generation;
  changed = true;
}

// Lists by domain are kept only while some node lies on a switch.
void PlannerView::list_by_domain() {
  if (by_domain_ != domains_.flat())
    return;
  std::vector<NodeId> listed;
  for (NodeSlot& slot : nodes_)
    if (slot.node && slot.listed) {
      listed.push_back(slot.node->id);
      unlist(slot);
    }
  by_domain_ = !domains_.flat();
  for (const NodeId id : listed) list(nodes_[id.value], id);
  ++layout;
}

void PlannerView::count_at_domain(const NodeSlot& slot, int by) {
  NodeClass& cls = classes_[slot.cls];
  if (slot.domain >= cls.present_at.size()) {
    cls.present_at.resize(slot.domain + 1);
    cls.usable_at.resize(slot.domain + 1);
  }
  cls.present_at[slot.domain] += static_cast<std::uint32_t>(by);
  if (node_usable(*slot.node))
    cls.usable_at[slot.domain] += static_cast<std::uint32_t>(by);
}

std::vector<PartitionNo> PlannerView::partitions_of(const JobSpec& spec) const {
  std::vector<PartitionNo> out;
  for (const std::string& name : spec.partitions) {
    const auto at = std::lower_bound(partitions_.begin(), partitions_.end(), name,
                                     [](const auto& p, const std::string& n) { return p->meta.name < n; });
    if (at != partitions_.end() && (*at)->meta.name == name)
      out.push_back(static_cast<PartitionNo>(at - partitions_.begin()));
  }
  if (spec.partitions.empty())
    for (PartitionNo p = 0; p < partitions_.size(); ++p)
      if (partitions_[p]->is_default) {
        out.push_back(p);
        break;
      }
  return out;
}

NodeSlot& PlannerView::node_slot(NodeId node) {
  if (node.value >= nodes_.size()) {
    nodes_.resize(node.value + 1);
    touched_.resize(node.value + 1);
  }
  return nodes_[node.value];
}

void PlannerView::put_node(const Ref<Node>& node, bool removed) {
  NodeSlot& slot = node_slot(node->id);
  if (!removed && slot.node && node_usable(*slot.node) == node_usable(*node) && same_node(*slot.node, *node)) {
    slot.node = node;
    return;
  }
  ++generation;
  changed = true;
  ranked_as_of_ = kNever;  // the whole that sizes are parts of is another
  touched_[node->id.value] = ++touch_clock_;
  if (slot.node)
    leave_class(slot);
  slot.node = removed ? nullptr : node;
  slot.version = !removed && node_usable(*node) ? generation : 0;
  if (slot.node)
    classify(slot);
  list_by_domain();
}

void PlannerView::leave_class(NodeSlot& slot) {
  unlist(slot);
  count_room(slot, -1);
  count_at_domain(slot, -1);
  domains_.remove_node(slot.domain);
  NodeClass& cls = classes_[slot.cls];
  --cls.present;
  cls.usable -= node_usable(*slot.node);
  slot.cls = kNoClass;
}

void PlannerView::classify(NodeSlot& slot) {
  std::vector<PartitionNo> partitions;
  for (PartitionNo p = 0; p < partitions_.size(); ++p)
    if (named_[p].contains("ALL") || named_[p].contains(slot.node->meta.name))
      partitions.push_back(p);
  std::vector<std::string> kept_by = admission_.keepers_of(slot.node->meta.name);
  const auto alike = [&](const NodeClass& cls) {
    return cls.partitions == partitions && cls.kept_by == kept_by && belongs(*slot.node, cls);
  };
  ClassNo c = 0;
  while (c < classes_.size() && !alike(classes_[c])) ++c;
  if (c == classes_.size()) {
    classes_.emplace_back(*slot.node, std::move(partitions), std::move(kept_by));
    ++layout;
  }
  NodeClass& cls = classes_[c];
  if (slot.node->memory_mb < cls.memory_least_mb || slot.node->tmp_disk_mb < cls.disk_least_mb) {
    cls.memory_least_mb = std::min(cls.memory_least_mb, slot.node->memory_mb);
    cls.disk_least_mb = std::min(cls.disk_least_mb, slot.node->tmp_disk_mb);
    ++layout;
  }
  slot.cls = c;
  ++cls.present;
  cls.usable += node_usable(*slot.node);
  slot.domain = domains_.at(slot.node->domains);
  domains_.add_node(slot.domain);
  count_at_domain(slot, 1);
  count_room(slot, 1);
  list(slot, slot.node->id);
}

FreeAmounts PlannerView::free_of(const NodeSlot& slot, const NodeLoad& load) const {
  return free_on(classes_[slot.cls], *slot.node, load);
}

void PlannerView::unlist(NodeSlot& slot) {
  if (!slot.listed)
    return;
  slot.listed = false;
  NodeClass& cls = classes_[slot.cls];
  (slot.shaded ? cls.shaded : cls.open).erase(slot.node->id, slot.free);
  if (by_domain_)
    cls.in_domain(slot.domain).erase(slot.node->id, slot.free);
  if (slot.shaded && slot.kept.cores > 0)
    cls.kept.erase(slot.node->id, slot.kept);
}

void PlannerView::list(NodeSlot& slot, NodeId id) {
  const FreeAmounts before = slot.free;
  slot.free = {};
  if (!node_usable(*slot.node))
    return;
  slot.free = free_of(slot, slot.load);
  NodeClass& cls = classes_[slot.cls];
  if (slot.free.cores > 0) {
    slot.listed = true;
    (slot.shaded ? cls.shaded : cls.open).insert(id, slot.free);
    if (by_domain_)
      cls.in_domain(slot.domain).insert(id, slot.free);
    if (slot.shaded && slot.kept.cores > 0)
      cls.kept.insert(id, slot.kept);
  }
  if (before.covers(slot.free))
    return;
  ++gains;
  std::fill_n(cls.gained.begin(), slot.free.devices + 1, gains);
}

void PlannerView::shade(NodeId id, const NodeLoad& kept) {
  NodeSlot& slot = nodes_[id.value];
  unlist(slot);
  shaded_ += !slot.shaded;
  slot.shaded = true;
  slot.kept = free_of(slot, kept);
  list(slot, id);
}

void PlannerView::unshade(NodeId id) {
  if (id.value >= nodes_.size() || !nodes_[id.value].shaded)
    return;
  NodeSlot& slot = nodes_[id.value];
  --shaded_;
  if (!slot.node) {
    slot.shaded = false;
    return;
  }
  unlist(slot);
  slot.shaded = false;
  list(slot, id);
}

// What the node gives now and when its holders leave, added to (or taken from) its class.
void PlannerView::count_room(NodeSlot& slot, int by) {
  if (!slot.node || slot.cls == kNoClass || !node_usable(*slot.node))
    return;
  NodeClass& cls = classes_[slot.cls];
  const auto add = [&](std::uint32_t minute, const Room& room) {
    const std::uint64_t mark = mix(minute, slot.cls);
    const auto times = [](std::uint64_t m, std::int32_t n) { return m * static_cast<std::uint64_t>(std::int64_t{n}); };
    const std::uint64_t sum = times(mark, room.nodes) + times(mix(mark, 1), room.devices) +
                              times(mix(mark, 2), room.cores) + times(mix(mark, 3), room.memory);
    Room& at = minute == 0 ? cls.now : cls.later[minute];
    if (by > 0)
      at += room, room_sum += sum;
    else
      at -= room, room_sum -= sum;
    if (minute != 0 && at == Room{})
      cls.later.erase(minute);
  };
  if (slot.holders.empty()) {
    add(0, {.nodes = 1});
    return;
  }
  const auto units = [&](const FreeAmounts& free) {
    return Room{.devices = static_cast<std::int32_t>(free.devices),
                .cores = static_cast<std::int32_t>(free.cores),
                .memory = static_cast<std::int32_t>(free.memory_mb / cls.memory_unit_mb)};
  };
  Room part = units(free_of(slot, slot.load));
  add(0, part);
  std::vector<std::pair<Instant, const Grant*>> ends;
  for (const Holder& holder : slot.holders) ends.emplace_back(holder.end, holder.grant);
  std::sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  NodeLoad left = slot.load;
  for (std::size_t i = 0; i < ends.size() && ends[i].first != kNever; ++i) {
    const std::uint32_t minute = std::max(1u, minute_after(ends[i].first));
    remove_grant(left, *ends[i].second);
    if (slot.overlaps) {
      left = {};
      for (std::size_t j = i + 1; j < ends.size(); ++j) add_grant(left, *ends[j].second);
    }
    if (i + 1 < ends.size() && minute == std::max(1u, minute_after(ends[i + 1].first)))
      continue;
    Room then = i + 1 == ends.size() ? Room{.nodes = 1} : units(free_of(slot, left));
    const Room all = then;
    then -= part;
    part = all;
    add(minute, then);
  }
}

void PlannerView::hold_all(const std::vector<Grant>& grants, Instant end, Instant since, Duration predicted) {
  for (const Grant& grant : grants) {
    NodeSlot& slot = node_slot(grant.node);
    touched_[grant.node.value] = ++touch_clock_;
    if (slot.node) {
      unlist(slot);
      count_room(slot, -1);
    }
    slot.holders.push_back({&grant, end, since, predicted});
    slot.overlaps = slot.overlaps || overlap(slot.load, grant);
    add_grant(slot.load, grant);
    if (slot.node) {
      count_room(slot, 1);
      list(slot, grant.node);
    }
  }
}

// A proposal may overlap with what someone else got in the meantime, so the load is summed up anew.
void PlannerView::release_all(const std::vector<Grant>& grants) {
  for (const Grant& grant : grants) {
    NodeSlot& slot = nodes_[grant.node.value];
    touched_[grant.node.value] = ++touch_clock_;
    if (slot.node) {
      unlist(slot);
      count_room(slot, -1);
    }
    std::erase_if(slot.holders, [&](const Holder& h) { return h.grant == &grant; });
    slot.load = {};
    slot.overlaps = false;
    for (const Holder& holder : slot.holders) {
      slot.overlaps = slot.overlaps || overlap(slot.load, *holder.grant);
      add_grant(slot.load, *holder.grant);
    }
    if (slot.node) {
      count_room(slot, 1);
      list(slot, grant.node);
    }
  }
}

void PlannerView::move_end(const std::vector<Grant>& grants, Instant end) {
  for (const Grant& grant : grants) {
    NodeSlot& slot = nodes_[grant.node.value];
    touched_[grant.node.value] = ++touch_clock_;
    count_room(slot, -1);
    for (Holder& holder : slot.holders)
      if (holder.grant == &grant)
        holder.end = end;
    count_room(slot, 1);
  }
}

const std::vector<Grant>& PlannerView::held_grants(const Job& job) const {
  const auto it = paused_.find(job.id);
  return is_paused(job) && it != paused_.end() ? it->second : job.allocation->grants;
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
  shape_index_.emplace(hash, index);
  return index;
}

void PlannerView::compile(Shape& shape) {
  if (shape.compiled == layout)
    return;
  shape.compiled = layout;
  shape.ways.clear();
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
    shape.ways.push_back(std::move(way));
  }
}

std::uint64_t PlannerView::queue_mark(const JobSlot& slot) const {
  return mix(mix(slot.key.band, static_cast<std::uint64_t>(slot.key.rank)), slot.key.job.value) +
         mix(shapes_[slot.shape].hash, slot.key.job.value) * std::min<std::uint64_t>(elements(slot), 1u << 20);
}

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

// Tiers, defaults or priorities may have changed: those whose key is another move.
void PlannerView::reorder() {
  std::vector<SlotNo> moved;
  queue_.each_after(OrderKey{}, true, [&](SlotNo s) {
    if (key_of(*slots_[s].job) != slots_[s].key)
      moved.push_back(s);
    return true;
  });
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
  slots_[s] = {};
  free_slots_.push_back(s);
}

void PlannerView::put_job(const Ref<Job>& job, bool removed) {
  const bool holds = !removed && holds_allocation(job->state);
  const bool was_changed = changed;
  // What was proposed is committed: nothing new to a pass, unless a head waits, whose place may now be a better one.
  bool as_proposed = false;
  if (const auto proposal = proposals_.find({job->id}); proposal != proposals_.end() && holds)
    as_proposed = proposal->second.grants == job->allocation->grants;
  const Promise* hold = removed ? nullptr : hold_of(*job);
  if (holds || removed || hold || is_final(job->state))
    forget_proposal({job->id});
  if (job->array_job)
    forget_proposal({job->array_job, true, job->array_index});

  SlotNo s = find(job->id);
  const Ref<Job> before = s == kNoSlot ? nullptr : slots_[s].job;
  const bool held = before && holds_allocation(before->state);
  const bool same_grants =
      held && holds && before->allocation == job->allocation && is_paused(*before) == is_paused(*job);
  if (held && !(holds && before->allocation == job->allocation))
    forget_growth(job->id);
  const Promise* hold_before = before ? hold_of(*before) : nullptr;
  admission_.index(before.get(), removed ? nullptr : job.get());
  // Its time stands where nothing that a forecast looks at is different.
  const OrderKey old_key = before && slots_[s].queued ? slots_[s].key : OrderKey{};
  const std::uint32_t old_promise = before && slots_[s].queued ? slots_[s].promised_min : 0;
  if (before) {
    dequeue(s);
    later_.erase({before->begin_after, job->id});
    if (held && !same_grants) {
      release_all(held_grants(*before));
      paused_.erase(job->id);
      changed = true;
    }
    if (hold_before && hold_before != hold) {
      release_all(hold_before->grants);
      changed = true;
    }
  }
  if (removed || (is_final(job->state) && !job->array)) {
    if (before) {
      if (slots_[s].told != Wait::kNone)
        withdrawn.push_back({.job = job->id});
      free_slot(s);
    }
    return;
  }
  if (s == kNoSlot)
    s = new_slot(job->id);
  JobSlot& slot = slots_[s];
  slot.job = job;
  slot.array = job->array != nullptr;
  slot.element = bool{job->array_job};
  slot.refused = false;
  refused_.erase(job->id);
  if (job->array) {
    IntervalSet& unplanned = arrays_[job->id].unplanned;
    unplanned = job->array->waiting;
    for (auto p = proposals_.lower_bound({job->id, true, 0}); p != proposals_.end() && p->first.job == job->id; ++p)
      unplanned.erase(p->first.index);
    changed = true;
  }
  if (holds) {
    const Instant end = expected_end(*job);
    if (!same_grants) {
      if (is_paused(*job)) {
        std::vector<Grant>& kept = paused_[job->id];
        for (const Grant& grant : job->allocation->grants)
          kept.push_back({.node = grant.node, .group = grant.group, .memory_mb = grant.memory_mb});
      }
      hold_all(held_grants(*job), end, job->allocation->granted, job->predicted);
      changed = true;
    } else if (end != slot.end) {
      move_end(held_grants(*job), end);
      changed = true;
    }
    slot.end = end;
    if (as_proposed && shaded_ == 0 && !admission_.counts())
      changed = was_changed;
  }
  if (hold && hold != hold_before) {
    hold_all(hold->grants, hold_end(*job), now_, {});
    changed = true;
  }
  if (!waits_in_queue(*job)) {
    if (slot.told != Wait::kNone)
      withdrawn.push_back({.job = job->id});
    slot.told = Wait::kNone;
    slot.told_min = 0;
    slot.head = false;
    return;
  }
  if (job->begin_after > now_)
    later_.insert({job->begin_after, job->id});
  else if (!proposals_.contains({job->id}))  // else its answer is on the way
    enqueue(s, !before);
  if (slots_[s].queued && slots_[s].key == old_key)
    slots_[s].promised_min = old_promise;
}

void PlannerView::advance(Instant now) {
  now_ = std::max(now_, now);
  if (now_ >= boundary_) {
    boundary_ = admission_.next_boundary(now_);
    ++gains;
    for (NodeClass& cls : classes_) std::fill(cls.gained.begin(), cls.gained.end(), gains);
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
  proposals_.erase(it);
  changed = true;
}

void PlannerView::propose(const PlannedGrowth& growth) {
  const bool was_changed = changed;
  const JobSlot& slot = slots_[find(growth.job)];
  Growth& proposal = growths_[growth.job];
  CHECK(proposal.grants.empty());
  proposal.grants = growth.grants;
  if (admission_.bounded()) {
    const Allocation& allocation = *slot.job->allocation;
    const auto partition = std::find_if(partitions_.begin(), partitions_.end(),
                                        [&](const auto& p) { return p->meta.name == allocation.partition; });
    std::vector<Grant> all = grants_held(allocation.grants);
    all.insert(all.end(), growth.grants.begin(), growth.grants.end());
    std::vector<const Node*> nodes;
    for (const Grant& grant : all) nodes.push_back(nodes_[grant.node.value].node.get());
    Proposal& before = proposal.before;
    before.spec = slot.job->spec;
    before.partition = allocation.partition;
    before.tres = allocation.tres;
    before.now = allocation.granted;
    before.limit_end = slot.job->limit_end;
    proposal.after = before;
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
