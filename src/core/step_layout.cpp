#include "core/step_layout.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "base/text.h"
#include "model/bounds.h"
#include "rules/name_set.h"
#include "rules/need.h"

namespace lockstep {

namespace {

struct Spot {
  std::uint32_t grant_index = 0;
  const Grant* grant = nullptr;
  const Node* node = nullptr;
  CoreSet cores;  // the step may take
  DeviceSet devices;
  std::uint32_t capacity = 0;  // tasks
  std::uint32_t tasks = 0;
};

bool asks_for_devices(const StepSpec& spec) {
  return !spec.devices_per_node.empty() || !spec.devices_per_task.empty() || spec.devices_total > 0;
}

std::uint32_t cores_per_task(const Job& job, const StepSpec& spec) {
  const GroupSpec& group = job.spec->groups[spec.group];
  return std::max({1u, spec.cores_per_task, spec.cores_per_task ? 0u : group.per_task.cores});
}

std::vector<DeviceAsk> asks_on(const StepSpec& spec, std::uint32_t tasks) {
  std::vector<DeviceAsk> asks;
  for (const DeviceAsk& ask : spec.devices_per_node)
    if (ask.count > 0)
      asks.push_back(ask);
  for (const DeviceAsk& ask : spec.devices_per_task)
    if (ask.count > 0)
      asks.push_back({ask.kind, ask.type, ask.count * tasks});
  std::stable_sort(asks.begin(), asks.end(),
                   [](const DeviceAsk& a, const DeviceAsk& b) { return !a.type.empty() && b.type.empty(); });
  return asks;
}

std::uint32_t capacity_of(const Spot& spot, const Job& job, const StepSpec& spec) {
  std::uint32_t tasks =
      spec.overcommit || spec.overlap ? kTasksPerNodeMax : spot.cores.count() / cores_per_task(job, spec);
  // The job may have been granted fewer cores than tasks (overcommit): what was planned there always fits.
  if (!spec.exact && spot.cores == spot.grant->cores)
    tasks = std::max(tasks, spot.grant->tasks);
  tasks = std::min(tasks, kTasksPerNodeMax);
  if (spec.tasks_per_node > 0)
    tasks = std::min(tasks, spec.tasks_per_node);
  if (!spec.devices_per_task.empty())
    while (tasks > 0 && !choose_devices(*spot.node, spot.devices, asks_on(spec, std::min(tasks, 64u))))
      tasks = std::min(tasks, 64u) - 1;
  else if (!spec.devices_per_node.empty() && !choose_devices(*spot.node, spot.devices, asks_on(spec, 1)))
    tasks = 0;
  return tasks;
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

std::vector<std::vector<std::uint32_t>> ranks_of(const std::vector<Spot>& spots, const StepSpec& spec) {
  std::vector<std::vector<std::uint32_t>> ranks(spots.size());
  std::uint32_t next = 0;
  if (spec.distribution.starts_with("cyclic")) {
    std::vector<std::size_t> open(spots.size());  // with tasks that have no rank yet
    for (std::iota(open.begin(), open.end(), std::size_t{0}); !open.empty();) {
      for (const std::size_t i : open) ranks[i].push_back(next++);
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

// What a finished choice of spots takes, in rank order.
Result<std::optional<std::vector<StepPlace>>> places_of(const std::vector<Spot>& spots, const Job& job,
                                                        const StepSpec& spec) {
  const auto ranks = ranks_of(spots, spec);
  std::uint32_t total_left = spec.devices_total;
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
      if (spec.devices_total > 0) {
        const auto still_to_come = static_cast<std::uint32_t>(spots.size() - 1 - i);
        const std::uint32_t here =
            std::min(total_left > still_to_come ? total_left - still_to_come : 0u, spot.devices.count());
        if (here > 0)
          asks.push_back({"gpu", "", here});
        total_left -= here;
      }
      const auto chosen = choose_devices(*spot.node, spot.devices, asks);
      if (!chosen)
        return std::optional<std::vector<StepPlace>>();
      place.devices = *chosen;
    }
    places.push_back(std::move(place));
  }
  if (total_left > 0)
    return std::optional<std::vector<StepPlace>>();
  return std::optional(std::move(places));
}

Result<std::optional<std::vector<StepPlace>>> try_layout(const Tables& tables, const Job& job, const StepSpec& spec,
                                                         const AllocationUse& use) {
  const auto& grants = job.allocation->grants;
  const NameSet excluded(spec.exclude_nodes), wanted(spec.only_nodes);
  std::vector<Spot> spots;
  std::uint32_t in_group = 0, passed_over = 0;
  for (std::uint32_t i = 0; i < grants.size(); ++i) {
    const Grant& grant = grants[i];
    if (grant.group != spec.group || job.members[i] == MemberState::kStopped)
      continue;
    ++in_group;
    const Node* node = tables.node(grant.node);
    if (!node || excluded.has(node->meta.name))
      continue;
    if (passed_over < spec.relative) {
      ++passed_over;
      continue;
    }
    Spot spot{i, &grant, node, grant.cores, grant.devices, 0, 0};
    if (const auto used = use.find(i); used != use.end() && !spec.overlap) {
      if (!spec.exact && used->second.any)
        continue;  // a plain step wants the node's share for itself
      spot.cores = spot.cores.minus(used->second.cores);
      spot.devices = spot.devices.minus(used->second.devices);
    }
    spot.capacity = capacity_of(spot, job, spec);
    if (spot.capacity > 0)
      spots.push_back(spot);
  }
  const auto is_required = [&](const Spot& spot) { return wanted.has(spot.node->meta.name); };
  std::stable_partition(spots.begin(), spots.end(), is_required);
  const auto required = static_cast<std::size_t>(std::count_if(spots.begin(), spots.end(), is_required));
  if (required < spec.only_nodes.size())
    return std::optional<std::vector<StepPlace>>();

  // How many nodes: as asked, else those named, else no more than there are tasks.
  std::uint32_t tasks = spec.tasks;
  std::size_t nodes = spec.nodes.max;
  if (nodes == 0) {
    nodes = spec.only_nodes.empty() ? in_group - std::min(in_group, spec.relative) : spec.only_nodes.size();
    if (tasks > 0 && spec.nodes.min == 0)
      nodes = std::min<std::size_t>(nodes, tasks);
  }
  const std::size_t least =
      std::max<std::size_t>(spec.nodes.min, spec.nodes.max > 0 || tasks == 0 ? spec.nodes.min : 1);
  if (spots.size() < std::max<std::size_t>(least, 1))
    return std::optional<std::vector<StepPlace>>();
  // Without a count of nodes, one that holds every task is better than many; a plain step spreads as planned.
  if (spots.size() < nodes) {
    if (spec.nodes.min == 0 && tasks == 0)
      return std::optional<std::vector<StepPlace>>();
    nodes = spots.size();
  }
  spots.resize(nodes);
  std::sort(spots.begin(), spots.end(), [](const Spot& a, const Spot& b) { return a.grant_index < b.grant_index; });
  if (tasks == 0) {
    if (spec.tasks_per_node > 0)
      tasks = spec.tasks_per_node * static_cast<std::uint32_t>(nodes);
    else if (spec.nodes.max > 0)
      tasks = static_cast<std::uint32_t>(nodes);
    else
      tasks = std::accumulate(spots.begin(), spots.end(), 0u,
                              [](std::uint32_t sum, const Spot& s) { return sum + s.grant->tasks; });
  }
  if (tasks > kStepTasksMax)
    return too_many_tasks(tasks);
  if (!spec.multi_prog.empty() && tasks > spec.multi_prog.size())
    return invalid(format("names programs for {} tasks; the step has {}", spec.multi_prog.size(), tasks), "multi_prog");
  const std::uint64_t room = std::accumulate(spots.begin(), spots.end(), std::uint64_t{0},
                                             [](std::uint64_t sum, const Spot& s) { return sum + s.capacity; });
  if (tasks < spots.size() || tasks > room)
    return std::optional<std::vector<StepPlace>>();
  share_tasks(spots, tasks);
  std::erase_if(spots, [](const Spot& spot) { return spot.tasks == 0; });
  return places_of(spots, job, spec);
}

}  // namespace

Result<std::optional<std::vector<StepPlace>>> lay_out_step(const Tables& tables, const Job& job, const StepSpec& spec,
                                                           const AllocationUse& use) {
  CHECK(job.allocation != nullptr);
  if (spec.group >= job.spec->groups.size())
    return invalid(format("job {} has no het group {}", job.id.value, spec.group));
  if (spec.tasks > kStepTasksMax)
    return too_many_tasks(spec.tasks);
  if (spec.tasks > std::uint64_t{kTasksPerNodeMax} * job.allocation->grants.size())
    return invalid(format("asks for {} tasks on {} node(s); a node takes {} of one step at most", spec.tasks,
                          job.allocation->grants.size(), kTasksPerNodeMax),
                   "tasks");
  std::unordered_set<std::uint32_t> granted;
  if (!spec.only_nodes.empty())
    for (const Grant& grant : job.allocation->grants) granted.insert(grant.node.value);
  for (const std::string& name : spec.only_nodes) {
    const Node* node = tables.node(name);
    if (!node || !granted.contains(node->id.value))
      return Error{Errc::kInvalid, format("Requested nodes are not in the job's allocation: {}", name), "only_nodes"};
  }
  auto places = TRY(try_layout(tables, job, spec, use));
  if (places)
    return places;
  if (!TRY(try_layout(tables, job, spec, {})))
    return unavailable_configuration(format("job {} holds {} node(s); the step asks for more than they were granted",
                                            job.id.value, job.allocation->grants.size()));
  return std::optional<std::vector<StepPlace>>();
}

}  // namespace lockstep
