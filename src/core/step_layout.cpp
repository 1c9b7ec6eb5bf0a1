#include "core/step_layout.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <unordered_set>

#include "base/text.h"
#include "model/bounds.h"
#include "model/job.h"
#include "model/spec.h"
#include "rules/name_set.h"
#include "rules/need.h"

namespace lockstep {

namespace {

using Layout = std::optional<std::vector<StepPlace>>;  // nullopt: there is no room for it now

struct Spot {
  std::uint32_t grant_index = 0;
  const Grant* grant = nullptr;
  const Node* node = nullptr;
  CoreSet cores;  // the step may take
  DeviceSet devices;
  std::vector<DevicePart> slices;
  std::int64_t memory_mb = 0;
  std::uint32_t capacity = 0;  // tasks
  std::uint32_t tasks = 0;
};

// A grant without a number has no bound on memory.
bool has_memory(const Spot& spot, const StepSpec& spec) {
  return spec.memory_mb <= 0 || spot.grant->memory_mb == 0 || spec.memory_mb <= spot.memory_mb;
}

bool asks_for_whole(const std::vector<DeviceAsk>& asks) {
  return std::any_of(asks.begin(), asks.end(), [](const DeviceAsk& ask) { return ask.whole(); });
}

bool asks_for_devices(const StepSpec& spec) {
  return asks_for_whole(spec.devices_per_node) || asks_for_whole(spec.devices_per_task) || spec.devices_total > 0;
}

bool names_devices(const StepSpec& spec) {  // or parts of them
  return !spec.devices_per_node.empty() || !spec.devices_per_task.empty() || spec.devices_total > 0;
}

bool is_of(const DevicePart& part, const DeviceAsk& ask, const Node& node) {
  const bool same_type =
      ask.type.empty() || (part.device < node.devices.size() && node.devices[part.device].type == ask.type);
  return same_type && part.mig == ask.mig && (!ask.mig.empty() || part.milli >= ask.milli);
}

bool is_slice(const DevicePart& part) { return !part.mig.empty(); }

// How many tasks there are parts for. Shares of devices are not divided among steps: each has all of its job's, and
// what it says of them is how many its tasks need.
std::uint32_t tasks_of_parts(const Spot& spot, const StepSpec& spec) {
  std::uint32_t tasks = kTasksPerNodeMax;
  const auto parts_of = [&](const DeviceAsk& ask) {
    const auto& parts = ask.mig.empty() ? spot.grant->parts : spot.slices;
    return static_cast<std::uint32_t>(
        std::ranges::count_if(parts, [&](const DevicePart& part) { return is_of(part, ask, *spot.node); }));
  };
  for (const DeviceAsk& ask : spec.devices_per_task)
    if (!ask.whole() && ask.count > 0)
      tasks = std::min(tasks, parts_of(ask) / ask.count);
  for (const DeviceAsk& ask : spec.devices_per_node)
    if (!ask.whole() && parts_of(ask) < ask.count)
      tasks = 0;
  return tasks;
}

std::uint32_t cores_per_task(const Job& job, const StepSpec& spec) {
  const GroupSpec& group = job.spec->groups[spec.group];
  return std::max({1u, spec.cores_per_task, spec.cores_per_task ? 0u : group.per_task.cores});
}

// The GPUs of all the step, so many of them here: their type stands beside, where one is asked for.
DeviceAsk part_of_total(const StepSpec& spec, std::uint32_t count) {
  for (const DeviceAsk& ask : spec.devices_per_node)
    if (ask.count == 0 && !ask.type.empty())
      return {ask.kind, ask.type, count};
  return {"gpu", "", count};
}

std::vector<DeviceAsk> asks_on(const StepSpec& spec, std::uint32_t tasks) {
  std::vector<DeviceAsk> asks;
  for (const DeviceAsk& ask : spec.devices_per_node)
    if (ask.count > 0 && ask.whole())
      asks.push_back(ask);
  for (const DeviceAsk& ask : spec.devices_per_task)
    if (ask.count > 0 && ask.whole())
      asks.push_back({ask.kind, ask.type, ask.count * tasks});
  std::stable_sort(asks.begin(), asks.end(),
                   [](const DeviceAsk& a, const DeviceAsk& b) { return !a.type.empty() && b.type.empty(); });
  return asks;
}

// Those of the free slices that so many tasks ask for; all, where the step names no device at all.
std::vector<DevicePart> choose_slices(const Spot& spot, const StepSpec& spec) {
  if (!names_devices(spec))
    return spot.slices;
  std::vector<DevicePart> left = spot.slices, out;
  const auto take = [&](const DeviceAsk& ask, std::uint32_t count) {
    for (; !ask.mig.empty() && count > 0; --count) {
      const auto at = std::ranges::find_if(left, [&](const DevicePart& part) { return is_of(part, ask, *spot.node); });
      if (at == left.end())
        return;
      out.push_back(*at);
      left.erase(at);
    }
  };
  for (const DeviceAsk& ask : spec.devices_per_node) take(ask, ask.count);
  for (const DeviceAsk& ask : spec.devices_per_task) take(ask, ask.count * spot.tasks);
  std::ranges::sort(out);
  return out;
}

std::uint32_t capacity_of(const Spot& spot, const Job& job, const StepSpec& spec) {
  if (!has_memory(spot, spec))
    return 0;
  std::uint32_t tasks = spec.overcommit ? kTasksPerNodeMax : spot.cores.count() / cores_per_task(job, spec);
  // The job may have been granted fewer cores than tasks (overcommit): what was planned there always fits.
  if (!spec.exact && spot.cores == spot.grant->cores)
    tasks = std::max(tasks, spot.grant->tasks);
  tasks = std::min(tasks, tasks_of_parts(spot, spec));
  if (spec.tasks_per_node > 0)
    tasks = std::min(tasks, spec.tasks_per_node);
  if (asks_for_whole(spec.devices_per_task))
    while (tasks > 0 && !choose_devices(*spot.node, spot.devices, asks_on(spec, std::min(tasks, 64u))))
      tasks = std::min(tasks, 64u) - 1;
  else if (asks_for_whole(spec.devices_per_node) && !choose_devices(*spot.node, spot.devices, asks_on(spec, 1)))
    tasks = 0;
  return tasks;
}

// --gpu-bind=single:N, which --ntasks-per-gpu is as well: so many tasks share a GPU. 0: nothing says so.
std::uint32_t tasks_of_gpu(const StepSpec& spec) {
  constexpr std::string_view kSingle = "single:";
  const auto bind = std::ranges::find(spec.options, "gpu-bind", &std::pair<std::string, std::string>::first);
  if (bind == spec.options.end())
    return 0;
  const auto at = bind->second.find(kSingle);
  const auto each =
      at == std::string::npos ? std::nullopt : parse_uint(std::string_view(bind->second).substr(at + kSingle.size()));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(each.value_or(0), kTasksPerNodeMax));
}

std::uint32_t gpus_on(const Spot& spot) {
  std::uint32_t count = static_cast<std::uint32_t>(spot.slices.size());
  spot.devices.for_each([&](std::uint32_t i) { count += spot.node->devices[i].kind == "gpu"; });
  return count;
}

// Where so many tasks share a GPU, no node takes more than its GPUs are for while others have GPUs left.
void bound_by_gpus(std::vector<Spot>& spots, std::uint32_t tasks, std::uint32_t each) {
  std::vector<std::uint32_t> bounds;
  std::uint64_t sum = 0;
  for (const Spot& spot : spots) {
    bounds.push_back(std::min(spot.capacity, std::min(gpus_on(spot), kTasksPerNodeMax) * each));
    sum += bounds.back();
  }
  if (sum < tasks)
    return;
  for (std::size_t i = 0; i < spots.size(); ++i) spots[i].capacity = bounds[i];
}

// The same number everywhere as far as capacities allow; the plan of the allocation itself where it adds up.
void share_tasks(std::vector<Spot>& spots, std::uint32_t tasks) {
  std::uint64_t planned = 0;
  bool planned_fits = true;
  for (const Spot& spot : spots) {
    planned += spot.grant->tasks;
    planned_fits = planned_fits && spot.grant->tasks <= spot.capacity && spot.grant->tasks > 0;
  }
  if (planned == tasks && planned_fits) {
    for (Spot& spot : spots) spot.tasks = spot.grant->tasks;
    return;
  }
  const auto up_to = [&](std::uint32_t level) {
    return std::accumulate(spots.begin(), spots.end(), std::uint64_t{0},
                           [&](std::uint64_t sum, const Spot& s) { return sum + std::min(s.capacity, level); });
  };
  std::uint32_t low = 0, high = kTasksPerNodeMax;  // the highest level that all reach, as far as they have room
  while (low < high) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    if (up_to(middle) <= tasks)
      low = middle;
    else
      high = middle - 1;
  }
  std::uint64_t left = tasks - up_to(low);
  for (Spot& spot : spots) {
    spot.tasks = std::min(spot.capacity, low);
    if (left > 0 && spot.capacity > low) {
      ++spot.tasks;
      --left;
    }
  }
  CHECK(left == 0);
}

// How many ranks a node gets before the next one has its turn; 0: all of its own.
std::uint32_t plane_of(std::string_view distribution) {
  if (distribution.starts_with("cyclic"))
    return 1;
  constexpr std::string_view kPlane = "plane=";
  const auto size = distribution.starts_with(kPlane) ? parse_uint(distribution.substr(kPlane.size())) : std::nullopt;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(size.value_or(0), kTasksPerNodeMax));
}

std::vector<std::vector<std::uint32_t>> ranks_of(const std::vector<Spot>& spots, const StepSpec& spec) {
  std::vector<std::vector<std::uint32_t>> ranks(spots.size());
  std::uint32_t next = 0;
  if (const std::uint32_t plane = plane_of(spec.distribution)) {
    std::vector<std::size_t> open(spots.size());  // with tasks that have no rank yet
    for (std::iota(open.begin(), open.end(), std::size_t{0}); !open.empty();) {
      for (const std::size_t i : open)
        for (std::uint32_t n = 0; n < plane && ranks[i].size() < spots[i].tasks; ++n) ranks[i].push_back(next++);
      std::erase_if(open, [&](std::size_t i) { return ranks[i].size() == spots[i].tasks; });
    }
    return ranks;
  }
  for (std::size_t i = 0; i < spots.size(); ++i)
    for (std::uint32_t t = 0; t < spots[i].tasks; ++t) ranks[i].push_back(next++);
  return ranks;
}

Error unavailable_configuration(std::string_view why) {
  return {Errc::kImpossible, format("Requested node configuration is not available: {}", why), {}};
}

Error too_many_tasks(std::uint64_t tasks) {
  return invalid(format("asks for {} tasks; a step has {} at most", tasks, kStepTasksMax), "tasks");
}

Error too_few_programs(const StepSpec& spec, std::uint64_t tasks) {
  return invalid(format("names programs for {} tasks; the step has {}", spec.multi_prog.size(), tasks), "multi_prog");
}

// How many of all the step's devices each spot has: one, as many as its tasks are of all tasks, and what others have no
// room for. What is left over has no place.
struct SharedDevices {
  std::vector<std::uint32_t> of_spot;
  std::uint32_t left = 0;
};
SharedDevices share_devices(const std::vector<Spot>& spots, std::uint32_t total) {
  SharedDevices out{std::vector<std::uint32_t>(spots.size()), total};
  std::uint64_t tasks = 0;
  for (const Spot& spot : spots) tasks += spot.tasks;
  const auto take = [&](std::size_t i, std::uint64_t more) {
    const auto room = std::uint64_t{spots[i].devices.count()} - out.of_spot[i];
    const auto here = static_cast<std::uint32_t>(std::min({more, room, std::uint64_t{out.left}}));
    out.of_spot[i] += here;
    out.left -= here;
  };
  for (std::size_t i = 0; i < spots.size(); ++i) take(i, 1);
  for (std::size_t i = 0; i < spots.size(); ++i) {
    const std::uint64_t share = std::uint64_t{total} * spots[i].tasks / tasks;
    take(i, share - std::min<std::uint64_t>(share, out.of_spot[i]));
  }
  for (std::size_t i = 0; i < spots.size(); ++i) take(i, out.left);
  return out;
}

// What a finished choice of spots takes, in rank order.
Result<Layout> places_of(const std::vector<Spot>& spots, const Job& job, const StepSpec& spec,
                         const std::vector<std::vector<std::uint32_t>>& ranks) {
  const SharedDevices shared = share_devices(spots, spec.devices_total);
  if (shared.left > 0)
    return Layout();
  std::vector<StepPlace> places;
  for (std::size_t i = 0; i < spots.size(); ++i) {
    const Spot& spot = spots[i];
    StepPlace place;
    place.node = spot.grant->node;
    place.grant = spot.grant_index;
    place.ranks = ranks[i];
    place.memory_mb = spec.memory_mb >= 0 ? std::min(spec.memory_mb, spot.grant->memory_mb) : spot.grant->memory_mb;
    place.cores = spec.exact ? spot.cores.lowest(std::min(spot.cores.count(), cores_per_task(job, spec) * spot.tasks))
                             : spot.cores;
    if (!asks_for_devices(spec)) {
      place.devices = spot.devices;
    } else {
      auto asks = asks_on(spec, spot.tasks);
      if (shared.of_spot[i] > 0)
        asks.push_back(part_of_total(spec, shared.of_spot[i]));
      const auto chosen = choose_devices(*spot.node, spot.devices, asks);
      if (!chosen)
        return Layout();
      place.devices = *chosen;
    }
    place.slices = choose_slices(spot, spec);
    places.push_back(std::move(place));
  }
  return std::optional(std::move(places));
}

// What other steps leave of a grant; nullopt: nothing, since a plain step wants the node's share for itself.
std::optional<Spot> spot_on(const Job& job, std::uint32_t grant_index, const Node& node, const StepSpec& spec,
                            const AllocationUse& use) {
  const Grant& grant = job.allocation->grants[grant_index];
  Spot spot{grant_index, &grant, &node, grant.cores, grant.devices, {}, grant.memory_mb, 0, 0};
  std::ranges::copy_if(grant.parts, std::back_inserter(spot.slices), is_slice);
  if (const auto used = use.find(grant_index); used != use.end() && !spec.overlap) {
    if (!spec.exact && used->second.any)
      return std::nullopt;
    spot.cores = spot.cores.minus(used->second.cores);
    spot.devices = spot.devices.minus(used->second.devices);
    std::erase_if(spot.slices,
                  [&](const DevicePart& slice) { return std::ranges::count(used->second.slices, slice) > 0; });
    spot.memory_mb -= used->second.memory_mb;
  }
  return spot;
}

// Whether the spot takes the tasks that its node is named for.
bool takes_tasks(const Spot& spot, const Job& job, const StepSpec& spec) {
  const bool wants_own = spec.exact && !spec.overcommit;
  return spot.tasks <= kTasksPerNodeMax && has_memory(spot, spec) &&
         (!wants_own || spot.cores.count() >= cores_per_task(job, spec) * spot.tasks);
}

// Distribution "arbitrary": only_nodes names the node of every rank. Who says it so exactly is not told that a node has
// too few cores: the tasks share those of the job there, unless they are to have cores of their own (--exact).
Result<Layout> as_listed(const Tables& tables, const Job& job, const StepSpec& spec, const AllocationUse& use) {
  if (spec.only_nodes.size() > kStepTasksMax)
    return too_many_tasks(spec.only_nodes.size());
  if (!spec.multi_prog.empty() && spec.only_nodes.size() > spec.multi_prog.size())
    return too_few_programs(spec, spec.only_nodes.size());
  std::map<std::string_view, std::vector<std::uint32_t>> wanted;
  for (std::uint32_t rank = 0; rank < spec.only_nodes.size(); ++rank) wanted[spec.only_nodes[rank]].push_back(rank);
  std::vector<Spot> spots;
  std::vector<std::vector<std::uint32_t>> ranks;
  const auto& grants = job.allocation->grants;
  for (std::uint32_t i = 0; i < grants.size() && !wanted.empty(); ++i) {
    const Node* node = tables.node(grants[i].node);
    const auto here = node && grants[i].group == spec.group && job.members[i] != MemberState::kStopped
                          ? wanted.find(node->meta.name)
                          : wanted.end();
    if (here == wanted.end())
      continue;
    auto spot = spot_on(job, i, *node, spec, use);
    if (!spot)
      return Layout();
    spot->tasks = static_cast<std::uint32_t>(here->second.size());
    if (!takes_tasks(*spot, job, spec))
      return Layout();
    spots.push_back(*spot);
    ranks.push_back(std::move(here->second));
    wanted.erase(here);
  }
  if (!wanted.empty() || spots.empty())
    return Layout();
  return places_of(spots, job, spec, ranks);
}

struct Spots {
  std::vector<Spot> spots;     // in the order of the grants, each with room for a task
  std::uint32_t in_group = 0;  // grants of the step's group that are still there
};

Spots spots_with_room(const Tables& tables, const Job& job, const StepSpec& spec, const AllocationUse& use) {
  const auto& grants = job.allocation->grants;
  const NameSet excluded(spec.exclude_nodes);
  Spots out;
  std::uint32_t passed_over = 0;
  for (std::uint32_t i = 0; i < grants.size(); ++i) {
    if (grants[i].group != spec.group || job.members[i] == MemberState::kStopped)
      continue;
    ++out.in_group;
    const Node* node = tables.node(grants[i].node);
    if (!node || excluded.has(node->meta.name))
      continue;
    if (passed_over < spec.relative) {
      ++passed_over;
      continue;
    }
    auto spot = spot_on(job, i, *node, spec, use);
    if (!spot)
      continue;
    spot->capacity = capacity_of(*spot, job, spec);
    if (spot->capacity > 0)
      out.spots.push_back(*spot);
  }
  return out;
}

// How many nodes: as asked, else those named, else no more than there are tasks.
std::size_t nodes_wanted(const StepSpec& spec, std::uint32_t in_group) {
  if (spec.nodes.max != 0)
    return spec.nodes.max;
  const std::size_t all =
      spec.only_nodes.empty() ? in_group - std::min(in_group, spec.relative) : spec.only_nodes.size();
  return spec.tasks > 0 && spec.nodes.min == 0 ? std::min<std::size_t>(all, spec.tasks) : all;
}

// How many tasks: as asked, else so many on each node, else those that were planned for these nodes.
std::uint32_t tasks_wanted(const StepSpec& spec, const std::vector<Spot>& spots) {
  const auto nodes = static_cast<std::uint32_t>(spots.size());
  if (spec.tasks > 0)
    return spec.tasks;
  if (spec.tasks_per_node > 0)
    return spec.tasks_per_node * nodes;
  if (spec.nodes.max > 0)
    return nodes;
  return std::accumulate(spots.begin(), spots.end(), 0u,
                         [](std::uint32_t sum, const Spot& s) { return sum + s.grant->tasks; });
}

// The nodes for the step, in the order of the grants; none: too few have room now. Those named come before others.
std::vector<Spot> choose_spots(Spots from, const StepSpec& spec) {
  std::vector<Spot>& spots = from.spots;
  const NameSet wanted(spec.only_nodes);
  const auto is_required = [&](const Spot& spot) { return wanted.has(spot.node->meta.name); };
  const auto others = std::stable_partition(spots.begin(), spots.end(), is_required);
  const auto required = static_cast<std::size_t>(others - spots.begin());
  if (required < spec.only_nodes.size())
    return {};
  const std::size_t least = spec.nodes.max > 0 || spec.tasks == 0 ? spec.nodes.min : std::max(spec.nodes.min, 1u);
  if (spots.size() < std::max<std::size_t>(least, 1))
    return {};
  // Without a count of nodes, one that holds every task is better than many; a plain step spreads as planned.
  std::size_t nodes = nodes_wanted(spec, from.in_group);
  if (spots.size() < nodes) {
    if (spec.nodes.min == 0 && spec.tasks == 0)
      return {};
    nodes = spots.size();
  }
  spots.resize(nodes);
  std::sort(spots.begin(), spots.end(), [](const Spot& a, const Spot& b) { return a.grant_index < b.grant_index; });
  return spots;
}

Result<Layout> try_layout(const Tables& tables, const Job& job, const StepSpec& spec, const AllocationUse& use) {
  if (spec.distribution == "arbitrary")
    return as_listed(tables, job, spec, use);
  std::vector<Spot> spots = choose_spots(spots_with_room(tables, job, spec, use), spec);
  if (spots.empty())
    return Layout();
  const std::uint32_t tasks = tasks_wanted(spec, spots);
  if (tasks > kStepTasksMax)
    return too_many_tasks(tasks);
  if (!spec.multi_prog.empty() && tasks > spec.multi_prog.size())
    return too_few_programs(spec, tasks);
  const std::uint64_t room = std::accumulate(spots.begin(), spots.end(), std::uint64_t{0},
                                             [](std::uint64_t sum, const Spot& s) { return sum + s.capacity; });
  if (tasks < spots.size() || tasks > room)
    return Layout();
  if (const std::uint32_t each = tasks_of_gpu(spec))
    bound_by_gpus(spots, tasks, each);
  share_tasks(spots, tasks);
  std::erase_if(spots, [](const Spot& spot) { return spot.tasks == 0; });
  return places_of(spots, job, spec, ranks_of(spots, spec));
}

StepSpec without_devices(StepSpec spec) {
  spec.devices_per_node.clear();
  spec.devices_per_task.clear();
  spec.devices_total = 0;
  return spec;
}

StepSpec without_memory(StepSpec spec) {
  spec.memory_mb = -1;
  return spec;
}

StepSpec overcommitted(StepSpec spec) {
  spec.overcommit = true;
  return spec;
}

std::uint32_t cores_granted(const Job& job, std::uint16_t group) {
  std::uint32_t count = 0;
  for (const Grant& grant : job.allocation->grants) count += grant.group == group ? grant.cores.count() : 0;
  return count;
}

Error too_few_cores(const Job& job, const StepSpec& spec) {
  const std::string asked = spec.tasks > 0 ? format("{} task(s)", spec.tasks) : std::string("tasks");
  return {Errc::kInvalid,
          format("More processors requested than permitted: job {} holds {} core(s) on {} node(s), which are too few "
                 "for {} of {} core(s) each: ask for fewer, or with --overcommit",
                 job.id.value, cores_granted(job, spec.group), job.allocation->grants.size(), asked,
                 cores_per_task(job, spec)),
          "tasks"};
}

Error too_little_memory(const Job& job, const StepSpec& spec) {
  std::int64_t most = 0;
  for (const Grant& grant : job.allocation->grants)
    most = std::max(most, grant.group == spec.group ? grant.memory_mb : 0);
  return {Errc::kInvalid,
          format("Memory required by task is not available: the step asks for {} MB on a node, of which job {} holds "
                 "{}",
                 spec.memory_mb, job.id.value, most),
          "memory"};
}

bool has_type(const Tables& tables, const Job& job, const StepSpec& spec, const DeviceAsk& ask) {
  return std::any_of(job.allocation->grants.begin(), job.allocation->grants.end(), [&](const Grant& grant) {
    const Node* node = tables.node(grant.node);
    bool found = false;
    if (node && grant.group == spec.group)
      grant.visible().for_each([&](std::uint32_t i) {
        found |= i < node->devices.size() && node->devices[i].kind == ask.kind && node->devices[i].type == ask.type;
      });
    return found;
  });
}

// A type of which the job has none, as asked for; "": there is no such.
std::string missing_type(const Tables& tables, const Job& job, const StepSpec& spec) {
  for (const auto* asks : {&spec.devices_per_node, &spec.devices_per_task})
    for (const DeviceAsk& ask : *asks)
      if (!ask.type.empty() && !has_type(tables, job, spec, ask))
        return format("{}:{}", ask.kind, ask.type);
  return {};
}

std::uint32_t devices_granted(const Job& job, std::uint16_t group) {
  std::uint32_t count = 0;
  for (const Grant& grant : job.allocation->grants)
    count += grant.group == group ? grant.devices.count() + static_cast<std::uint32_t>(grant.parts.size()) : 0;
  return count;
}

Result<void> check_named_nodes(const Tables& tables, const Job& job, const StepSpec& spec) {
  if (spec.only_nodes.empty())
    return {};
  std::unordered_set<std::uint32_t> granted;
  for (const Grant& grant : job.allocation->grants) granted.insert(grant.node.value);
  for (const std::string& name : spec.only_nodes) {
    const Node* node = tables.node(name);
    if (!node || !granted.contains(node->id.value))
      return Error{Errc::kInvalid, format("Requested nodes are not in the job's allocation: {}", name), "only_nodes"};
  }
  return {};
}

// --relative counts among the nodes of the step's own component.
Result<void> check_relative(const Job& job, const StepSpec& spec) {
  const auto& grants = job.allocation->grants;
  const auto nodes = std::count_if(grants.begin(), grants.end(), [&](const Grant& g) { return g.group == spec.group; });
  if (spec.relative == 0 || std::cmp_less(spec.relative, nodes))
    return {};
  return Error{Errc::kInvalid,
               format("the step is to begin at node {}, counted from 0, but job {} holds {}", spec.relative,
                      job.id.value, nodes),
               "relative"};
}

}  // namespace

Result<Layout> lay_out_step(const Tables& tables, const Job& job, const StepSpec& spec, const AllocationUse& use) {
  CHECK(job.allocation != nullptr);
  if (spec.group >= job.spec->groups.size())
    return invalid(format("job {} has no het group {}", job.id.value, spec.group));
  if (spec.tasks > kStepTasksMax)
    return too_many_tasks(spec.tasks);
  if (spec.tasks > std::uint64_t{kTasksPerNodeMax} * job.allocation->grants.size())
    return invalid(format("asks for {} tasks on {} node(s); a node takes {} of one step at most", spec.tasks,
                          job.allocation->grants.size(), kTasksPerNodeMax),
                   "tasks");
  TRY(check_named_nodes(tables, job, spec));
  TRY(check_relative(job, spec));
  auto places = TRY(try_layout(tables, job, spec, use));
  if (places)
    return places;
  if (TRY(try_layout(tables, job, spec, {})))
    return Layout();
  if (const std::string type = missing_type(tables, job, spec); !type.empty())
    return invalid(format("Invalid generic resource (gres) specification: {} is not among the devices of job {}", type,
                          job.id.value));
  if (spec.memory_mb > 0 && TRY(try_layout(tables, job, without_memory(spec), {})))
    return too_little_memory(job, spec);
  if (names_devices(spec) && TRY(try_layout(tables, job, without_devices(spec), {})))
    return unavailable_configuration(format("the {} device(s) that job {} holds on {} node(s) are too few for the step",
                                            devices_granted(job, spec.group), job.id.value,
                                            job.allocation->grants.size()));
  if (!spec.overcommit && TRY(try_layout(tables, job, overcommitted(spec), {})))
    return too_few_cores(job, spec);
  return unavailable_configuration(format("job {} holds {} node(s); the step asks for more than they were granted",
                                          job.id.value, job.allocation->grants.size()));
}

}  // namespace lockstep
