#include "rules/tres.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace lockstep {

namespace {

std::int64_t times_within(std::int64_t a, std::int64_t b) {
  std::int64_t out;
  if (__builtin_mul_overflow(a, b, &out))
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
  return out;
}

std::int64_t plus_within(std::int64_t a, std::int64_t b) {
  std::int64_t out;
  if (__builtin_add_overflow(a, b, &out))
    return b > 0 ? INT64_MAX : INT64_MIN;
  return out;
}

void add_devices(Tres& tres, const std::string& kind, const std::string& type, std::int64_t count) {
  if (kind == "gpu")
    tres.gpus += count;
  else
    add_named(tres.others, "gres/" + kind, count);
  if (!type.empty())
    add_named(tres.others, "gres/" + kind + ":" + type, count);
}

void add_grant(Tres& tres, const Grant& grant, const Node& node) {
  tres.cpu += grant.cores.count();
  tres.memory_mb += grant.memory_mb;
  std::map<std::pair<std::string_view, std::string_view>, std::int64_t> kinds;
  grant.devices.for_each([&](std::uint32_t i) {
    if (i < node.devices.size())
      ++kinds[{node.devices[i].kind, node.devices[i].type}];
  });
  for (const auto& [kind, count] : kinds) add_devices(tres, std::string(kind.first), std::string(kind.second), count);
  for (const DevicePart& part : grant.parts) {
    if (part.mig.empty())
      add_named(tres.others, "gres/mps", part.milli / 10);  // a hundredth of a GPU is one, as Slurm counts MPS
    else
      add_devices(tres, "gpu", part.mig, 1);
  }
  for (const Counted& counted : grant.counted) add_named(tres.others, "gres/" + counted.name, counted.count);
}

void add_licenses(Tres& tres, const JobSpec& spec) {
  if (spec.licenses.empty())
    return;
  if (const auto licenses = parse_licenses(spec.licenses); licenses.ok())
    for (const NamedCount& licence : *licenses) add_named(tres.others, "license/" + licence.name, licence.count);
}

}  // namespace

void add(Tres& to, const Tres& amount) { add_times(to, amount, 1); }
void subtract(Tres& from, const Tres& amount) { add_times(from, amount, -1); }

void add_times(Tres& to, const Tres& amount, std::int64_t times) {
  for (const TresField& field : kTresFields)
    to.*field.count = plus_within(to.*field.count, times_within(amount.*field.count, times));
  for (const NamedCount& other : amount.others) add_named(to.others, other.name, times_within(other.count, times));
}

bool is_zero(const Tres& tres) { return tres == Tres{}; }

std::optional<Excess> first_excess(const TresLimit& limit, const Tres& held, const Tres& ask) {
  for (const TresField& field : kTresFields) {
    const std::int64_t bound = limit.*field.limit, wanted = ask.*field.count;
    if (bound != kNoLimit && wanted > 0 && plus_within(held.*field.count, wanted) > bound)
      return Excess{std::string(field.name), bound, held.*field.count, wanted};
  }
  for (const NamedCount& other : limit.others) {
    const std::int64_t wanted = count_of(ask, other.name), there = count_of(held, other.name);
    if (other.count != kNoLimit && wanted > 0 && plus_within(there, wanted) > other.count)
      return Excess{other.name, other.count, there, wanted};
  }
  return std::nullopt;
}

std::optional<Excess> first_shortfall(const TresLimit& least, const Tres& ask) {
  for (const TresField& field : kTresFields)
    if (least.*field.limit != kNoLimit && ask.*field.count < least.*field.limit)
      return Excess{std::string(field.name), least.*field.limit, 0, ask.*field.count};
  for (const NamedCount& other : least.others)
    if (const std::int64_t wanted = count_of(ask, other.name); other.count != kNoLimit && wanted < other.count)
      return Excess{other.name, other.count, 0, wanted};
  return std::nullopt;
}

std::int64_t billing_of(const Tres& tres, const std::vector<TresWeight>& weights) {
  if (weights.empty())
    return tres.cpu;
  __int128 milli = 0;
  for (const TresWeight& weight : weights) {
    const __int128 part = static_cast<__int128>(count_of(tres, weight.name)) * weight.milli;
    milli += weight.name == "mem" ? part / 1024 : part;  // memory is weighed by the GB
  }
  return static_cast<std::int64_t>(std::min<__int128>((milli + 500) / 1000, INT64_MAX));
}

Tres tres_of(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
             const std::vector<const Node*>& nodes) {
  CHECK(grants.size() == nodes.size());
  Tres tres;
  std::set<NodeId> distinct;
  for (std::size_t i = 0; i < grants.size(); ++i) {
    add_grant(tres, grants[i], *nodes[i]);
    distinct.insert(grants[i].node);
  }
  tres.nodes = static_cast<std::int64_t>(distinct.size());
  add_licenses(tres, spec);
  tres.billing = billing_of(tres, partition.billing);
  return tres;
}

Tres largest_node_tres(const std::vector<Grant>& grants, const std::vector<const Node*>& nodes) {
  CHECK(grants.size() == nodes.size());
  std::map<NodeId, Tres> each;
  for (std::size_t i = 0; i < grants.size(); ++i) add_grant(each[grants[i].node], grants[i], *nodes[i]);
  Tres largest;
  for (const auto& [id, tres] : each) {
    for (const TresField& field : kTresFields) largest.*field.count = std::max(largest.*field.count, tres.*field.count);
    for (const NamedCount& other : tres.others)
      set_count(largest, other.name, std::max(other.count, count_of(largest, other.name)));
  }
  return largest;
}

Tres least_tres(const JobSpec& spec) {
  Tres tres;
  for (const GroupSpec& group : spec.groups) {
    const std::int64_t tasks = group.tasks.min;
    std::int64_t nodes = std::max<std::int64_t>(group.nodes.min, tasks > 0 ? 1 : 0);
    if (group.tasks_per_node > 0)
      nodes = std::max<std::int64_t>(nodes, (tasks + group.tasks_per_node - 1) / group.tasks_per_node);
    const std::int64_t task_cores = group.overcommit ? std::min(tasks, nodes) : tasks;
    std::int64_t devices = 0;
    const auto ask = [&](const std::vector<DeviceAsk>& asks, std::int64_t times) {
      for (const DeviceAsk& d : asks) {
        add_devices(tres, d.kind, d.type, times * d.count);
        devices += times * d.count;
      }
    };
    ask(group.per_task.devices, tasks);
    ask(group.per_node.devices, nodes);
    ask(group.per_job, 1);
    const std::int64_t cores =
        std::max({task_cores * group.per_task.cores + nodes * group.per_node.cores + devices * group.cores_per_device,
                  nodes * group.contiguous_cores_min, nodes});
    tres.cpu += cores;
    tres.memory_mb += tasks * group.per_task.memory_mb + nodes * group.per_node.memory_mb +
                      cores * group.memory_per_core_mb + devices * group.memory_per_device_mb;
    tres.nodes += nodes;
  }
  // Groups may share nodes.
  std::int64_t most = 0;
  for (const GroupSpec& group : spec.groups) most = std::max<std::int64_t>(most, group.nodes.min);
  if (spec.groups.size() > 1)
    tres.nodes = std::max<std::int64_t>(most, 1);
  add_licenses(tres, spec);
  return tres;
}

}  // namespace lockstep
