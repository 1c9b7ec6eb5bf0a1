#include "rules/need.h"

#include <algorithm>
#include <map>

#include "model/spec.h"
#include "rules/mig.h"
#include "rules/shared_cores.h"

namespace lockstep {

namespace {

// More than any node or job has: sums of a few asks stay within their type.
constexpr std::uint64_t kDevicesMax = 1 << 24;

void add_asks(std::vector<DeviceAsk>& into, const std::vector<DeviceAsk>& asks, std::uint32_t times) {
  for (const DeviceAsk& ask : asks) {
    if (ask.count == 0 || times == 0)
      continue;
    const auto same = std::find_if(into.begin(), into.end(), [&](const DeviceAsk& a) {
      return a.kind == ask.kind && a.type == ask.type && a.milli == ask.milli && a.memory_mb == ask.memory_mb &&
             a.mig == ask.mig;
    });
    const std::uint64_t more = std::uint64_t{ask.count} * times;
    const std::uint64_t before = same != into.end() ? same->count : 0;
    const auto sum = static_cast<std::uint32_t>(std::min<std::uint64_t>(before + more, kDevicesMax));
    if (same != into.end()) {
      same->count = sum;
    } else {
      into.push_back(ask);
      into.back().count = sum;
    }
  }
}

bool answers(const Device& device, const DeviceAsk& ask) {
  return device.kind == ask.kind && (ask.type.empty() || device.type == ask.type);
}

// Devices on one of the NUMA nodes of `near`; all of them if that is not known.
DeviceSet close_to(const Node& node, const DeviceSet& usable, const DeviceSet& near) {
  DeviceSet close;
  usable.for_each([&](std::uint32_t i) {
    near.for_each([&](std::uint32_t j) {
      if (node.devices[i].numa >= 0 && node.devices[i].numa == node.devices[j].numa)
        close.set(i);
    });
  });
  return close;
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

// Shares and slices of devices are found in another way than whole ones.
void set_parts_apart(NodeNeed& need) {
  const auto is_whole = [](const DeviceAsk& ask) { return ask.whole(); };
  if (std::all_of(need.devices.begin(), need.devices.end(), is_whole))
    return;
  const auto part = std::stable_partition(need.devices.begin(), need.devices.end(), is_whole);
  need.parts.assign(std::make_move_iterator(part), std::make_move_iterator(need.devices.end()));
  need.devices.erase(part, need.devices.end());
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
  add_counted(need.counted, group.per_node.counted, 1);
  add_counted(need.counted, group.per_task.counted, tasks);
  if (takes_all(group))
    for (const Counted& there : node.counted)
      if (const std::int64_t more = there.count - count_of(need.counted, there.name); more > 0)
        add_counted(need.counted, {{there.name, more}}, 1);
  if (need.devices.size() > 1)
    std::stable_sort(need.devices.begin(), need.devices.end(),
                     [](const DeviceAsk& a, const DeviceAsk& b) { return !a.type.empty() && b.type.empty(); });
  std::uint32_t devices = 0;
  for (const DeviceAsk& ask : need.devices) devices += ask.count;
  set_parts_apart(need);

  const std::uint64_t task_cores = group.overcommit ? std::min<std::uint64_t>(tasks, 1) : tasks;
  std::uint64_t cores =
      task_cores * group.per_task.cores + group.per_node.cores + std::uint64_t{group.cores_per_device} * devices;
  cores = std::max<std::uint64_t>({cores, group.contiguous_cores_min, shares_cores(group) ? 0u : 1u});
  need.whole_node = group.sharing == Sharing::kExclusive;
  if (takes_all(group))
    cores = std::max<std::uint64_t>(cores, node.cores);
  need.cores = static_cast<std::uint32_t>(std::min<std::uint64_t>(cores, UINT32_MAX));
  need.shared_milli = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      std::uint64_t{group.per_task.shared_milli} * tasks + group.per_node.shared_milli, UINT32_MAX));

  const std::int64_t per_core = group.memory_per_core_mb * static_cast<std::int64_t>(need.cores);
  need.memory_mb = group.per_task.memory_mb * tasks + group.per_node.memory_mb + per_core +
                   group.memory_per_device_mb * static_cast<std::int64_t>(devices);
  if (group.all_memory)
    need.memory_mb = node.memory_mb;
  return need;
}

std::optional<DeviceSet> choose_devices(const Node& node, const DeviceSet& free, const std::vector<DeviceAsk>& asks) {
  DeviceSet chosen;
  for (const bool gpus : {true, false})
    for (const DeviceAsk& ask : asks) {
      if ((ask.kind == "gpu") != gpus || !ask.whole())
        continue;
      DeviceSet usable;
      free.minus(chosen).for_each([&](std::uint32_t i) {
        if (answers(node.devices[i], ask) && !node.devices[i].mig)
          usable.set(i);
      });
      if (!gpus)
        if (const DeviceSet close = close_to(node, usable, chosen); close.count() >= ask.count)
          usable = close;
      if (!take_devices(node, usable, ask.count, chosen))
        return std::nullopt;
    }
  return chosen;
}

bool part_fits(const Node& node, const DevicePart& part, const std::vector<DevicePart>& taken) {
  if (part.device >= node.devices.size())
    return false;
  const Device& device = node.devices[part.device];
  if (device.mig != !part.mig.empty())
    return false;
  std::uint32_t milli = part.milli;
  std::int64_t memory_mb = part.memory_mb;
  std::vector<DevicePart> slices;
  for (const DevicePart& other : taken) {
    if (other.device != part.device)
      continue;
    milli += other.milli;
    memory_mb += other.memory_mb;
    if (device.mig)
      slices.push_back(other);
  }
  return device.mig ? mig_fits(device, part, slices)
                    : part.milli > 0 && milli <= kWholeDevice && memory_mb <= device.memory_mb;
}

namespace {

// How much of the device the parts take.
std::uint32_t weight_of(const Node& node, const std::vector<DevicePart>& parts, std::uint32_t device) {
  std::uint32_t sum = 0;
  for (const DevicePart& part : parts)
    if (part.device == device) {
      const MigProfile* profile = mig_profile(node.devices[device], part.mig);
      sum += part.milli + (profile ? profile->memory * 125u : 0);
    }
  return sum;
}

// Where the profile has room among the slices of the device; -1: nowhere.
int slice_for(const Device& device, const std::string& mig, const std::vector<DevicePart>& parts, std::uint32_t index) {
  const MigProfile* profile = mig_profile(device, mig);
  if (!profile || !device.mig)
    return -1;
  std::vector<DevicePart> slices;
  for (const DevicePart& part : parts)
    if (part.device == index)
      slices.push_back(part);
  return place_mig(device, *profile, slices);
}

// The part asked for on that device, beside the parts that are there; nullopt: it has no room.
std::optional<DevicePart> part_on(const Node& node, std::uint32_t index, const DeviceAsk& ask,
                                  const std::vector<DevicePart>& parts) {
  const Device& device = node.devices[index];
  DevicePart part{.device = static_cast<std::uint16_t>(index), .mig = ask.mig};
  if (ask.mig.empty()) {
    part.milli = ask.milli;
    part.memory_mb = ask.memory_mb > 0 ? ask.memory_mb : device.memory_mb * ask.milli / kWholeDevice;
  } else {
    const int start = slice_for(device, ask.mig, parts, index);
    if (start < 0)
      return std::nullopt;
    part.slice = static_cast<std::uint16_t>(start);
  }
  return part_fits(node, part, parts) ? std::optional(std::move(part)) : std::nullopt;
}

// The part on the fullest device that has room for it, the first of several. Untouched devices are those of `free`.
std::optional<DevicePart> tightest_part(const Node& node, const DeviceSet& free, const DeviceAsk& ask,
                                        const std::vector<DevicePart>& parts) {
  std::optional<DevicePart> best;
  std::uint32_t best_weight = 0;
  for (std::uint32_t i = 0; i < node.devices.size(); ++i) {
    const Device& device = node.devices[i];
    const std::uint32_t taken = weight_of(node, parts, i);
    if (!device.healthy || !answers(device, ask) || (taken == 0 && !free.test(i)) || (best && taken <= best_weight))
      continue;
    if (auto part = part_on(node, i, ask, parts)) {
      best = std::move(part);
      best_weight = taken;
    }
  }
  return best;
}

}  // namespace

std::optional<std::vector<DevicePart>> choose_parts(const Node& node, const DeviceSet& free,
                                                    const std::vector<DevicePart>& taken,
                                                    const std::vector<DeviceAsk>& asks) {
  std::vector<DevicePart> all = taken, chosen;
  for (const DeviceAsk& ask : asks)
    for (std::uint32_t n = 0; n < ask.count; ++n) {
      auto best = tightest_part(node, free, ask, all);
      if (!best)
        return std::nullopt;
      all.push_back(*best);
      chosen.push_back(std::move(*best));
    }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

CoreSet choose_cores(const Node& node, const CoreSet& free, std::uint32_t n, const DeviceSet& near) {
  const std::uint32_t numas = std::max(1u, node.sockets);
  // Core c lies on NUMA node c * numas / cores, so those of one are neighbours.
  const auto first_core = [&](std::uint32_t numa) {
    return static_cast<std::uint32_t>((std::uint64_t{numa} * node.cores + numas - 1) / numas);
  };
  CoreSet close;
  std::int32_t last = -1;
  near.for_each([&](std::uint32_t i) {
    const std::int32_t numa = node.devices[i].numa;
    if (numa < 0 || numa == last || numa >= static_cast<std::int32_t>(numas))
      return;
    last = numa;
    const std::uint32_t end = first_core(static_cast<std::uint32_t>(numa) + 1);
    for (std::uint32_t core = first_core(static_cast<std::uint32_t>(numa)); core < end; ++core) close.set(core);
  });
  close = close & free;
  const std::uint32_t here = std::min(n, close.count());
  if (here == 0)
    return free.lowest(n);
  const CoreSet first = close.lowest(here);
  return here == n ? first : first | free.minus(first).lowest(n - here);
}

DeviceSet free_devices(const Node& node, const NodeLoad& load) {
  DeviceSet free;
  for (std::uint32_t i = 0; i < node.devices.size(); ++i)
    if (node.devices[i].healthy && !load.devices.test(i))
      free.set(i);
  for (const DevicePart& part : load.parts) free.clear(part.device);
  return free;
}

std::int64_t count_of(const std::vector<Counted>& list, std::string_view name) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const Counted& c) { return c.name == name; });
  return at == list.end() ? 0 : at->count;
}

void add_counted(std::vector<Counted>& into, const std::vector<Counted>& more, std::int64_t times) {
  for (const Counted& c : more) {
    auto at = std::lower_bound(into.begin(), into.end(), c.name,
                               [](const Counted& a, const std::string& name) { return a.name < name; });
    if (at == into.end() || at->name != c.name)
      at = into.insert(at, {c.name, 0});
    at->count += c.count * times;
    if (at->count == 0)
      into.erase(at);
  }
}

bool counted_fit(const Node& node, const std::vector<Counted>& taken, const std::vector<Counted>& need) {
  return std::all_of(need.begin(), need.end(), [&](const Counted& c) {
    return c.count >= 0 && count_of(taken, c.name) + c.count <= count_of(node.counted, c.name);
  });
}

bool takes_all(const GroupSpec& group) { return group.sharing == Sharing::kExclusive && group.all_cores; }

std::uint32_t devices_per_job(const GroupSpec& group) {
  std::uint32_t count = 0;
  for (const DeviceAsk& ask : group.per_job) count += ask.count;
  return count;
}

}  // namespace lockstep
