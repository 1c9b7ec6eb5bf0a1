// Whether a request could ever be met, in words that say what is lacking; and whether a finished proposal meets it.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "model/bounds.h"
#include "model/spec.h"
#include "rules/fit.h"
#include "rules/growth.h"
#include "rules/need.h"
#include "rules/tres.h"

namespace lockstep {

namespace {

std::string group_field(std::size_t g, std::string_view rest) { return format("groups[{}].{}", g, rest); }

Error impossible(std::string message, std::string field) {
  return {Errc::kImpossible, std::move(message), std::move(field)};
}

std::string largest_words(const Node& node) {
  std::map<std::string, std::uint32_t> devices;
  for (const Device& device : node.devices)
    if (device.healthy)
      ++devices[device.kind == "gpu" ? device.type + " GPUs" : device.type + " " + device.kind];
  std::string words = format("{} has {} cores, {} MB of memory", node.meta.name, node.cores, node.memory_mb);
  for (const auto& [name, count] : devices) words += format(", {} {}", count, name);
  return words;
}

// The tasks would have room if they asked for no devices.
bool devices_are_missing(const GroupSpec& group, const std::vector<const Node*>& nodes) {
  GroupSpec bare = group;
  bare.per_task.devices.clear();
  bare.per_node.devices.clear();
  bare.per_job.clear();
  const NodeLoad empty;
  std::uint64_t room = 0;
  for (const Node* node : nodes) room += tasks_that_fit(*node, empty, bare);
  return room >= group.tasks.min && (devices_per_job(group) > 0 || !group.per_task.devices.empty());
}

// Why no empty node can run even one task of the group.
Error nothing_fits(const GroupSpec& group, std::size_t g, const std::vector<const Node*>& nodes) {
  const std::uint32_t tasks = group.tasks_per_node_exact && group.tasks_per_node > 0 ? group.tasks_per_node : 1;
  const Node* most_cores = nodes[0];
  const Node* most_memory = nodes[0];
  const Node* most_devices = nodes[0];
  for (const Node* node : nodes) {
    if (node->cores > most_cores->cores)
      most_cores = node;
    if (node->memory_mb > most_memory->memory_mb)
      most_memory = node;
    if (free_devices(*node, {}).count() > free_devices(*most_devices, {}).count())
      most_devices = node;
  }
  const NodeNeed need = need_on_node(*most_devices, group, tasks, group.per_job.empty() ? 0 : 1);
  for (const DeviceAsk& ask : need.devices) {
    const auto met = [&](const Node* node) {
      return choose_devices(*node, free_devices(*node, {}), {ask}).has_value();
    };
    if (std::none_of(nodes.begin(), nodes.end(), met))
      return impossible(
          format("asks for {} {}{}{} on one node; the largest node, {}", ask.count, ask.type,
                 ask.type.empty() ? "" : " ", ask.kind == "gpu" ? "GPUs" : ask.kind, largest_words(*most_devices)),
          group_field(g, "devices"));
  }
  for (const DeviceAsk& ask : need.parts) {
    const auto met = [&](const Node* node) {
      return choose_parts(*node, free_devices(*node, {}), {}, {ask}).has_value();
    };
    if (std::none_of(nodes.begin(), nodes.end(), met))
      return impossible(format("asks for {} of a device{}{}; no node has {} such together{}",
                               ask.mig.empty() ? format("{} thousandths", ask.milli) : "a " + ask.mig + " slice",
                               ask.type.empty() ? "" : " of type ", ask.type, ask.count,
                               ask.mig.empty() ? "" : ": its GPUs must be in MIG mode and offer the profile"),
                        group_field(g, "devices"));
  }
  for (const Counted& c : need.counted) {
    std::int64_t most = 0;
    for (const Node* node : nodes) most = std::max(most, count_of(node->counted, c.name));
    if (c.count > most)
      return impossible(format("asks for {} {} on one node; the most any node has is {}", c.count, c.name, most),
                        group_field(g, "counted"));
  }
  if (need.cores > most_cores->cores)
    return impossible(
        format("asks for {} cores on one node; the largest node, {}", need.cores, largest_words(*most_cores)),
        group_field(g, "cores"));
  if (need.memory_mb > most_memory->memory_mb)
    return impossible(format("asks for {} MB of memory on one node; the largest node, {}", need.memory_mb,
                             largest_words(*most_memory)),
                      group_field(g, "memory"));
  return impossible("no single node has the cores, memory and devices asked for together; the largest node, " +
                        largest_words(*most_devices),
                    group_field(g, "resources"));
}

// Whether the parts are exactly those asked for.
bool same_parts(const Node& node, std::vector<DevicePart> parts, const std::vector<DeviceAsk>& asks) {
  for (const DeviceAsk& ask : asks)
    for (std::uint32_t n = 0; n < ask.count; ++n) {
      const auto at = std::find_if(parts.begin(), parts.end(), [&](const DevicePart& part) {
        if (part.device >= node.devices.size())
          return false;
        const Device& device = node.devices[part.device];
        const std::int64_t memory_mb = !ask.mig.empty()    ? 0
                                       : ask.memory_mb > 0 ? ask.memory_mb
                                                           : device.memory_mb * ask.milli / kWholeDevice;
        return device.kind == ask.kind && (ask.type.empty() || device.type == ask.type) && part.mig == ask.mig &&
               part.milli == (ask.mig.empty() ? ask.milli : 0) && part.memory_mb == memory_mb;
      });
      if (at == parts.end())
        return false;
      parts.erase(at);
    }
  return parts.empty();
}

// The usual case on a large cluster: the first few nodes the job may use are enough, and more would not change that.
bool a_few_nodes_do(const JobSpec& spec, const Partition& partition, const std::vector<const Node*>& nodes) {
  const GroupSpec& group = spec.groups[0];
  if (spec.groups.size() != 1 || !group.only_nodes.empty() || group.nodes.min != group.nodes.max ||
      group.tasks.max == UINT32_MAX || (partition.nodes_max > 0 && group.nodes.min > partition.nodes_max))
    return false;
  static const NodeLoad kEmpty;
  const std::size_t enough = 2 * std::size_t{group.nodes.min} + 8;
  std::vector<Candidate> candidates;
  const Eligible eligible_here(partition, group);
  for (const Node* node : nodes)
    if (candidates.size() < enough && eligible_here(*node))
      candidates.push_back({node, &kEmpty});
  return candidates.size() >= group.nodes.min && place_group(candidates, group, 0).has_value();
}

}  // namespace

Result<void> check_possible(const JobSpec& spec, const Partition& partition, const std::vector<const Node*>& nodes) {
  if (!spec.groups.empty() && check_constraint(spec.groups[0].constraint).ok() &&
      a_few_nodes_do(spec, partition, nodes))
    return {};
  std::map<NodeId, NodeLoad> loads;  // components of one job share the nodes
  std::unordered_set<std::string_view> names;
  std::map<NodeId, const Node*> by_id;
  for (const Node* node : nodes) {
    names.insert(node->meta.name);
    by_id[node->id] = node;
  }
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    const GroupSpec& group = spec.groups[g];
    TRY(check_constraint(group.constraint));
    std::unordered_set<std::string_view> named;
    for (const std::string& name : group.only_nodes) {
      if (!names.contains(name))
        return Error{Errc::kInvalid, format("Invalid node name specified: {}", name), group_field(g, "only_nodes")};
      if (!named.insert(name).second)
        return Error{Errc::kInvalid, format("node {} is named twice", name), group_field(g, "only_nodes")};
    }
    std::vector<const Node*> fit_in;
    std::vector<Candidate> candidates;
    const Eligible eligible_here(partition, group);
    for (const Node* node : nodes)
      if (eligible_here(*node)) {
        fit_in.push_back(node);
        candidates.push_back({node, &loads[node->id]});
      }
    if (fit_in.empty())
      return impossible(
          group.constraint.empty()
              ? format("partition {} has no node this job may use", partition.meta.name)
              : format("no node of partition {} satisfies the constraint {}", partition.meta.name, group.constraint),
          group_field(g, "constraint"));
    if (partition.nodes_max > 0 && group.nodes.min > partition.nodes_max)
      return impossible(format("asks for {} nodes; partition {} allows {} for one job", group.nodes.min,
                               partition.meta.name, partition.nodes_max),
                        group_field(g, "nodes"));
    if (group.nodes.min > fit_in.size())
      return impossible(format("asks for {} nodes; partition {} has {} that it may use", group.nodes.min,
                               partition.meta.name, fit_in.size()),
                        group_field(g, "nodes"));
    const auto grants = place_group(candidates, group, static_cast<std::uint16_t>(g));
    if (!grants) {
      const NodeLoad empty;
      std::uint64_t room = 0;
      for (const Node* node : fit_in) room += tasks_that_fit(*node, empty, group);
      if (room == 0)
        return nothing_fits(group, g, fit_in);
      const std::uint32_t devices = devices_per_job(group);
      std::uint64_t all_devices = 0;
      for (const Node* node : fit_in) all_devices += free_devices(*node, empty).count();
      if (devices > all_devices)
        return impossible(format("asks for {} devices; partition {} has {}", devices, partition.meta.name, all_devices),
                          group_field(g, "per_job"));
      const bool wants_devices = devices_are_missing(group, fit_in);
      return impossible(
          format("asks for {} task(s) on {} node(s){}; the {} nodes it may use have room for {} when empty{}",
                 group.tasks.min, group.nodes.min == 0 ? std::string("any number of") : format("{}", group.nodes.min),
                 devices > 0 ? format(" with {} devices", devices) : std::string(), fit_in.size(), room,
                 wants_devices ? format(" and {} devices: devices are what is missing", all_devices) : std::string()),
          group_field(g, wants_devices ? "devices" : "tasks"));
    }
    for (const Grant& grant : *grants) {
      TRY(take(loads[grant.node], *by_id.at(grant.node), grant));
    }
  }
  return {};
}

Result<void> check_allocation(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
                              const std::vector<const Node*>& nodes) {
  CHECK(grants.size() == nodes.size());
  std::size_t again = 0;  // further grants of a group on a node that it has
  for (const Grant& grant : grants)
    if (grant.group >= spec.groups.size())
      return conflict("a grant for a group that is not there");
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    const GroupSpec& group = spec.groups[g];
    std::uint64_t tasks = 0, count = 0, named = 0, devices_extra = 0;
    std::map<NodeId, std::uint32_t> seen;
    const bool twice = stacks(group);
    const NameSet wanted(group.only_nodes);
    const Eligible eligible_here(partition, group);
    const bool alike = !counts_its_nodes(group);  // what it needs does not hang on the node
    std::optional<std::pair<std::uint32_t, NodeNeed>> known;
    for (std::size_t i = 0; i < grants.size(); ++i) {
      const Grant& grant = grants[i];
      if (grant.group != g)
        continue;
      const Node& node = *nodes[i];
      const auto [here, first] = seen.try_emplace(grant.node);
      if (!first && !twice)
        return conflict("a node twice in one group");
      again += !first;
      here->second += grant.tasks;
      if (!eligible_here(node))
        return conflict(format("{} may not be used", node.meta.name));
      if (grant.tasks == 0)
        return conflict("a grant without tasks");
      if ((group.tasks_per_node > 0 && here->second > group.tasks_per_node) || here->second > kTasksPerNodeMax)
        return conflict("too many tasks on a node");
      if (!known || !alike || known->first != grant.tasks)
        known.emplace(grant.tasks, need_on_node(node, group, grant.tasks, 0));
      const NodeNeed& need = known->second;
      if (grant.cores.count() < need.cores || grant.memory_mb < need.memory_mb)
        return conflict("a grant is too small");
      if (!choose_devices(node, grant.devices, need.devices))
        return conflict("a grant lacks devices");
      if (!same_parts(node, grant.parts, need.parts))
        return conflict("the parts of devices are not what was asked for");
      if (grant.counted != need.counted)
        return conflict("the counted resources are not what was asked for");
      if (grant.whole_node != need.whole_node)
        return conflict("exclusivity is wrong");
      std::uint32_t asked = 0;
      for (const DeviceAsk& ask : need.devices) asked += ask.count;
      devices_extra += grant.devices.count() - asked;
      tasks += grant.tasks;
      count += first;
      named += first && wanted.has(node.meta.name);
    }
    const bool every_node = group.tasks.max == UINT32_MAX;
    if (count == 0 || count < group.nodes.min || (group.nodes.max > 0 && count > group.nodes.max))
      return conflict(format("group {} got {} nodes", g, count));
    if (tasks < group.tasks.min || (!every_node && tasks > group.tasks.max))
      return conflict(format("group {} got {} tasks", g, tasks));
    if (devices_extra < devices_per_job(group))
      return conflict(format("group {} got too few devices", g));
    const std::uint64_t must = group.nodes.max > 0 ? std::min<std::uint64_t>(group.only_nodes.size(), group.nodes.max)
                                                   : group.only_nodes.size();
    if (named < must)
      return conflict("a node asked for by name is missing");
  }
  if (partition.nodes_max > 0 && grants.size() - again > partition.nodes_max)
    return conflict("more nodes than the partition allows");
  return {};
}

}  // namespace lockstep
