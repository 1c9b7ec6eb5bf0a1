// Whether a request could ever be met, in words that say what is lacking; and whether a finished proposal meets it.
#include <algorithm>
#include <deque>
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

using Nodes = std::vector<const Node*>;

bool any_node(const Nodes& nodes, auto&& suits) { return std::any_of(nodes.begin(), nodes.end(), suits); }

// The node with most of something, the first of several.
const Node* node_with_most(const Nodes& nodes, auto&& amount_of) {
  return *std::max_element(nodes.begin(), nodes.end(),
                           [&](const Node* a, const Node* b) { return amount_of(*a) < amount_of(*b); });
}

std::string words_for(const DeviceAsk& ask) {
  return format("{}{}{}", ask.type, ask.type.empty() ? "" : " ", ask.kind == "gpu" ? "GPUs" : ask.kind);
}

std::string words_for_part(const DeviceAsk& ask) {
  return format("{} of a device{}{}", ask.mig.empty() ? format("{:g}%", ask.milli / 10.0) : "a " + ask.mig + " slice",
                ask.type.empty() ? "" : " of type ", ask.type);
}

// Why no empty node can run even one task of the group: the first thing of which every node has too little.
Error nothing_fits(const GroupSpec& group, std::size_t g, const Nodes& nodes) {
  const std::uint32_t tasks = group.tasks_per_node_exact && group.tasks_per_node > 0 ? group.tasks_per_node : 1;
  const Node& most_cores = *node_with_most(nodes, [](const Node& n) { return n.cores; });
  const Node& most_memory = *node_with_most(nodes, [](const Node& n) { return n.memory_mb; });
  const Node& most_devices = *node_with_most(nodes, [](const Node& n) { return free_devices(n, {}).count(); });
  const NodeNeed need = need_on_node(most_devices, group, tasks, group.per_job.empty() ? 0 : 1);
  for (const DeviceAsk& ask : need.devices)
    if (!any_node(nodes, [&](const Node* n) { return choose_devices(*n, free_devices(*n, {}), {ask}).has_value(); }))
      return impossible(format("asks for {} {} on one node; the largest node, {}", ask.count, words_for(ask),
                               largest_words(most_devices)),
                        group_field(g, "devices"));
  for (const DeviceAsk& ask : need.parts)
    if (!any_node(nodes, [&](const Node* n) { return choose_parts(*n, free_devices(*n, {}), {}, {ask}).has_value(); }))
      return impossible(format("asks for {}; no node has {} such together{}", words_for_part(ask), ask.count,
                               ask.mig.empty() ? "" : ": its GPUs must be in MIG mode and offer the profile"),
                        group_field(g, "devices"));
  for (const Counted& c : need.counted) {
    std::int64_t most = 0;
    for (const Node* node : nodes) most = std::max(most, count_of(node->counted, c.name));
    if (c.count > most)
      return impossible(format("asks for {} {} on one node; the most any node has is {}", c.count, c.name, most),
                        group_field(g, "counted"));
  }
  if (need.cores > most_cores.cores)
    return impossible(
        format("asks for {} cores on one node; the largest node, {}", need.cores, largest_words(most_cores)),
        group_field(g, "cores"));
  if (need.memory_mb > most_memory.memory_mb)
    return impossible(format("asks for {} MB of memory on one node; the largest node, {}", need.memory_mb,
                             largest_words(most_memory)),
                      group_field(g, "memory"));
  return impossible("no single node has the cores, memory and devices asked for together; the largest node, " +
                        largest_words(most_devices),
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
      wants_every_node(group) || (partition.nodes_max > 0 && group.nodes.min > partition.nodes_max))
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

namespace {

// Its constraint can be read, and it names nodes of the partition, none twice.
Result<void> check_named_nodes(const GroupSpec& group, std::size_t g,
                               const std::unordered_set<std::string_view>& names) {
  TRY(check_constraint(group.constraint));
  std::unordered_set<std::string_view> named;
  for (const std::string& name : group.only_nodes) {
    if (!names.contains(name))
      return Error{Errc::kInvalid, format("Invalid node name specified: {}", name), group_field(g, "only_nodes")};
    if (!named.insert(name).second)
      return Error{Errc::kInvalid, format("node {} is named twice", name), group_field(g, "only_nodes")};
  }
  return {};
}

// Whether there are as many nodes that it may use as it asks for. usable: how many there are.
Result<void> check_node_count(const GroupSpec& group, std::size_t g, const Partition& partition, std::size_t usable) {
  if (usable == 0 && group.sandbox.network == TaskNetwork::kOwn)
    return impossible(
        format("its tasks want addresses of their own; no node of partition {} that it may use has any to give: that "
               "takes an agent that is root, task_range in its settings, and the package containernetworking-plugins",
               partition.meta.name),
        group_field(g, "sandbox.network"));
  if (usable == 0)
    return impossible(
        group.constraint.empty()
            ? format("partition {} has no node this job may use", partition.meta.name)
            : format("no node of partition {} satisfies the constraint {}", partition.meta.name, group.constraint),
        group_field(g, group.constraint.empty() ? "resources" : "constraint"));
  if (partition.nodes_max > 0 && group.nodes.min > partition.nodes_max)
    return impossible(format("asks for {} nodes; partition {} allows {} for one job", group.nodes.min,
                             partition.meta.name, partition.nodes_max),
                      group_field(g, "nodes_max"));
  if (group.nodes.min > usable)
    return impossible(
        format("asks for {} nodes; partition {} has {} that it may use", group.nodes.min, partition.meta.name, usable),
        group_field(g, "nodes"));
  return {};
}

// Why the nodes, empty, have no place for the group.
Error no_place(const GroupSpec& group, std::size_t g, const Partition& partition, const Nodes& nodes) {
  const NodeLoad empty;
  std::uint64_t room = 0, all_devices = 0;
  for (const Node* node : nodes) room += tasks_that_fit(*node, empty, group);
  if (room == 0)
    return nothing_fits(group, g, nodes);
  const std::uint32_t devices = devices_per_job(group);
  for (const Node* node : nodes) all_devices += free_devices(*node, empty).count();
  if (devices > all_devices)
    return impossible(format("asks for {} devices; partition {} has {}", devices, partition.meta.name, all_devices),
                      group_field(g, "per_job"));
  const bool wants_devices = devices_are_missing(group, nodes);
  return impossible(
      format("asks for {} task(s) on {} node(s){}; the {} nodes it may use have room for {} when empty{}",
             group.tasks.min, group.nodes.min == 0 ? std::string("any number of") : format("{}", group.nodes.min),
             devices > 0 ? format(" with {} devices", devices) : std::string(), nodes.size(), room,
             wants_devices ? format(" and {} devices: devices are what is missing", all_devices) : std::string()),
      group_field(g, wants_devices ? "devices" : "tasks"));
}

}  // namespace

namespace {

// Nodes as they are when nothing is broken: a GPU that is lost comes back, as a node does that is down.
class Whole {
 public:
  explicit Whole(const Nodes& nodes) : nodes_(nodes) {
    for (const Node*& node : nodes_) {
      if (std::ranges::all_of(node->devices, &Device::healthy))
        continue;
      Node& mended = mended_.emplace_back(*node);
      for (Device& device : mended.devices) device.healthy = true;
      node = &mended;
    }
  }
  const Nodes& nodes() const { return nodes_; }

 private:
  Nodes nodes_;
  std::deque<Node> mended_;
};

}  // namespace

Result<void> check_possible(const JobSpec& spec, const Partition& partition,
                            const std::vector<const Node*>& as_they_are) {
  if (!spec.groups.empty() && check_constraint(spec.groups[0].constraint).ok() &&
      a_few_nodes_do(spec, partition, as_they_are))
    return {};
  const Whole whole(as_they_are);
  const Nodes& nodes = whole.nodes();
  std::map<NodeId, NodeLoad> loads;  // components of one job share the nodes
  std::unordered_set<std::string_view> names;
  std::map<NodeId, const Node*> by_id;
  for (const Node* node : nodes) {
    names.insert(node->meta.name);
    by_id[node->id] = node;
  }
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    const GroupSpec& group = spec.groups[g];
    TRY(check_named_nodes(group, g, names));
    Nodes usable;
    std::vector<Candidate> candidates;
    const Eligible eligible_here(partition, group);
    for (const Node* node : nodes)
      if (eligible_here(*node)) {
        usable.push_back(node);
        candidates.push_back({node, &loads[node->id]});
      }
    TRY(check_node_count(group, g, partition, usable.size()));
    const auto grants = place_group(candidates, group, static_cast<std::uint16_t>(g));
    if (!grants)
      return no_place(group, g, partition, usable);
    for (const Grant& grant : *grants) TRY(take(loads[grant.node], *by_id.at(grant.node), grant));
  }
  return {};
}

namespace {

// Whether the grants of one group are what it asked for: each for itself, then all together.
class GroupCheck {
 public:
  GroupCheck(const GroupSpec& group, std::size_t g, const Partition& partition)
      : group_(group), g_(g), wanted_(group.only_nodes), eligible_here_(partition, group) {}

  Result<void> add(const Grant& grant, const Node& node) {
    const auto [here, first] = seen_.try_emplace(grant.node);
    if (!first && !stacks(group_))
      return conflict("a node twice in one group");
    again_ += !first;
    here->second += grant.tasks;
    if (!eligible_here_(node))
      return conflict(format("{} may not be used", node.meta.name));
    if (grant.tasks == 0)
      return conflict("a grant without tasks");
    if ((group_.tasks_per_node > 0 && here->second > group_.tasks_per_node) || here->second > kTasksPerNodeMax)
      return conflict("too many tasks on a node");
    TRY(check_amounts(grant, node, need_on(node, grant.tasks)));
    tasks_ += grant.tasks;
    named_ += first && wanted_.has(node.meta.name);
    return {};
  }

  Result<void> check_all() const {
    const std::size_t count = seen_.size();
    if (count == 0 || count < group_.nodes.min || (group_.nodes.max > 0 && count > group_.nodes.max))
      return conflict(format("group {} got {} nodes", g_, count));
    if (tasks_ < group_.tasks.min || (!wants_every_node(group_) && tasks_ > group_.tasks.max))
      return conflict(format("group {} got {} tasks", g_, tasks_));
    if (devices_extra_ < devices_per_job(group_))
      return conflict(format("group {} got too few devices", g_));
    const std::uint64_t must = group_.nodes.max > 0
                                   ? std::min<std::uint64_t>(group_.only_nodes.size(), group_.nodes.max)
                                   : group_.only_nodes.size();
    if (named_ < must)
      return conflict("a node asked for by name is missing");
    return {};
  }

  std::size_t again() const { return again_; }  // grants on nodes that the group had already

 private:
  // Worked out once for grants of a size, unless it hangs on the node.
  const NodeNeed& need_on(const Node& node, std::uint32_t tasks) {
    if (!known_ || counts_its_nodes(group_) || known_->first != tasks)
      known_.emplace(tasks, need_on_node(node, group_, tasks, 0));
    return known_->second;
  }

  Result<void> check_amounts(const Grant& grant, const Node& node, const NodeNeed& need) {
    if (grant.cores.count() < need.cores || grant.shared_milli != need.shared_milli || grant.memory_mb < need.memory_mb)
      return conflict("a grant is too small");
    if (!choose_devices(node, grant.devices, need.devices))
      return conflict("a grant lacks devices");
    if (!same_parts(node, grant.parts, need.parts))
      return conflict("the parts of devices are not what was asked for");
    if (grant.counted != need.counted)
      return conflict("the counted resources are not what was asked for");
    if (grant.whole_node != need.whole_node)
      return conflict("exclusivity is wrong");
    if (grant.more_seats != more_seats_of(group_, grant.tasks))
      return conflict("the addresses are not what was asked for");
    std::uint32_t asked = 0;
    for (const DeviceAsk& ask : need.devices) asked += ask.count;
    devices_extra_ += grant.devices.count() - asked;
    return {};
  }

  const GroupSpec& group_;
  const std::size_t g_;
  const NameSet wanted_;
  const Eligible eligible_here_;
  std::map<NodeId, std::uint32_t> seen_;  // tasks by node
  std::optional<std::pair<std::uint32_t, NodeNeed>> known_;
  std::uint64_t tasks_ = 0, named_ = 0, devices_extra_ = 0;
  std::size_t again_ = 0;
};

}  // namespace

Result<void> check_allocation(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
                              const std::vector<const Node*>& nodes) {
  CHECK(grants.size() == nodes.size());
  for (const Grant& grant : grants)
    if (grant.group >= spec.groups.size())
      return conflict("a grant for a group that is not there");
  std::size_t again = 0;
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    GroupCheck check(spec.groups[g], g, partition);
    for (std::size_t i = 0; i < grants.size(); ++i)
      if (grants[i].group == g)
        TRY(check.add(grants[i], *nodes[i]));
    TRY(check.check_all());
    again += check.again();
  }
  if (partition.nodes_max > 0 && grants.size() - again > partition.nodes_max)
    return conflict("more nodes than the partition allows");
  return {};
}

}  // namespace lockstep
