#include "sched/node_class.h"

#include <algorithm>
#include <bit>

namespace lockstep {

namespace {

constexpr std::int64_t kMemoryUnits = 4096;  // of a node, about: a hundred thousand nodes still fit in 32 bits

std::int64_t step_of(std::int64_t amount) {
  if (amount < 64)
    return amount;
  const int shift = std::bit_width(static_cast<std::uint64_t>(amount)) - 6;
  return amount >> shift << shift;
}

// The most that falls into the same step.
std::int64_t step_above(std::int64_t amount) {
  if (amount < 64)
    return amount;
  const int shift = std::bit_width(static_cast<std::uint64_t>(amount)) - 6;
  return step_of(amount) + (std::int64_t{1} << shift) - 1;
}

bool same_device(const Device& a, const Device& b) {
  return a.kind == b.kind && a.type == b.type && a.island == b.island && a.numa == b.numa && a.healthy == b.healthy &&
         a.mig == b.mig && a.memory_mb == b.memory_mb;
}

}  // namespace

AlikeNodes::AlikeNodes(Node of, std::vector<PartitionNo> in, std::vector<std::string> by)
    : like(std::move(of)), partitions(std::move(in)), kept_by(std::move(by)), example(like.meta.name) {
  like.meta = {};
  for (std::uint32_t i = 0; i < like.devices.size(); ++i) {
    if (like.devices[i].healthy && !like.devices[i].mig)
      healthy.set(i);
    one_device_type =
        one_device_type && like.devices[i].kind == like.devices[0].kind && like.devices[i].type == like.devices[0].type;
  }
  std::map<std::int32_t, DeviceSet> by_island;
  healthy.for_each([&](std::uint32_t i) { by_island[like.devices[i].island].set(i); });
  for (const auto& [number, members] : by_island)
    if (members.count() > 1)
      islands.push_back(members);
  memory_least_mb = like.memory_mb;
  disk_least_mb = like.tmp_disk_mb;
  like.memory_mb = step_above(like.memory_mb);
  like.tmp_disk_mb = step_above(like.tmp_disk_mb);
  memory_unit_mb = std::max<std::int64_t>(1, like.memory_mb / kMemoryUnits);
  whole = {healthy.count(), like.cores * 1000, like.memory_mb};
  open = shaded = kept = NodeIndex(whole);
  gained.assign(whole.devices + 1, 0);
}

// As rules/need.cpp chooses: the island that is left with the least.
bool breaks_island(const AlikeNodes& cls, const NodeLoad& load, std::uint32_t devices) {
  DeviceSet held = load.devices;
  for (const DevicePart& part : load.parts) held.set(part.device);
  std::uint32_t tightest = UINT32_MAX;
  bool whole = false;
  for (const DeviceSet& island : cls.islands) {
    const std::uint32_t free = island.minus(held).count();
    if (free < devices || free >= tightest)
      continue;
    tightest = free;
    whole = free == island.count();
  }
  return whole && tightest > devices;
}

NodeIndex& AlikeNodes::in_domain(std::uint32_t domain) {
  if (domain >= at_domain.size())
    at_domain.resize(domain + 1, NodeIndex(whole));
  return at_domain[domain];
}

FreeAmounts free_on(const AlikeNodes& cls, const Node& node, const NodeLoad& load) {
  if (load.sole_occupants > 0)
    return {};
  DeviceSet free = cls.healthy.minus(load.devices);
  for (const DevicePart& part : load.parts) free.clear(part.device);
  return {free.count(), milli_left(node, load), memory_left(node, load)};
}

bool belongs(const Node& node, const AlikeNodes& to) {
  const Node& like = to.like;
  return node.cores == like.cores && node.sockets == like.sockets && node.threads_per_core == like.threads_per_core &&
         node.weight == like.weight && node.counted == like.counted && node.marks == like.marks &&
         step_of(node.memory_mb) == step_of(like.memory_mb) && step_of(node.tmp_disk_mb) == step_of(like.tmp_disk_mb) &&
         node.features == like.features && node.task_range.empty() == like.task_range.empty() &&
         std::equal(node.devices.begin(), node.devices.end(), like.devices.begin(), like.devices.end(), same_device);
}

}  // namespace lockstep
