#include "rules/need.h"

#include <algorithm>
#include <map>

namespace lockstep {

namespace {

void add_asks(std::vector<DeviceAsk>& into, const std::vector<DeviceAsk>& asks, std::uint32_t times) {
  for (const DeviceAsk& ask : asks) {
    if (ask.count == 0 || times == 0)
      continue;
    const auto same = std::find_if(into.begin(), into.end(),
                                   [&](const DeviceAsk& a) { return a.kind == ask.kind && a.type == ask.type; });
    if (same != into.end())
      same->count += ask.count * times;
    else
      into.push_back({ask.kind, ask.type, ask.count * times});
  }
}

bool answers(const Device& device, const DeviceAsk& ask) {
  return device.kind == ask.kind && (ask.type.empty() || device.type == ask.type);
}

// Adds `count` of the devices in `usable` to `chosen`, whole islands' worth together where possible.
bool take_devices(const Node& node, const DeviceSet& usable, std::uint32_t count, DeviceSet& chosen) {
  if (usable.count() < count)
    return false;
  std::map<std::int32_t, DeviceSet> islands;
  usable.for_each([&](std::uint32_t i) { islands[node.devices[i].island].set(i); });
  const DeviceSet* best = nullptr;
  for (const auto& [island, members] : islands)
    if (members.count() >= count && (!best || members.count() < best->count()))
      best = &members;
  if (best) {
    chosen = chosen | best->lowest(count);
    return true;
  }
  // No island is large enough: the largest ones first, so that as few as possible are touched.
  std::vector<const DeviceSet*> order;
  for (const auto& [island, members] : islands) order.push_back(&members);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->count() > b->count(); });
  for (const DeviceSet* members : order) {
    const std::uint32_t here = std::min(count, members->count());
    chosen = chosen | members->lowest(here);
    count -= here;
    if (count == 0)
      return true;
  }
  return false;
}

}  // namespace

NodeNeed need_on_node(const Node& node, const GroupSpec& group, std::uint32_t tasks, std::uint32_t devices_extra) {
  NodeNeed need;
  add_asks(need.devices, group.per_node.devices, 1);
  add_asks(need.devices, group.per_task.devices, tasks);
  for (const DeviceAsk& ask : group.per_job) {
    if (devices_extra == 0)
      break;
    const std::uint32_t here = std::min(devices_extra, ask.count);
    add_asks(need.devices, {{ask.kind, ask.type, here}}, 1);
    devices_extra -= here;
  }
  std::stable_sort(need.devices.begin(), need.devices.end(),
                   [](const DeviceAsk& a, const DeviceAsk& b) { return !a.type.empty() && b.type.empty(); });
  std::uint32_t devices = 0;
  for (const DeviceAsk& ask : need.devices) devices += ask.count;

  const std::uint64_t task_cores = group.overcommit ? std::min<std::uint64_t>(tasks, 1) : tasks;
  std::uint64_t cores =
      task_cores * group.per_task.cores + group.per_node.cores + std::uint64_t{group.cores_per_device} * devices;
  cores = std::max<std::uint64_t>({cores, group.contiguous_cores_min, 1});
  need.whole_node = group.sharing == Sharing::kExclusive;
  if (need.whole_node && group.all_cores)
    cores = std::max<std::uint64_t>(cores, node.cores);
  need.cores = static_cast<std::uint32_t>(std::min<std::uint64_t>(cores, UINT32_MAX));

  const std::int64_t per_core = group.memory_per_core_mb * static_cast<std::int64_t>(need.cores);
  need.memory_mb = group.per_task.memory_mb * tasks + group.per_node.memory_mb + per_core +
                   group.memory_per_device_mb * static_cast<std::int64_t>(devices);
  if (group.all_memory)
    need.memory_mb = node.memory_mb;
  return need;
}

std::optional<DeviceSet> choose_devices(const Node& node, const DeviceSet& free, const std::vector<DeviceAsk>& asks) {
  DeviceSet chosen;
  for (const DeviceAsk& ask : asks) {
    DeviceSet usable;
    free.minus(chosen).for_each([&](std::uint32_t i) {
      if (answers(node.devices[i], ask))
        usable.set(i);
    });
    if (!take_devices(node, usable, ask.count, chosen))
      return std::nullopt;
  }
  return chosen;
}

DeviceSet free_devices(const Node& node, const NodeLoad& load) {
  DeviceSet free;
  for (std::uint32_t i = 0; i < node.devices.size(); ++i)
    if (node.devices[i].healthy && !load.devices.test(i))
      free.set(i);
  return free;
}

std::uint32_t devices_per_job(const GroupSpec& group) {
  std::uint32_t count = 0;
  for (const DeviceAsk& ask : group.per_job) count += ask.count;
  return count;
}

}  // namespace lockstep
