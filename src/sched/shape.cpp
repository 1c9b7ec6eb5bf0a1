#include "sched/shape.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "model/spec.h"
#include "rules/fit.h"
#include "rules/labels.h"
#include "rules/need.h"
#include "rules/tres.h"

namespace lockstep {

namespace {

struct Mixer {
  std::size_t value = 0x9e3779b97f4a7c15;
  void add(std::uint64_t part) { value = (value ^ part) * 0xff51afd7ed558ccd + (value >> 29); }
  void add(const std::string& text) { add(std::hash<std::string>{}(text)); }
  void add(const Resources& r) {
    add(r.cores);
    add(r.shared_milli);
    add(static_cast<std::uint64_t>(r.memory_mb));
    for (const DeviceAsk& ask : r.devices) add(ask);
  }
  void add(const DeviceAsk& ask) {
    add(ask.type);
    add(ask.count);
    add(ask.milli);
    add(ask.mig);
  }
};

}  // namespace

std::size_t shape_hash(const JobSpec& spec) {
  Mixer mix;
  for (const std::string& partition : spec.partitions) mix.add(partition);
  mix.add(static_cast<std::uint64_t>(spec.time_limit.us));
  mix.add(spec.user.value);
  mix.add(spec.account);
  mix.add(spec.precedence ? static_cast<std::uint64_t>(std::int64_t{*spec.precedence}) : std::uint64_t{1} << 40);
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
    mix.add(static_cast<std::uint64_t>(group.sandbox.network));
    mix.add(static_cast<std::uint64_t>(group.sharing));
    mix.add(group.cores_per_device);
    for (const std::string& name : group.only_nodes) mix.add(name);
    for (const std::string& name : group.exclude_nodes) mix.add(name);
    mix.add(group.topology_level);
    mix.add(std::uint64_t{group.switches_max} << 32 | group.segment);
    for (const NeighbourTerm& term : group.neighbours)
      for (const LabelRule& rule : term.jobs)
        for (const std::string& value : rule.values) mix.add(value);
  }
  return mix.value;
}

bool same_shape(const JobSpec& a, const JobSpec& b) {
  return a.partitions == b.partitions && a.time_limit == b.time_limit && a.time_min == b.time_min && a.user == b.user &&
         a.account == b.account && a.qos == b.qos && a.reservation == b.reservation && a.licenses == b.licenses &&
         a.precedence == b.precedence && a.waits_its_turn == b.waits_its_turn &&
         std::equal(a.groups.begin(), a.groups.end(), b.groups.begin(), b.groups.end(),
                    [](const GroupSpec& one, const GroupSpec& other) {
                      return static_cast<const Placement&>(one) == static_cast<const Placement&>(other) &&
                             one.sandbox.network == other.sandbox.network;
                    });
}

namespace {

bool class_suits(const AlikeNodes& cls, PartitionNo partition, const GroupSpec& group) {
  return std::binary_search(cls.partitions.begin(), cls.partitions.end(), partition) &&
         group.tmp_disk_mb <= cls.like.tmp_disk_mb && has_address_for(cls.like, group) && !kept_off(group, cls.like) &&
         (group.constraint.empty() || constraint_holds(group.constraint, cls.like.features));
}

// Members of equal size on so many nodes, whichever they are; 0 if the rules leave a choice.
std::uint32_t fixed_nodes(const GroupSpec& group) {
  if (group.tasks.min != group.tasks.max || !group.per_job.empty())
    return 0;
  const std::uint32_t tasks = group.tasks.min;
  if (tasks == 1 && group.nodes.min <= 1)
    return 1;
  if (group.nodes.min == 0 || group.nodes.min != group.nodes.max)
    return 0;
  const bool even = tasks == group.nodes.min || std::uint64_t{group.tasks_per_node} * group.nodes.min == tasks;
  return even ? group.nodes.min : 0;
}

std::uint32_t shares_milli(const std::vector<DeviceAsk>& parts) {
  std::uint32_t sum = 0;
  for (const DeviceAsk& ask : parts)
    if (ask.mig.empty())
      sum += ask.count * ask.milli;
  return sum;
}

// What prices look at: cores, whole devices, or one share.
PackShape pack_of(const NodeNeed& need, std::uint32_t devices, bool share) {
  PackShape out{.cpu_milli = static_cast<std::int64_t>(need.milli())};
  if (share) {
    out.devices = 1;
    out.milli = need.parts[0].milli;
  } else {
    out.devices = static_cast<std::uint8_t>(devices);
    out.milli = devices > 0 ? kWholeDevice : std::uint16_t{0};
  }
  return out;
}

// Whether more than half of the node is gone with these amounts.
bool takes_most(const FreeAmounts& amounts, const FreeAmounts& all) {
  const bool most = amounts.devices > 0 ? amounts.devices * 2 > all.devices : amounts.milli * 2 > all.milli;
  return most || amounts.memory_mb * 2 > all.memory_mb;
}

// Whether prices look at a member that asks for this: whole devices, or one share of one.
bool has_price(const NodeNeed& need, const GroupSpec& group, std::uint32_t devices, bool share) {
  if (need.whole_node || group.all_memory || devices > kPackDevicesMax)
    return false;
  return need.parts.empty() || (share && devices == 0);
}

// What a member of the group with so many tasks needs on a node of the class.
ClassNeed need_of(ClassNo number, const AlikeNodes& cls, const GroupSpec& group, std::uint32_t tasks) {
  const NodeNeed need = need_on_node(cls.like, group, tasks, group.per_job.empty() ? 0 : 1);
  const FreeAmounts& all = cls.whole;
  ClassNeed out{.cls = number, .all_memory = group.all_memory};
  for (const DeviceAsk& ask : need.devices) out.amounts.devices += ask.count;
  out.counted = need.parts.empty() && need.counted.empty();
  const bool share = need.parts.size() == 1 && need.parts[0].count == 1 && need.parts[0].mig.empty();
  out.priced = has_price(need, group, out.amounts.devices, share);
  out.pack = pack_of(need, out.amounts.devices, share);
  out.amounts.milli =
      need.whole_node ? all.milli : static_cast<std::uint32_t>(std::min<std::uint64_t>(need.milli(), UINT32_MAX));
  out.amounts.memory_mb = group.all_memory ? 0 : need.memory_mb;
  out.takes_node = need.whole_node || group.all_memory || takes_most(out.amounts, all);
  if (need.whole_node)
    out.amounts.devices = all.devices;
  out.share = out.amounts;
  const std::uint32_t shared = (shares_milli(need.parts) + kWholeDevice - 1) / kWholeDevice;
  out.share.devices = std::min(all.devices, out.share.devices + shared);
  if (counts_its_nodes(group)) {
    out.least = least_on_node(cls.like, group);
    if (group.all_memory)
      out.least.memory_mb = 0;
  }
  return out;
}

}  // namespace

Demand demand_of(const ClassNeed& need, const AlikeNodes& cls) {
  const std::int64_t unit = cls.memory_unit_mb;
  return {.pool = need.cls,
          .nodes = static_cast<std::int32_t>(std::min<std::uint32_t>(need.nodes, INT32_MAX)),
          .takes_node = need.takes_node,
          .devices = static_cast<std::int32_t>(need.share.devices),
          .cores = static_cast<std::int32_t>((std::uint64_t{need.share.milli} + 999) / 1000),
          .memory = static_cast<std::int32_t>((need.share.memory_mb + unit - 1) / unit)};
}

namespace {

// What the group needs on a node of the class, if it may go there and fits at all.
std::optional<ClassNeed> need_in(const GroupSpec& group, const GroupWay& way, PartitionNo number, ClassNo c,
                                 const AlikeNodes& cls) {
  if (!class_suits(cls, number, group))
    return std::nullopt;
  const std::uint32_t room = tasks_that_fit(cls.like, {}, group);
  if (room == 0 || (way.even && room < way.tasks_each))
    return std::nullopt;
  if (way.even) {
    ClassNeed need = need_of(c, cls, group, way.tasks_each);
    need.nodes = way.nodes;
    return need;
  }
  // As few nodes as can hold the tasks; what each must at least have is for one task, or for the exact number.
  const std::uint32_t tasks = std::max(1u, group.tasks.min);
  std::uint32_t count = std::max(way.nodes, tasks / room + (tasks % room != 0));
  if (const std::uint32_t devices = devices_per_job(group); devices > 0 && cls.whole.devices > 0)
    count = std::max(count, (devices + cls.whole.devices - 1) / cls.whole.devices);
  ClassNeed need = need_of(c, cls, group, std::min(room, (tasks + count - 1) / count));
  const bool takes_node = need.takes_node || devices_per_job(group) > 0;
  const bool all_tasks = group.tasks_per_node_exact && group.tasks_per_node > 0;
  const ClassNeed least = need_of(c, cls, group, all_tasks ? group.tasks_per_node : 1);
  need.amounts = least.amounts;
  need.priced = least.priced;
  need.pack = least.pack;
  need.nodes = count;
  need.takes_node = takes_node;
  return need;
}

// Whether the amounts decide on every node of the class.
void decide(GroupWay& way, const ClassNeed& need, const AlikeNodes& cls) {
  way.uniform = way.uniform && need.amounts.memory_mb <= cls.memory_least_mb && way.tmp_disk_mb <= cls.disk_least_mb;
  way.exact = way.exact && way.uniform && need.counted && cls.one_device_type;
}

}  // namespace

std::vector<GroupWay> groups_on(const JobSpec& spec, const Partition& partition, PartitionNo number,
                                const std::deque<AlikeNodes>& classes) {
  std::vector<GroupWay> out;
  for (const GroupSpec& group : spec.groups) {
    GroupWay way;
    const std::uint32_t fixed = fixed_nodes(group);
    way.nodes = fixed ? fixed : std::max(1u, group.nodes.min);
    way.tasks_each = fixed ? group.tasks.min / fixed : 1;
    way.even = fixed != 0;
    way.tmp_disk_mb = group.tmp_disk_mb;
    way.uniform = fixed != 0 && spec.groups.size() == 1 && group.only_nodes.empty() && group.exclude_nodes.empty() &&
                  group.node_rules.empty() && (partition.nodes_max == 0 || fixed <= partition.nodes_max);
    way.exact = way.uniform && !group.all_memory;
    for (ClassNo c = 0; c < classes.size(); ++c)
      if (const auto need = need_in(group, way, number, c, classes[c])) {
        decide(way, *need, classes[c]);
        way.needs.push_back(*need);
      }
    out.push_back(std::move(way));
  }
  return out;
}

bool same_partition(const AlikeNodes& a, const AlikeNodes& b, PartitionNo number) {
  return std::binary_search(a.partitions.begin(), a.partitions.end(), number) ==
         std::binary_search(b.partitions.begin(), b.partitions.end(), number);
}

void look_at_class(const JobSpec& spec, PartitionNo number, ClassNo c, const std::deque<AlikeNodes>& classes,
                   std::vector<GroupWay>& groups) {
  const AlikeNodes& cls = classes[c];
  for (std::size_t g = 0; g < groups.size(); ++g) {
    GroupWay& way = groups[g];
    const auto place = [&](ClassNo of) {
      return std::lower_bound(way.needs.begin(), way.needs.end(), of,
                              [](const ClassNeed& need, ClassNo n) { return need.cls < n; });
    };
    const auto there = [&](auto at, ClassNo of) { return at != way.needs.end() && at->cls == of; };
    auto at = place(c);
    if (!there(at, c)) {
      std::optional<ClassNeed> need;
      if (cls.twin == kNoClass || !same_partition(cls, classes[cls.twin], number)) {
        need = need_in(spec.groups[g], way, number, c, cls);
      } else if (const auto twin = place(cls.twin); there(twin, cls.twin)) {
        need = *twin;
        need->cls = c;
      }
      if (!need)
        continue;
      at = way.needs.insert(at, *need);
    }
    decide(way, *at, cls);
  }
}

}  // namespace lockstep
