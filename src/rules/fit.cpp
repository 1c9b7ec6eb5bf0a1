#include "rules/fit.h"

#include <algorithm>

#include "base/text.h"
#include "model/bounds.h"
#include "model/spec.h"
#include "model/tables.h"
#include "rules/labels.h"
#include "rules/need.h"

namespace lockstep {

bool has_address_for(const Node& node, const GroupSpec& group) {
  return group.sandbox.network != TaskNetwork::kOwn || !node.task_range.empty();
}

std::uint32_t more_seats_of(const GroupSpec& group, std::uint32_t tasks) {
  return group.sandbox.network == TaskNetwork::kOwn && tasks > 1 ? tasks - 1 : 0;
}

std::uint32_t seats_left(const NodeLoad& load, const GroupSpec& group) {
  if (group.sandbox.network != TaskNetwork::kOwn)
    return UINT32_MAX;
  return kAddressedMax - std::min(kAddressedMax, load.occupants + load.more_seats);
}

namespace {

// Whether the devices of which the grant has parts have room for all of them, and its whole ones are nobody's in part.
Result<void> check_parts(const NodeLoad& load, const Node& node, const Grant& grant) {
  for (const DevicePart& part : load.parts)
    if (grant.devices.test(part.device))
      return conflict(format("a part of device {} of {} is held already", part.device, node.meta.name));
  std::vector<DevicePart> parts = load.parts;
  for (const DevicePart& part : grant.parts) {
    if (load.devices.test(part.device) || grant.devices.test(part.device) || !part_fits(node, part, parts))
      return conflict(format("device {} of {} has no room for the part", part.device, node.meta.name));
    parts.insert(std::upper_bound(parts.begin(), parts.end(), part), part);
  }
  return {};
}

}  // namespace

Result<void> take(NodeLoad& load, const Node& node, const Grant& grant) {
  if (load.cores.intersects(grant.cores))
    return conflict(format("a core of {} is held already", node.meta.name));
  if (load.devices.intersects(grant.devices))
    return conflict(format("a device of {} is held already", node.meta.name));
  TRY(check_parts(load, node, grant));
  if (!counted_fit(node, load.counted, grant.counted))
    return conflict(format("{} has too few of a counted resource", node.meta.name));
  if (!CoreSet::first_n(node.cores).contains(grant.cores))
    return conflict(format("{} has only {} cores", node.meta.name, node.cores));
  if (!DeviceSet::first_n(static_cast<std::uint32_t>(node.devices.size())).contains(grant.devices))
    return conflict(format("{} has only {} devices", node.meta.name, node.devices.size()));
  if (std::int64_t{grant.cores.count()} * 1000 + grant.shared_milli > milli_left(node, load))
    return conflict(format("too much of the cores of {} is held already", node.meta.name));
  if (grant.memory_mb < 0 || load.memory_mb + grant.memory_mb > node.memory_mb)
    return conflict(format("memory of {}: {} MB held, {} MB more asked, {} MB there", node.meta.name, load.memory_mb,
                           grant.memory_mb, node.memory_mb));
  if (load.sole_occupants > 0 || (grant.whole_node && load.occupants > 0))
    return conflict(format("{} is held exclusively", node.meta.name));
  add_grant(load, grant);
  return {};
}

void add_grant(NodeLoad& load, const Grant& grant) {
  load.cores = load.cores | grant.cores;
  load.devices = load.devices | grant.devices;
  for (const DevicePart& part : grant.parts)
    load.parts.insert(std::upper_bound(load.parts.begin(), load.parts.end(), part), part);
  add_counted(load.counted, grant.counted, 1);
  load.shared_milli += grant.shared_milli;
  load.memory_mb += grant.memory_mb;
  load.occupants += occupies(grant);
  load.sole_occupants += grant.whole_node;
  load.more_seats += grant.more_seats;
}

void give_back(NodeLoad& load, const Grant& grant) {
  CHECK(load.cores.contains(grant.cores));
  CHECK(load.devices.contains(grant.devices));
  CHECK(load.memory_mb >= grant.memory_mb);
  CHECK(load.shared_milli >= grant.shared_milli);
  CHECK(load.occupants >= occupies(grant));
  CHECK(!grant.whole_node || load.sole_occupants > 0);
  CHECK(load.more_seats >= grant.more_seats);
  load.cores = load.cores.minus(grant.cores);
  load.devices = load.devices.minus(grant.devices);
  for (const DevicePart& part : grant.parts) {
    const auto at = std::lower_bound(load.parts.begin(), load.parts.end(), part);
    CHECK(at != load.parts.end() && *at == part);
    load.parts.erase(at);
  }
  for (const Counted& c : grant.counted) CHECK(count_of(load.counted, c.name) >= c.count);
  add_counted(load.counted, grant.counted, -1);
  load.shared_milli -= grant.shared_milli;
  load.memory_mb -= grant.memory_mb;
  load.occupants -= occupies(grant);
  load.sole_occupants -= grant.whole_node;
  load.more_seats -= grant.more_seats;
}

namespace {

// Every device that can be taken whole and is not taken apart by the grant itself.
DeviceSet whole_devices(const Node& node, const DeviceSet& free, const std::vector<DevicePart>& parts) {
  DeviceSet out;
  free.for_each([&](std::uint32_t i) {
    if (!node.devices[i].mig)
      out.set(i);
  });
  for (const DevicePart& part : parts) out.clear(part.device);
  return out;
}

}  // namespace

namespace {

// Whether so many tasks of the group have room on the node beside what is there.
class TasksFit {
 public:
  TasksFit(const Node& node, const NodeLoad& load, const GroupSpec& group)
      : node_(node), load_(load), group_(group), free_milli_(milli_left(node, load)), free_(free_devices(node, load)) {}

  std::uint32_t free_cores() const { return free_milli_ / 1000; }
  bool operator()(std::uint32_t tasks) const {
    // A share of per_job devices needs at least one device here.
    const NodeNeed need = need_on_node(node_, group_, tasks, group_.per_job.empty() ? 0 : 1);
    if (need.milli() > free_milli_ || need.memory_mb > memory_left(node_, load_) ||
        !counted_fit(node_, load_.counted, need.counted))
      return false;
    if (need.devices.empty() && need.parts.empty())
      return true;
    const auto whole = choose_devices(node_, free_, need.devices);
    return whole &&
           (need.parts.empty() || choose_parts(node_, free_.minus(*whole), load_.parts, need.parts).has_value());
  }

 private:
  const Node& node_;
  const NodeLoad& load_;
  const GroupSpec& group_;
  const std::uint32_t free_milli_;
  const DeviceSet free_;
};

// No more than this many of the group, whatever else there is room for.
std::uint32_t tasks_at_most(const GroupSpec& group, std::uint32_t free_cores) {
  std::uint32_t most = group.tasks.max;
  if (group.tasks_per_node > 0)
    most = std::min(most, group.tasks_per_node);
  if (!group.overcommit && group.per_task.cores > 0)
    most = std::min(most, std::max(1u, free_cores / group.per_task.cores));
  return most;
}

}  // namespace

std::uint32_t tasks_that_fit(const Node& node, const NodeLoad& load, const GroupSpec& group) {
  if (load.sole_occupants > 0 || (group.sharing == Sharing::kExclusive && load.occupants > 0))
    return 0;
  const TasksFit fits(node, load, group);
  const std::uint32_t most = std::min(tasks_at_most(group, fits.free_cores()), seats_left(load, group));
  if (group.tasks_per_node_exact && group.tasks_per_node > 0)
    return most >= group.tasks_per_node && fits(group.tasks_per_node) ? group.tasks_per_node : 0;
  // Needs grow with the number of tasks, so the largest that fits is found by halving.
  if (most == 0 || !fits(1))
    return 0;
  std::uint32_t low = 1, high = std::min<std::uint32_t>(most, kTasksPerNodeMax);
  while (low < high) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    if (fits(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

std::optional<Grant> choose_grant(const Node& node, const NodeLoad& load, const GroupSpec& group,
                                  std::uint16_t group_index, std::uint32_t tasks, std::uint32_t devices_extra) {
  if (load.sole_occupants > 0 || (group.sharing == Sharing::kExclusive && load.occupants > 0))
    return std::nullopt;
  if (tasks > seats_left(load, group))
    return std::nullopt;
  const NodeNeed need = need_on_node(node, group, tasks, devices_extra);
  const CoreSet free_cores = CoreSet::first_n(node.cores).minus(load.cores);
  if (need.milli() > milli_left(node, load) || need.memory_mb > memory_left(node, load) ||
      !counted_fit(node, load.counted, need.counted))
    return std::nullopt;
  const DeviceSet free = free_devices(node, load);
  const auto devices = choose_devices(node, free, need.devices);
  if (!devices)
    return std::nullopt;
  auto parts = choose_parts(node, free.minus(*devices), load.parts, need.parts);
  if (!parts)
    return std::nullopt;
  DeviceSet near = *devices;
  for (const DevicePart& part : *parts) near.set(part.device);
  Grant grant;
  grant.node = node.id;
  grant.group = group_index;
  grant.tasks = tasks;
  grant.cores = choose_cores(node, free_cores, need.cores, near);
  grant.shared_milli = need.shared_milli;
  grant.memory_mb = need.memory_mb;
  grant.devices = takes_all(group) ? *devices | whole_devices(node, free, *parts) : *devices;
  grant.parts = std::move(*parts);
  grant.counted = need.counted;
  grant.whole_node = need.whole_node;
  grant.more_seats = more_seats_of(group, tasks);
  return grant;
}

namespace {

// A node list longer than the group needs limits the choice to itself.
bool limits_choice(const GroupSpec& group) {
  return !group.only_nodes.empty() && group.nodes.max > 0 && group.nodes.max <= group.only_nodes.size();
}

bool suits(const Node& node, const GroupSpec& group) {
  if (group.tmp_disk_mb > node.tmp_disk_mb || !has_address_for(node, group) || kept_off(group, node) ||
      !node_rules_hold(group, node))
    return false;
  return group.constraint.empty() || constraint_holds(group.constraint, node.features);
}

}  // namespace

bool eligible(const Node& node, const Partition& partition, const GroupSpec& group) {
  const auto names = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), node.meta.name) != list.end();
  };
  if (!partition_has(partition, node))
    return false;
  if (!group.exclude_nodes.empty() && names(group.exclude_nodes))
    return false;
  if (limits_choice(group) && !names(group.only_nodes))
    return false;
  return suits(node, group);
}

Eligible::Eligible(const Partition& partition, const GroupSpec& group)
    : group_(group),
      in_partition_(partition.nodes),
      only_(group.only_nodes),
      excluded_(group.exclude_nodes),
      all_(in_partition_.has("ALL")),
      limited_(limits_choice(group)) {}

bool Eligible::operator()(const Node& node) const {
  const std::string& name = node.meta.name;
  if ((!all_ && !in_partition_.has(name)) || excluded_.has(name) || (limited_ && !only_.has(name)))
    return false;
  return suits(node, group_);
}

}  // namespace lockstep
