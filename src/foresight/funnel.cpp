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

// One walk of the nodes through the filters, for a group of the job in a partition.
class Walk {
 public:
  Walk(const ClusterCopy& copy, const Job& job, const Partition& partition, std::size_t g)
      : copy_(copy),
        job_(job),
        spec_(*job.spec),
        group_(spec_.groups[g]),
        partition_(partition),
        limit_(spec_.time_limit.us != 0        ? spec_.time_limit
               : partition.time_default.us > 0 ? partition.time_default
                                               : partition.time_max),
        fit_(group_) {
    out_.partition = partition.meta.name;
    out_.group = static_cast<std::uint32_t>(g);
    out_.wanted = std::max(
        {1u, group_.nodes.min,
         group_.tasks_per_node > 0 ? (group_.tasks.min + group_.tasks_per_node - 1) / group_.tasks_per_node : 0u});
    out_.closed = closed_to(copy, spec_, partition, limit_);
    for (const auto& [id, node] : copy.tables().nodes) nodes_.push_back(node.get());
  }

  NodeFunnel run(const std::vector<Ahead>& ahead) {
    in_partition();
    up();
    allowed();
    large_enough();
    not_reserved();
    free_now();
    not_kept(kept_nodes(copy_, ahead, limit_));
    together();
    return std::move(out_);
  }

 private:
  template <class Why>
  void filter(std::string name, Why&& why) {
    ask(nodes_, std::move(name), out_.filters, why);
  }

  void in_partition() {
    filter(format("in partition {}", partition_.meta.name), [&](const Node& node, std::string&) {
      return std::string_view(partition_has(partition_, node) ? "" : "outside");
    });
  }
  void up() {
    filter("up", [&](const Node& node, std::string& detail) -> std::string_view {
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
  }
  void allowed() {
    filter("allowed", [&](const Node& node, std::string& detail) -> std::string_view {
      if (eligible(node, partition_, group_))
        return "";
      const auto& excluded = group_.exclude_nodes;
      if (std::find(excluded.begin(), excluded.end(), node.meta.name) != excluded.end())
        return "excluded";
      if (!group_.constraint.empty() && !constraint_holds(group_.constraint, node.features)) {
        detail = format("not {}; it has {}", group_.constraint,
                        node.features.empty() ? std::string("no features") : join(node.features, ","));
        return "without the features";
      }
      return group_.tmp_disk_mb > node.tmp_disk_mb ? "with too small a disk" : "not in the node list";
    });
  }
  void large_enough() {
    const NodeLoad empty;
    filter("large enough", [&](const Node& node, std::string& detail) -> std::string_view {
      const std::string_view lacks = fit_.lacks(node, empty);
      if (!lacks.empty())
        detail = format("too few {}", lacks);
      return lacks;
    });
  }
  void not_reserved() {
    const WallTime from = copy_.wall(copy_.now());
    const WallTime to{limit_ >= kForever ? kNever.us : from.us + limit_.us};
    const Reservation* own = reservation_of(copy_.tables(), spec_, from, to);
    filter("not reserved", [&](const Node& node, std::string& detail) -> std::string_view {
      const Reservation* other = keeps_away(copy_.tables(), spec_, own, node.meta.name, from, to);
      if (!other)
        return "";
      detail = format("reservation {}", other->meta.name);
      return "reserved";
    });
  }
  void free_now() {
    filter("free now", [&](const Node& node, std::string& detail) -> std::string_view {
      const std::string_view lacks = fit_.lacks(node, copy_.load(node.id));
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
  }
  void not_kept(const std::map<NodeId, JobId>& kept) {
    if (kept.empty())
      return;
    filter("not kept for others", [&](const Node& node, std::string& detail) -> std::string_view {
      const auto it = kept.find(node.id);
      if (it == kept.end())
        return "";
      detail = format("promised to job {}", it->second.value);
      return "promised to jobs ahead";
    });
  }
  void together() {
    DomainAsk where = domain_ask(group_, partition_, levels_of(copy_.tables()));
    if (copy_.now() >= switches_end(spec_, job_.eligible))
      where.switches_max = 0;
    if (where.binds() && (out_.wanted > 1 || where.unknown))
      ask_topology(nodes_, copy_.tables(), group_, where, out_.filters);
  }

  const ClusterCopy& copy_;
  const Job& job_;
  const JobSpec& spec_;
  const GroupSpec& group_;
  const Partition& partition_;
  Duration limit_;
  Fit fit_;
  std::vector<const Node*> nodes_;  // that passed every filter so far
  NodeFunnel out_;
};

}  // namespace

std::vector<NodeFunnel> funnels(const ClusterCopy& copy, const Job& job, const std::vector<Ahead>& ahead) {
  std::vector<NodeFunnel> out;
  for (const Partition* partition : partitions_asked(copy.tables(), *job.spec))
    for (std::size_t g = 0; g < job.spec->groups.size(); ++g) out.push_back(Walk(copy, job, *partition, g).run(ahead));
  return out;
}

}  // namespace lockstep
