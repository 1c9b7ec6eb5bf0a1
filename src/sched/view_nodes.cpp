// PlannerView: partitions, nodes by class and by what is free on them, and what running jobs give back and when.
#include <algorithm>

#include "base/check.h"
#include "model/job.h"
#include "rules/awaited.h"
#include "rules/need.h"
#include "rules/preempt.h"
#include "sched/mix.h"
#include "sched/view.h"

namespace lockstep {

namespace {

// Whether both are the same to a placement.
bool same_node(const Node& a, const Node& b) {
  return a.meta.name == b.meta.name && a.cores == b.cores && a.memory_mb == b.memory_mb &&
         a.tmp_disk_mb == b.tmp_disk_mb && a.devices == b.devices && a.features == b.features &&
         a.task_range.empty() == b.task_range.empty() && a.domains == b.domains && a.sockets == b.sockets &&
         a.threads_per_core == b.threads_per_core && a.weight == b.weight && a.counted == b.counted &&
         a.labels == b.labels && a.marks == b.marks;
}

bool share_something(const NodeLoad& load, const Grant& grant) {
  return load.cores.intersects(grant.cores) || load.devices.intersects(grant.visible()) ||
         std::any_of(load.parts.begin(), load.parts.end(), [&](const DevicePart& p) {
           return grant.devices.test(p.device) ||
                  std::find(grant.parts.begin(), grant.parts.end(), p) != grant.parts.end();
         });
}

}  // namespace

// Brings the list to the record; returns the one before, null if there was none.
Ref<Partition> PlannerView::put_in_list(const Ref<Partition>& partition, bool removed) {
  const auto at = std::lower_bound(partitions_.begin(), partitions_.end(), partition->meta.name,
                                   [](const auto& p, const std::string& name) { return p->meta.name < name; });
  const Ref<Partition> before = at != partitions_.end() && (*at)->meta.name == partition->meta.name ? *at : nullptr;
  if (removed && before)
    partitions_.erase(at);
  else if (before)
    *at = partition;
  else if (!removed)
    partitions_.insert(at, partition);
  return before;
}

// Everything that shapes and classes know of partitions is worked out anew; nodes change classes only where the nodes
// of the partition are different.
void PlannerView::put_partition(const Ref<Partition>& partition, bool removed) {
  const Ref<Partition> before = put_in_list(partition, removed);
  const bool same_nodes = before && !removed && before->nodes == partition->nodes;
  ++generation;
  ++rules;
  lay_out();
  changed = true;
  admission_.index(before.get(), removed ? nullptr : partition.get());
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
  lay_out();
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
  lay_out();
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
  lay_out();
}

void PlannerView::count_at_domain(const NodeSlot& slot, int by) {
  AlikeNodes& cls = classes_[slot.cls];
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

// The planner takes a node that has not answered yet for one that is up, and holds the whole of it until the moment by
// which it should have answered.
void PlannerView::put_node(const Ref<Node>& record, bool removed) {
  const bool awaited = !removed && node_awaited(*record) && node_expected(*record);
  if (const auto held = awaited_.find(record->id); held != awaited_.end() && !awaited) {
    release_all(held->second.all_of_it);
    awaited_since_.erase(awaited_since_.find(held->second.since));
    awaited_.erase(held);
    changed = true;
  }
  if (!awaited) {
    set_node(record, removed);
    return;
  }
  Node node = *record;
  node.link = NodeLink::kUp;
  set_node(std::make_shared<const Node>(std::move(node)), false);
  const auto [held, fresh] = awaited_.try_emplace(record->id);
  if (!fresh)
    return;
  const Instant since = held->second.since = record->seen_at;
  awaited_since_.insert(since);
  std::vector<Grant>& all = held->second.all_of_it;
  all.push_back({.node = record->id,
                 .cores = CoreSet::first_n(record->cores),
                 .memory_mb = record->memory_mb,
                 .devices = DeviceSet::first_n(static_cast<std::uint32_t>(record->devices.size())),
                 .whole_node = true});
  hold_all(all, since + kAwaitedFor, since, {});
  changed = true;
}

Instant PlannerView::awaits_until() const {
  return awaited_since_.empty() ? kNever : *awaited_since_.begin() + kAwaitedBeforeOthersGo;
}

void PlannerView::name_node(const Node& node, bool removed) {
  if (!removed) {
    node_named_[node.meta.name] = node.id;
    return;
  }
  const auto named = node_named_.find(node.meta.name);
  if (named != node_named_.end() && named->second == node.id)  // and not of one that has the name now
    node_named_.erase(named);
}

// Brings the node's class, its lists and its sums to the record.
void PlannerView::set_node(const Ref<Node>& node, bool removed) {
  NodeSlot& slot = node_slot(node->id);
  if (!removed && slot.node && node_usable(*slot.node) == node_usable(*node) && same_node(*slot.node, *node)) {
    slot.node = node;
    return;
  }
  ++generation;
  changed = true;
  if (removed || !slot.node || !same_node(*slot.node, *node)) {
    cluster_.reset();
    ranked_as_of_ = kNever;  // sizes are parts of a different whole
  }
  touch(node->id);
  if (slot.node)
    leave_class(slot);
  slot.node = removed ? nullptr : node;
  slot.place = place_of_name(node->meta.name);
  name_node(*node, removed);
  slot.version = !removed && node_usable(*node) ? generation : 0;
  if (slot.node)
    classify(slot);
  list_by_domain();
}

const NodeSlot* PlannerView::slot_named(const std::string& name) const {
  const auto node = node_named_.find(name);
  return node != node_named_.end() ? &nodes_[node->second.value] : nullptr;
}

void PlannerView::leave_class(NodeSlot& slot) {
  unlist(slot);
  count_room(slot, -1);
  count_at_domain(slot, -1);
  domains_.remove_node(slot.domain);
  AlikeNodes& cls = classes_[slot.cls];
  --cls.present;
  cls.usable -= node_usable(*slot.node);
  slot.cls = kNoClass;
  slot.free = {};  // to those who may use the class it comes to, all that is free there is new
  slot.kept = {};  // what it was in that class; the next pass sets it anew
}

void PlannerView::classify(NodeSlot& slot) {
  std::vector<PartitionNo> partitions;
  for (PartitionNo p = 0; p < partitions_.size(); ++p)
    if (named_[p].contains("ALL") || named_[p].contains(slot.node->meta.name))
      partitions.push_back(p);
  std::vector<std::string> kept_by = admission_.keepers_of(slot.node->meta.name);
  const auto alike = [&](const AlikeNodes& cls) {
    return cls.partitions == partitions && cls.kept_by == kept_by && belongs(*slot.node, cls);
  };
  ClassNo c = 0;
  while (c < classes_.size() && !alike(classes_[c])) ++c;
  if (c == classes_.size()) {
    const auto twin =
        std::find_if(classes_.begin(), classes_.end(), [&](const AlikeNodes& cls) { return belongs(*slot.node, cls); });
    const ClassNo twin_no = twin == classes_.end() ? kNoClass : static_cast<ClassNo>(twin - classes_.begin());
    classes_.emplace_back(*slot.node, std::move(partitions), std::move(kept_by));
    classes_[c].twin = twin_no;
    lay_out_class(c);
    classes_[c].born = layout;
  }
  AlikeNodes& cls = classes_[c];
  if (slot.node->memory_mb < cls.memory_least_mb || slot.node->tmp_disk_mb < cls.disk_least_mb) {
    cls.memory_least_mb = std::min(cls.memory_least_mb, slot.node->memory_mb);
    cls.disk_least_mb = std::min(cls.disk_least_mb, slot.node->tmp_disk_mb);
    lay_out_class(c);
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
  AlikeNodes& cls = classes_[slot.cls];
  (slot.shaded ? cls.shaded : cls.open).erase(slot.node->id, slot.free, slot.place);
  if (by_domain_)
    cls.in_domain(slot.domain).erase(slot.node->id, slot.free, slot.place);
  if (slot.shaded && slot.kept != FreeAmounts{})
    cls.kept.erase(slot.node->id, slot.kept, slot.place);
}

void PlannerView::list(NodeSlot& slot, NodeId id) {
  const FreeAmounts before = slot.free;
  slot.free = {};
  if (!node_usable(*slot.node))
    return;
  slot.free = free_of(slot, slot.load);
  AlikeNodes& cls = classes_[slot.cls];
  if (slot.load.sole_occupants == 0) {
    slot.listed = true;
    (slot.shaded ? cls.shaded : cls.open).insert(id, slot.free, slot.place);
    if (by_domain_)
      cls.in_domain(slot.domain).insert(id, slot.free, slot.place);
    if (slot.shaded && slot.kept != FreeAmounts{})
      cls.kept.insert(id, slot.kept, slot.place);
  }
  if (!before.covers(slot.free))
    gain(slot);
}

void PlannerView::gain(const NodeSlot& slot) {
  ++gains;
  std::fill_n(classes_[slot.cls].gained.begin(), slot.free.devices + 1, gains);
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

void PlannerView::add_room(ClassNo number, std::uint32_t minute, const Room& room, int by) {
  AlikeNodes& cls = classes_[number];
  const std::uint64_t mark = mix(minute, number);
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
}

// Adds to its class (by 1), or takes from it (by -1), what the node gives now and when its holders leave.
void PlannerView::count_room(NodeSlot& slot, int by) {
  if (!slot.node || slot.cls == kNoClass || !node_usable(*slot.node))
    return;
  const AlikeNodes& cls = classes_[slot.cls];
  const auto add = [&](std::uint32_t minute, const Room& room) { add_room(slot.cls, minute, room, by); };
  if (slot.holders.empty()) {
    add(0, {.nodes = 1});
    return;
  }
  const auto units = [&](const FreeAmounts& free) {
    return Room{.devices = static_cast<std::int32_t>(free.devices),
                .cores = static_cast<std::int32_t>(free.milli / 1000),
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
    touch(grant.node);
    if (slot.node) {
      unlist(slot);
      count_room(slot, -1);
    }
    slot.holders.push_back({&grant, end, since, predicted});
    slot.overlaps = slot.overlaps || share_something(slot.load, grant);
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
    touch(grant.node);
    if (slot.node) {
      unlist(slot);
      count_room(slot, -1);
    }
    std::erase_if(slot.holders, [&](const Holder& h) { return h.grant == &grant; });
    slot.load = {};
    slot.overlaps = false;
    for (const Holder& holder : slot.holders) {
      slot.overlaps = slot.overlaps || share_something(slot.load, *holder.grant);
      add_grant(slot.load, *holder.grant);
    }
    if (slot.node) {
      count_room(slot, 1);
      list(slot, grant.node);
      // What the index of nodes does not know may be all that was given back: counted resources, an address.
      if (node_usable(*slot.node))
        gain(slot);
    }
  }
}

void PlannerView::move_end(const std::vector<Grant>& grants, Instant end) {
  for (const Grant& grant : grants) {
    NodeSlot& slot = nodes_[grant.node.value];
    touch(grant.node);
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

}  // namespace lockstep
