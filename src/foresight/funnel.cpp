// How many nodes are left after each question a node is asked before a job may start there, in the order of the
// questions, and for those that fall what they lack.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "core/topology.h"
#include "foresight/explain.h"
#include "model/job.h"
#include "rules/limits.h"
#include "rules/reservation.h"
#include "rules/topology.h"

namespace lockstep {

namespace {

// The group without its asks of one kind, to see whether these are what a node lacks.
GroupSpec without_devices(GroupSpec group) {
  group.per_task.devices.clear();
  group.per_node.devices.clear();
  group.per_job.clear();
  group.cores_per_device = 0;
  group.memory_per_device_mb = 0;
  return group;
}
GroupSpec without_memory(GroupSpec group) {
  group.per_task.memory_mb = group.per_node.memory_mb = 0;
  group.memory_per_core_mb = group.memory_per_device_mb = 0;
  group.all_memory = false;
  return group;
}
GroupSpec without_cores(GroupSpec group) {
  group.per_task.cores = group.per_node.cores = group.contiguous_cores_min = group.cores_per_device = 0;
  group.overcommit = true;
  return group;
}
GroupSpec without_counted(GroupSpec group) {
  group.per_task.counted.clear();
  group.per_node.counted.clear();
  return group;
}

struct Fit {
  GroupSpec group, no_devices, no_memory, no_cores, no_counted;
  std::uint32_t tasks = 1;  // the least on a node

  explicit Fit(const GroupSpec& g)
      : group(g),
        no_devices(without_devices(g)),
        no_memory(without_memory(g)),
        no_cores(without_cores(g)),
        no_counted(without_counted(g)) {
    if (g.tasks_per_node_exact && g.tasks_per_node > 0)
      tasks = g.tasks_per_node;
    else if (g.nodes.min > 0 && g.nodes.min == g.nodes.max && g.tasks.min == g.tasks.max)
      tasks = std::max(1u, g.tasks.min / g.nodes.min);
  }
  bool on(const Node& node, const NodeLoad& load, const GroupSpec& g) const {
    return tasks_that_fit(node, load, g) >= tasks;
  }
  // "" = it fits; else what there is too little of.
  std::string_view lacks(const Node& node, const NodeLoad& load) const {
    if (on(node, load, group))
      return "";
    if (load.sole_occupants > 0)
      return "held whole";
    if (group.sharing != Sharing::kShared && load.occupants > 0)
      return "in use";
    if (on(node, load, no_devices))
      return "GPUs";
    if (on(node, load, no_cores))
      return "cores";
    if (on(node, load, no_memory))
      return "memory";
    if (on(node, load, no_counted))
      return "gres";
    return "several things";
  }
};

// Nodes that are kept for jobs ahead: promised to them, from when on, before this one would be over.
std::map<NodeId, JobId> kept_nodes(const ClusterCopy& copy, const std::vector<Ahead>& jobs, Duration limit) {
  std::map<NodeId, JobId> out;
  const Instant end = limit >= kForever ? kNever : copy.now() + limit;
  for (const Ahead& ahead : jobs) {
    const Job* other = copy.tables().job(ahead.job);
    if (other && other->promise) {
      if (other->promise->held || other->promise->at < end)
        for (const Grant& grant : other->promise->grants) out.try_emplace(grant.node, other->id);
      continue;
    }
    const PlanNote* note = copy.notes().of(ahead.job);
    if (note && !note->expected_nodes.empty() && copy.notes().expected_start(ahead.job) < end)
      for (const NodeId node : note->expected_nodes) out.try_emplace(node, ahead.job);
  }
  return out;
}

// Counts reasons in the order of their names.
class Losses {
 public:
  void add(std::string_view why, const Node& node, std::string_view detail) {
    ++counts_[std::string(why)];
    if (example_.empty())
      example_ = format("{}: {}", node.meta.name, detail.empty() ? why : detail);
  }
  NodeFilter filter(std::string name, std::size_t left) {
    NodeFilter out;
    out.name = std::move(name);
    out.left = static_cast<std::uint32_t>(left);
    std::vector<std::string> parts;
    for (const auto& [why, count] : counts_) parts.push_back(format("{} {}", count, why));
    out.lost = join(parts, ", ");
    out.example = std::move(example_);
    return out;
  }

 private:
  std::map<std::string, std::uint32_t> counts_;
  std::string example_;
};

// Asks every node one question; those with an answer fall.
template <class Why>
void ask(std::vector<const Node*>& nodes, std::string name, std::vector<NodeFilter>& filters, Why&& why) {
  Losses losses;
  std::vector<const Node*> left;
  for (const Node* node : nodes) {
    std::string detail;
    const std::string_view word = why(*node, detail);
    if (word.empty())
      left.push_back(node);
    else
      losses.add(word, *node, detail);
  }
  nodes = std::move(left);
  filters.push_back(losses.filter(std::move(name), nodes.size()));
}

std::string closed_to(const ClusterCopy& copy, const JobSpec& spec, const Partition& partition, Duration limit) {
  if (!partition.up)
    return "the partition is down";
  if (const auto word = partition_refuses(partition, spec.account, spec.qos))
    return *word == "AccountNotAllowed" ? format("account {} may not use it", spec.account)
                                        : format("QOS {} may not be used in it", spec.qos);
  const auto eased = eased_for(copy.tables(), partition, spec.qos);
  const Partition& bounds = eased ? *eased : partition;
  if (limit > bounds.time_max && (spec.time_min.us == 0 || spec.time_min > bounds.time_max))
    return "the job's time limit is longer than the partition allows";
  return "";
}

using Path = std::vector<std::string>;

// Of these nodes, the most that lie together as the group asks.
struct Together {
  std::map<Path, std::uint32_t> leaves;  // how many of each count
  std::uint32_t nodes = 0;
};

Together most_together(const std::vector<const Node*>& nodes, const DomainAsk& where) {
  std::map<Path, std::map<Path, std::uint32_t>> domains;
  for (const Node* node : nodes)
    if (node->domains.size() >= where.level)
      ++domains[Path(node->domains.begin(), node->domains.begin() + static_cast<std::ptrdiff_t>(where.level))]
               [node->domains];
  Together best;
  for (const auto& [domain, leaves] : domains) {
    std::vector<std::pair<std::uint32_t, const Path*>> order;
    for (const auto& [leaf, count] : leaves)
      order.emplace_back(where.segment == 0 ? count : count - count % where.segment, &leaf);
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    if (where.switches_max != 0 && order.size() > where.switches_max)
      order.resize(where.switches_max);
    Together here;
    for (const auto& [count, leaf] : order) {
      here.leaves[*leaf] = count;
      here.nodes += count;
    }
    if (best.leaves.empty() || here.nodes > best.nodes)
      best = std::move(here);
  }
  return best;
}

std::string where_words(const GroupSpec& group, const DomainAsk& where) {
  std::vector<std::string> words;
  if (where.level != 0 || where.unknown)
    words.push_back("under one " + group.topology_level.substr(1));
  if (where.switches_max != 0)
    words.push_back(format("on {} switch{}", where.switches_max, where.switches_max == 1 ? "" : "es"));
  if (where.segment != 0)
    words.push_back(format("in segments of {}", where.segment));
  return join(words, ", ");
}

void ask_topology(std::vector<const Node*>& nodes, const Tables& tables, const GroupSpec& group, const DomainAsk& where,
                  std::vector<NodeFilter>& filters) {
  const Together best = where.unknown ? Together{} : most_together(nodes, where);
  std::map<Path, std::uint32_t> taken;
  const std::string name = std::string(kTopologyFilter) + where_words(group, where);
  ask(nodes, name, filters, [&](const Node& node, std::string& detail) -> std::string_view {
    if (where.unknown) {
      detail = "there is no such level";
      return "under no such level";
    }
    if (node.domains.empty())
      detail = "not in the topology";
    else
      detail = format("{} {}", levels_of(tables).empty() ? "leaf" : levels_of(tables).back(), node.domains.back());
    const auto at = best.leaves.find(node.domains);
    if (at == best.leaves.end())
      return "elsewhere";
    if (++taken[node.domains] <= at->second)
      return "";
    detail += ", beyond its last whole segment";
    return "beyond whole segments";
  });
}

NodeFunnel funnel(const ClusterCopy& copy, const Job& job, const std::vector<Ahead>& ahead, const Partition& partition,
                  std::size_t g) {
  const JobSpec& spec = *job.spec;
  const GroupSpec& group = spec.groups[g];
  const Duration limit = spec.time_limit.us != 0         ? spec.time_limit
                         : partition.time_default.us > 0 ? partition.time_default
                                                         : partition.time_max;
  NodeFunnel out;
  out.partition = partition.meta.name;
  out.group = static_cast<std::uint32_t>(g);
  out.wanted =
      std::max({1u, group.nodes.min,
                group.tasks_per_node > 0 ? (group.tasks.min + group.tasks_per_node - 1) / group.tasks_per_node : 0u});
  out.closed = closed_to(copy, spec, partition, limit);

  std::vector<const Node*> nodes;
  for (const auto& [id, node] : copy.tables().nodes) nodes.push_back(node.get());
  auto& filters = out.filters;
  ask(nodes, format("in partition {}", partition.meta.name), filters, [&](const Node& node, std::string&) {
    return std::string_view(partition_has(partition, node) ? "" : "outside");
  });
  ask(nodes, "up", filters, [&](const Node& node, std::string& detail) -> std::string_view {
    if (node_usable(node))
      return "";
    const std::string_view word = node.drain                     ? "drained"
                                  : node.link == NodeLink::kLost ? "down"
                                  : node_drained(node)           ? "drained"
                                                                 : "not back since the controller started";
    if (const NodeReason reason = reason_of(node); !reason.words.empty())
      detail = format("{}, {}", word, reason.words);
    return word;
  });
  ask(nodes, "allowed", filters, [&](const Node& node, std::string& detail) -> std::string_view {
    if (eligible(node, partition, group))
      return "";
    if (std::find(group.exclude_nodes.begin(), group.exclude_nodes.end(), node.meta.name) != group.exclude_nodes.end())
      return "excluded";
    if (!group.constraint.empty() && !constraint_holds(group.constraint, node.features)) {
      detail = format("not {}; it has {}", group.constraint,
                      node.features.empty() ? std::string("no features") : join(node.features, ","));
      return "without the features";
    }
    return group.tmp_disk_mb > node.tmp_disk_mb ? "with too small a disk" : "not in the node list";
  });
  const Fit fit(group);
  const NodeLoad empty;
  ask(nodes, "large enough", filters, [&](const Node& node, std::string& detail) -> std::string_view {
    const std::string_view lacks = fit.lacks(node, empty);
    if (!lacks.empty())
      detail = format("too few {}", lacks);
    return lacks;
  });
  const WallTime from = copy.wall(copy.now());
  const WallTime to{limit >= kForever ? kNever.us : from.us + limit.us};
  const Reservation* own = reservation_of(copy.tables(), spec, from, to);
  ask(nodes, "not reserved", filters, [&](const Node& node, std::string& detail) -> std::string_view {
    const Reservation* other = keeps_away(copy.tables(), spec, own, node.meta.name, from, to);
    if (!other)
      return "";
    detail = format("reservation {}", other->meta.name);
    return "reserved";
  });
  ask(nodes, "free now", filters, [&](const Node& node, std::string& detail) -> std::string_view {
    const std::string_view lacks = fit.lacks(node, copy.load(node.id));
    if (lacks.empty())
      return "";
    if (lacks == "in use" || lacks == "held whole")
      return lacks;
    detail = format("its {} are taken", lacks);
    return lacks == "GPUs"     ? "with GPUs taken"
           : lacks == "cores"  ? "with cores taken"
           : lacks == "memory" ? "with memory taken"
                               : "with several things taken";
  });
  const auto kept = kept_nodes(copy, ahead, limit);
  if (!kept.empty())
    ask(nodes, "not kept for others", filters, [&](const Node& node, std::string& detail) -> std::string_view {
      const auto it = kept.find(node.id);
      if (it == kept.end())
        return "";
      detail = format("promised to job {}", it->second.value);
      return "promised to jobs ahead";
    });
  DomainAsk where = domain_ask(group, partition, levels_of(copy.tables()));
  if (copy.now() >= switches_end(spec, job.eligible))
    where.switches_max = 0;
  if (where.binds() && (out.wanted > 1 || where.unknown))
    ask_topology(nodes, copy.tables(), group, where, filters);
  return out;
}

}  // namespace

std::vector<NodeFunnel> funnels(const ClusterCopy& copy, const Job& job, const std::vector<Ahead>& ahead) {
  std::vector<const Partition*> partitions;
  if (job.spec->partitions.empty())
    partitions.push_back(copy.tables().default_partition());
  for (const std::string& name : job.spec->partitions) partitions.push_back(copy.tables().partition(name));
  std::vector<NodeFunnel> out;
  for (const Partition* partition : partitions)
    if (partition)
      for (std::size_t g = 0; g < job.spec->groups.size(); ++g) out.push_back(funnel(copy, job, ahead, *partition, g));
  return out;
}

}  // namespace lockstep
