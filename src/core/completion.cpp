#include "core/completion.h"

#include <algorithm>

#include "core/directory.h"

namespace lockstep {

namespace {

bool names_no_memory(const GroupSpec& group) {
  return group.launch != Launch::kTasks && !group.all_memory && group.memory_per_core_mb == 0 &&
         group.memory_per_device_mb == 0 && group.per_task.memory_mb == 0 && group.per_node.memory_mb == 0;
}

std::uint32_t devices_for(const Node& node, const DeviceAsk& ask) {
  return static_cast<std::uint32_t>(std::count_if(node.devices.begin(), node.devices.end(), [&](const Device& d) {
    return d.kind == ask.kind && (ask.type.empty() || d.type == ask.type);
  }));
}

// The fewest nodes of the partition that have all of it; 0: there are not enough, or one will do.
std::uint32_t nodes_with(const Txn& txn, const Partition& partition, const DeviceAsk& ask) {
  std::vector<std::uint32_t> each;
  for (const Node* node : nodes_of(txn.tables(), partition)) {
    const std::uint32_t here = devices_for(*node, ask);
    if (here >= ask.count)
      return 0;
    each.push_back(here);
  }
  std::sort(each.begin(), each.end(), std::greater<>());
  std::uint64_t sum = 0;
  for (std::size_t n = 0; n < each.size(); ++n)
    if ((sum += each[n]) >= ask.count)
      return static_cast<std::uint32_t>(n + 1);
  return 0;
}

bool is_given(const JobSpec& spec, std::string_view option) {
  return std::any_of(spec.options.begin(), spec.options.end(), [&](const auto& o) { return o.first == option; });
}

// --gpus alone says nothing of nodes and tasks. What no node has is spread over as few as can be, a task on each.
std::uint32_t spread(const Txn& txn, const JobSpec& spec, const GroupSpec& group, const Partition& partition) {
  if (group.per_job.empty() || group.launch == Launch::kTasks || group.nodes.max != 0 || group.nodes.min > 1 ||
      group.tasks != CountRange{1, 1} || !group.only_nodes.empty() || is_given(spec, "ntasks"))
    return 0;
  std::uint32_t nodes = 0;
  for (const DeviceAsk& ask : group.per_job) nodes = std::max(nodes, nodes_with(txn, partition, ask));
  return nodes;
}

}  // namespace

Ref<JobSpec> completed(const Txn& txn, const Ref<JobSpec>& spec) {
  const Partition* partition =
      spec->partitions.empty() ? txn.tables().default_partition() : txn.tables().partition(spec->partitions.front());
  if (!partition)
    return spec;
  std::shared_ptr<JobSpec> own;
  const auto group_of = [&](std::size_t g) -> GroupSpec& {
    if (!own)
      own = std::make_shared<JobSpec>(*spec);
    return own->groups[g];
  };
  for (std::size_t g = 0; g < spec->groups.size(); ++g) {
    const GroupSpec& group = std::as_const(*spec).groups[g];
    if (partition->memory_per_core_mb > 0 && names_no_memory(group))
      group_of(g).memory_per_core_mb = partition->memory_per_core_mb;
    if (const std::uint32_t nodes = spread(txn, *spec, group, *partition))
      group_of(g).nodes = group_of(g).tasks = {nodes, nodes};
  }
  return own ? own : spec;
}

}  // namespace lockstep
