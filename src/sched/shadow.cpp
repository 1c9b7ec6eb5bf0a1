#include "sched/shadow.h"

#include <algorithm>
#include <iterator>

#include "rules/need.h"

namespace lockstep {

namespace {

void merge(NodeLoad& into, const NodeLoad& other) {
  into.cores = into.cores | other.cores;
  into.devices = into.devices | other.devices;
  if (!other.parts.empty()) {
    std::vector<DevicePart> parts;
    std::set_union(into.parts.begin(), into.parts.end(), other.parts.begin(), other.parts.end(),
                   std::back_inserter(parts));
    into.parts = std::move(parts);
  }
  // What is whole at one time and in parts at another has nothing left to share.
  std::erase_if(into.parts, [&](const DevicePart& part) { return into.devices.test(part.device); });
  for (const Counted& c : other.counted)
    if (const std::int64_t more = c.count - count_of(into.counted, c.name); more > 0)
      add_counted(into.counted, {{c.name, more}}, 1);
  into.shared_milli = std::max(into.shared_milli, other.shared_milli);
  into.memory_mb = std::max(into.memory_mb, other.memory_mb);
  into.occupants = std::max(into.occupants, other.occupants);
  into.sole_occupants = std::max(into.sole_occupants, other.sole_occupants);
  into.more_seats = std::max(into.more_seats, other.more_seats);
}

}  // namespace

void Shadows::clear(PlannerView& view) {
  for (const auto& [node, parts] : parts_) view.unshade(node);
  parts_.clear();
  shadows_.clear();
}

void Shadows::add(PlannerView& view, Shadow shadow) {
  const auto number = static_cast<std::uint32_t>(shadows_.size());
  shadows_.push_back(std::move(shadow));
  const std::vector<Grant>& grants = shadows_.back().grants;
  for (std::uint32_t g = 0; g < grants.size(); ++g) {
    parts_[grants[g].node].push_back({number, g});
    shade(view, grants[g].node);
  }
}

void Shadows::shade(PlannerView& view, NodeId node) {
  NodeLoad kept = view.nodes()[node.value].load;
  for (const Part& part : parts_.at(node)) merge(kept, shadows_[part.shadow].loads[part.grant]);
  view.shade(node, kept);
}

const Shadow* Shadows::of(PartitionNo partition) const {
  const auto it =
      std::find_if(shadows_.begin(), shadows_.end(), [&](const Shadow& s) { return s.partition == partition; });
  return it == shadows_.end() ? nullptr : &*it;
}

const Shadow* Shadows::of_job(JobId job) const {
  const auto it = std::find_if(shadows_.begin(), shadows_.end(), [&](const Shadow& s) { return s.key.job == job; });
  return it == shadows_.end() ? nullptr : &*it;
}

Instant Shadows::after_suspended(const Shadow& head) const {
  Instant at = head.at;
  for (const Grant& grant : head.grants)
    if (const auto it = parts_.find(grant.node); it != parts_.end())
      for (const Part& part : it->second)
        if (shadows_[part.shadow].key < head.key)
          at = std::max(at, shadows_[part.shadow].over);
  return at;
}

std::vector<NodeId> Shadows::nodes_of_suspended(const OrderKey& key) const {
  std::vector<NodeId> out;
  for (const Shadow& shadow : shadows_)
    if (shadow.over && shadow.key < key)
      for (const Grant& grant : shadow.grants) out.push_back(grant.node);
  return out;
}

Avoid Shadows::avoid_for(const OrderKey& key, Instant limit_end, Instant probable_end) const {
  Avoid out(shadows_.size());
  for (std::size_t i = 0; i < shadows_.size(); ++i) {
    const Instant end = shadows_[i].binds() ? limit_end : probable_end;
    out[i] = shadows_[i].key < key && (end > shadows_[i].at || limit_end == kNever);
  }
  return out;
}

Avoid Shadows::avoid_for_resume(const OrderKey& key) const {
  Avoid out = avoid_for(key, kNever, kNever);
  for (std::size_t i = 0; i < shadows_.size(); ++i) out[i] = out[i] && shadows_[i].at < kNever;
  return out;
}

NodeLoad Shadows::seen(NodeId node, const NodeLoad& now, const Avoid& avoid) const {
  NodeLoad load = now;
  const auto it = parts_.find(node);
  if (it != parts_.end())
    for (const Part& part : it->second)
      if (avoid[part.shadow])
        merge(load, shadows_[part.shadow].loads[part.grant]);
  return load;
}

void Shadows::started(PlannerView& view, const std::vector<Grant>& grants, Instant end) {
  for (const Grant& grant : grants) {
    const auto it = parts_.find(grant.node);
    if (it == parts_.end())
      continue;
    for (const Part& part : it->second)
      if (Shadow& shadow = shadows_[part.shadow]; end > shadow.at || end == kNever)
        add_grant(shadow.loads[part.grant], grant);
    shade(view, grant.node);
  }
}

}  // namespace lockstep
