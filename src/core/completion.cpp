#include "core/completion.h"

#include <algorithm>

#include "base/text.h"
#include "core/directory.h"
#include "rules/name_set.h"

namespace lockstep {

namespace {

bool names_no_memory(const GroupSpec& group) {
  return group.launch != Launch::kTasks && !group.all_memory && group.memory_per_core_mb == 0 &&
         group.memory_per_device_mb == 0 && group.per_task.memory_mb == 0 && group.per_node.memory_mb == 0;
}

// How many of the devices an empty node has room for, with the cores and the memory that go with each.
std::uint32_t devices_for(const Node& node, const GroupSpec& group, const DeviceAsk& ask) {
  auto most = static_cast<std::uint64_t>(std::count_if(node.devices.begin(), node.devices.end(), [&](const Device& d) {
    return d.kind == ask.kind && (ask.type.empty() || d.type == ask.type);
  }));
  if (group.cores_per_device > 0)
    most = std::min<std::uint64_t>(most, node.cores / group.cores_per_device);
  if (group.memory_per_device_mb > 0)
    most = std::min(most, static_cast<std::uint64_t>(node.memory_mb / group.memory_per_device_mb));
  return static_cast<std::uint32_t>(most);
}

// The fewest nodes of the partition that have all of it, those named among them; 0: there are not enough, or one will
// do.
std::uint32_t nodes_with(const Txn& txn, const Partition& partition, const GroupSpec& group, const DeviceAsk& ask) {
  const NameSet named(group.only_nodes);
  std::vector<std::pair<bool, std::uint32_t>> each;  // named ones first, then those with most
  for (const Node* node : nodes_of(txn.tables(), partition)) {
    const std::uint32_t here = devices_for(*node, group, ask);
    const bool is_named = named.has(node->meta.name);
    if (here >= ask.count && (is_named ? group.only_nodes.size() == 1 : group.only_nodes.empty()))
      return 0;
    each.emplace_back(is_named, here);
  }
  std::sort(each.begin(), each.end(), std::greater<>());
  std::uint64_t sum = 0;
  for (std::size_t n = 0; n < each.size(); ++n)
    if ((sum += each[n].second) >= ask.count && n + 1 >= group.only_nodes.size())
      return static_cast<std::uint32_t>(n + 1);
  return 0;
}

bool is_given(const JobSpec& spec, std::size_t g, std::string_view option) {
  const std::string name = g == 0 ? std::string(option) : format("het-{}/{}", g, option);
  return std::any_of(spec.options.begin(), spec.options.end(), [&](const auto& o) { return o.first == name; });
}

// --gpus alone says nothing of nodes and tasks. What no node has is spread over as few as can be, a task on each.
std::uint32_t spread(const Txn& txn, const JobSpec& spec, std::size_t g, const Partition& partition) {
  const GroupSpec& group = spec.groups[g];
  const auto named = static_cast<std::uint32_t>(std::max<std::size_t>(1, group.only_nodes.size()));
  if (group.per_job.empty() || group.launch == Launch::kTasks || group.tasks != CountRange{named, named} ||
      group.nodes.min > named || is_given(spec, g, "nodes") || is_given(spec, g, "ntasks"))
    return 0;
  std::uint32_t nodes = 0;
  for (const DeviceAsk& ask : group.per_job) nodes = std::max(nodes, nodes_with(txn, partition, group, ask));
  return nodes > named ? nodes : 0;
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
    if (const std::uint32_t nodes = spread(txn, *spec, g, *partition))
      group_of(g).nodes = group_of(g).tasks = {nodes, nodes};
  }
  return own ? own : spec;
}

}  // namespace lockstep
