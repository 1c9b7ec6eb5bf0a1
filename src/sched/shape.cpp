#include "sched/shape.h"

#include <algorithm>

namespace lockstep {

namespace {

struct Mixer {
  std::size_t value = 0x9e3779b97f4a7c15;
  void add(std::uint64_t part) { value = (value ^ part) * 0xff51afd7ed558ccd + (value >> 29); }
  void add(const std::string& text) { add(std::hash<std::string>{}(text)); }
  void add(const Resources& r) {
    add(r.cores);
    add(static_cast<std::uint64_t>(r.memory_mb));
    for (const DeviceAsk& ask : r.devices) add(ask);
  }
  void add(const DeviceAsk& ask) {
    add(ask.type);
    add(ask.count);
  }
};

bool same_group(const GroupSpec& a, const GroupSpec& b) {
  return a.tasks == b.tasks && a.nodes == b.nodes && a.tasks_per_node == b.tasks_per_node &&
         a.tasks_per_node_exact == b.tasks_per_node_exact && a.per_task == b.per_task && a.per_node == b.per_node &&
         a.per_job == b.per_job && a.memory_per_core_mb == b.memory_per_core_mb &&
         a.memory_per_device_mb == b.memory_per_device_mb && a.cores_per_device == b.cores_per_device &&
         a.all_memory == b.all_memory && a.overcommit == b.overcommit && a.sharing == b.sharing &&
         a.all_cores == b.all_cores && a.constraint == b.constraint && a.only_nodes == b.only_nodes &&
         a.exclude_nodes == b.exclude_nodes && a.contiguous_cores_min == b.contiguous_cores_min &&
         a.tmp_disk_mb == b.tmp_disk_mb && a.topology_level == b.topology_level && a.launch == b.launch &&
         a.endless == b.endless;
}

}  // namespace

std::size_t shape_hash(const JobSpec& spec) {
  Mixer mix;
  for (const std::string& partition : spec.partitions) mix.add(partition);
  mix.add(static_cast<std::uint64_t>(spec.time_limit.us));
  mix.add(spec.user.value);
  mix.add(spec.account);
  for (const GroupSpec& group : spec.groups) {
    mix.add(group.tasks.min);
    mix.add(group.tasks.max);
    mix.add(group.nodes.min);
    mix.add(group.nodes.max);
    mix.add(group.tasks_per_node);
    mix.add(group.per_task);
    mix.add(group.per_node);
    for (const DeviceAsk& ask : group.per_job) mix.add(ask);
    mix.add(group.constraint);
    mix.add(static_cast<std::uint64_t>(group.sharing));
    mix.add(group.cores_per_device);
    for (const std::string& name : group.only_nodes) mix.add(name);
    for (const std::string& name : group.exclude_nodes) mix.add(name);
  }
  return mix.value;
}

bool same_shape(const JobSpec& a, const JobSpec& b) {
  return a.partitions == b.partitions && a.time_limit == b.time_limit && a.time_min == b.time_min && a.user == b.user &&
         a.account == b.account && a.qos == b.qos && a.reservation == b.reservation && a.licenses == b.licenses &&
         std::equal(a.groups.begin(), a.groups.end(), b.groups.begin(), b.groups.end(), same_group);
}

}  // namespace lockstep
