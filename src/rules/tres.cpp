#include "rules/tres.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "model/spec.h"
#include "rules/need.h"
#include "rules/shared_cores.h"

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

// Counts grants, of one node or of thousands: names are put together once, at the end.
class Counter {
 public:
  void add(const Grant& grant, const Node& node) {
    plain_.cpu += grant.cores.count() + grant.shared_milli / 1000;
    plain_.memory_mb += grant.memory_mb;
    const Device* last = nullptr;  // most devices of a node are alike
    std::int64_t alike = 0;
    grant.devices.for_each([&](std::uint32_t i) {
      if (i >= node.devices.size())
        return;
      const Device& device = node.devices[i];
      if (last && device.kind == last->kind && device.type == last->type) {
        ++alike;
        return;
      }
      if (last)
        count(last->kind, last->type, alike);
      last = &device;
      alike = 1;
    });
    if (last)
      count(last->kind, last->type, alike);
    for (const DevicePart& part : grant.parts) {
      if (part.mig.empty())
        add_named(plain_.others, "gres/mps", part.milli / 10);  // a hundredth of a GPU is one, as Slurm counts MPS
      else
        count("gpu", part.mig, 1);
    }
    for (const Counted& counted : grant.counted) add_named(plain_.others, "gres/" + counted.name, counted.count);
  }
  void add(const Counter& other) {
    plain_.cpu += other.plain_.cpu;
    plain_.memory_mb += other.plain_.memory_mb;
    for (const NamedCount& named : other.plain_.others) add_named(plain_.others, named.name, named.count);
    for (const Kind& kind : other.kinds_) of(kind.kind, kind.type).count += kind.count;
  }
  // In every amount what is the larger of both.
  void raise(const Counter& other) {
    plain_.cpu = std::max(plain_.cpu, other.plain_.cpu);
    plain_.memory_mb = std::max(plain_.memory_mb, other.plain_.memory_mb);
    for (const NamedCount& named : other.plain_.others)
      set_count(plain_, named.name, std::max(named.count, lockstep::count_of(plain_, named.name)));
    for (const Kind& kind : other.kinds_)
      if (Kind& mine = of(kind.kind, kind.type); mine.count < kind.count)
        mine.count = kind.count;
  }
  void clear() {
    plain_.cpu = plain_.memory_mb = 0;
    plain_.others.clear();
    kinds_.clear();
  }
  Tres tres() const {
    Tres out = plain_;
    for (const Kind& kind : kinds_)
      if (kind.kind == "gpu" && kind.type.empty())
        out.gpus += kind.count;
      else
        add_named(out.others, name_of(kind), kind.count);
    return out;
  }

 private:
  struct Kind {
    std::string_view kind, type;  // no type: of all types
    std::int64_t count = 0;
  };
  static std::string name_of(const Kind& kind) {
    std::string name = "gres/";
    name += kind.kind;
    if (!kind.type.empty())
      (name += ':') += kind.type;
    return name;
  }
  Kind& of(std::string_view kind, std::string_view type) {
    for (Kind& known : kinds_)
      if (known.kind == kind && known.type == type)
        return known;
    return kinds_.emplace_back(Kind{kind, type, 0});
  }
  void count(std::string_view kind, std::string_view type, std::int64_t times) {
    of(kind, {}).count += times;
    if (!type.empty())
      of(kind, type).count += times;
  }

  Tres plain_;
  std::vector<Kind> kinds_;  // a few
};

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

std::optional<Excess> first_excess(const TresLimit& limit, const Tres& in_use, const Tres& ask) {
  for (const TresField& field : kTresFields) {
    const std::int64_t bound = limit.*field.limit, wanted = ask.*field.count;
    if (bound != kNoLimit && wanted > 0 && plus_within(in_use.*field.count, wanted) > bound)
      return Excess{std::string(field.name), bound, in_use.*field.count, wanted};
  }
  for (const NamedCount& other : limit.others) {
    const std::int64_t wanted = count_of(ask, other.name), there = count_of(in_use, other.name);
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

PlaceTres place_tres(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
                     const std::vector<const Node*>& nodes) {
  CHECK(grants.size() == nodes.size());
  std::vector<std::pair<NodeId, std::size_t>> by_node;
  by_node.reserve(grants.size());
  for (std::size_t i = 0; i < grants.size(); ++i) by_node.emplace_back(grants[i].node, i);
  std::sort(by_node.begin(), by_node.end());
  Counter all, largest, here;
  std::int64_t distinct = 0;
  for (std::size_t i = 0; i < by_node.size(); ++distinct) {
    here.clear();
    for (const NodeId node = by_node[i].first; i < by_node.size() && by_node[i].first == node; ++i)
      here.add(grants[by_node[i].second], *nodes[by_node[i].second]);
    all.add(here);
    largest.raise(here);
  }
  PlaceTres out{all.tres(), largest.tres()};
  out.all.nodes = distinct;
  add_licenses(out.all, spec);
  out.all.billing = billing_of(out.all, partition.billing);
  return out;
}

Tres tres_of(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
             const std::vector<const Node*>& nodes) {
  return place_tres(spec, partition, grants, nodes).all;
}

Tres largest_node_tres(const std::vector<Grant>& grants, const std::vector<const Node*>& nodes) {
  return place_tres({}, {}, grants, nodes).largest_node;
}

namespace {

void add_least(Tres& tres, const GroupSpec& group) {
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
                nodes * group.contiguous_cores_min, shares_cores(group) ? 0 : nodes});
  tres.cpu += cores;
  tres.memory_mb += tasks * group.per_task.memory_mb + nodes * group.per_node.memory_mb +
                    cores * group.memory_per_core_mb + devices * group.memory_per_device_mb;
  tres.nodes += nodes;
}

}  // namespace

Tres least_tres(const GroupSpec& group) {
  Tres tres;
  add_least(tres, group);
  return tres;
}

Tres least_tres(const JobSpec& spec) {
  Tres tres;
  for (const GroupSpec& group : spec.groups) add_least(tres, group);
  // Groups may share nodes.
  std::int64_t most = 0;
  for (const GroupSpec& group : spec.groups) most = std::max<std::int64_t>(most, group.nodes.min);
  if (spec.groups.size() > 1)
    tres.nodes = std::max<std::int64_t>(most, 1);
  add_licenses(tres, spec);
  return tres;
}

bool counts_its_nodes(const GroupSpec& group) { return takes_all(group) || group.all_memory; }

Tres least_on_node(const Node& like, const GroupSpec& group) {
  const NodeNeed need = need_on_node(like, group, 1, 0);
  Grant grant;
  grant.cores = CoreSet::first_n(std::min(need.cores, CoreSet::kCapacity));
  grant.shared_milli = need.shared_milli;
  grant.memory_mb = need.memory_mb;
  grant.counted = need.counted;
  if (takes_all(group))
    for (std::uint32_t i = 0; i < like.devices.size(); ++i)
      if (like.devices[i].healthy && !like.devices[i].mig)
        grant.devices.set(i);
  return largest_node_tres({grant}, {&like});
}

}  // namespace lockstep
