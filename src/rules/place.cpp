// A group over candidate nodes: which of them, and how many tasks on each. All or nothing.
#include <algorithm>
#include <numeric>

#include "model/spec.h"
#include "rules/fit.h"
#include "rules/growth.h"
#include "rules/need.h"
#include "rules/topology.h"

namespace lockstep {

namespace {

struct Choice {
  const Candidate* candidate = nullptr;
  std::uint32_t capacity = 0;  // tasks that fit
  std::uint32_t tasks = 0;
  std::uint32_t extra = 0;  // per_job devices placed here
  bool required = false;    // named by only_nodes
};

std::uint64_t capacity_of(const std::vector<Choice>& choices) {
  return std::accumulate(choices.begin(), choices.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Choice& c) { return sum + c.capacity; });
}

// No fewer nodes than these hold so many tasks, whichever are taken; more than there are: all do not.
std::size_t nodes_for(const std::vector<Choice>& all, std::uint64_t tasks) {
  std::vector<std::uint32_t> capacities;
  for (const Choice& choice : all) capacities.push_back(choice.capacity);
  std::sort(capacities.begin(), capacities.end(), std::greater<>());
  std::size_t count = 0;
  std::uint64_t sum = 0;
  while (sum < tasks && count < capacities.size()) sum += capacities[count++];
  return sum < tasks ? all.size() + 1 : count;
}

// Exactly n nodes that hold at least `tasks` together: the first n in order of preference, the weakest of them given up
// for stronger ones only as far as needed. Required nodes stay.
std::optional<std::vector<Choice>> pick(const std::vector<Choice>& all, std::size_t n, std::uint64_t tasks) {
  if (n > all.size())
    return std::nullopt;
  std::vector<Choice> chosen(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
  std::vector<Choice> rest(all.begin() + static_cast<std::ptrdiff_t>(n), all.end());
  std::stable_sort(rest.begin(), rest.end(), [](const Choice& a, const Choice& b) { return a.capacity > b.capacity; });
  std::uint64_t sum = capacity_of(chosen);
  for (const Choice& stronger : rest) {
    if (sum >= tasks)
      break;
    const auto weakest = std::min_element(chosen.begin(), chosen.end(), [](const Choice& a, const Choice& b) {
      return std::pair(a.required, a.capacity) < std::pair(b.required, b.capacity);
    });
    if (weakest->required || weakest->capacity >= stronger.capacity)
      break;
    sum += stronger.capacity - weakest->capacity;
    *weakest = stronger;
  }
  if (sum < tasks)
    return std::nullopt;
  return chosen;
}

// Evenly, the first nodes one more, none above its capacity, each at least one.
void spread_tasks(std::vector<Choice>& chosen, std::uint32_t tasks) {
  std::uint64_t left = tasks;
  while (left > 0) {
    const auto open = static_cast<std::uint64_t>(
        std::count_if(chosen.begin(), chosen.end(), [](const Choice& c) { return c.tasks < c.capacity; }));
    CHECK(open > 0);
    const std::uint64_t each = std::max<std::uint64_t>(1, left / open);
    for (Choice& c : chosen) {
      const std::uint64_t here = std::min<std::uint64_t>({each, left, c.capacity - c.tasks});
      c.tasks += static_cast<std::uint32_t>(here);
      left -= here;
      if (left == 0)
        break;
    }
  }
}

// per_job devices: at least one on every node, then as many as the first nodes have room for, with the cores and the
// memory that go with them. Evenly: as far as they can be divided.
bool spread_devices(std::vector<Choice>& chosen, const GroupSpec& group, bool evenly) {
  std::uint32_t left = devices_per_job(group);
  if (left == 0)
    return true;
  if (left < chosen.size())
    return false;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    Choice& c = chosen[i];
    const Node& node = *c.candidate->node;
    const NodeLoad& load = *c.candidate->load;
    const auto to_come = static_cast<std::uint32_t>(chosen.size() - 1 - i);
    const std::uint32_t most = evenly ? (left + to_come) / (to_come + 1) : left - to_come;
    std::uint32_t here = std::min(most, free_devices(node, load).count());
    while (here > 0 && !choose_grant(node, load, group, 0, std::max(1u, c.tasks), here)) --here;
    if (here == 0)
      return false;
    c.extra = here;
    left -= here;
  }
  return left == 0;
}

// Tasks are where the devices of the job are: each node has its share of them as far as it has room, none is without.
void follow_devices(std::vector<Choice>& chosen, const GroupSpec& group, std::uint32_t tasks) {
  const std::uint64_t devices = devices_per_job(group);
  std::uint64_t before = 0, given = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    before += chosen[i].extra;
    const std::uint64_t to_come = chosen.size() - 1 - i;
    const std::uint64_t so_far = std::min<std::uint64_t>((before * tasks + devices / 2) / devices, tasks - to_come);
    chosen[i].tasks =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(so_far - std::min(so_far, given), 1, chosen[i].capacity));
    given += chosen[i].tasks;
  }
  for (Choice& c : chosen) {  // what others had no room for
    const std::uint64_t more = std::min<std::uint64_t>(tasks - given, c.capacity - c.tasks);
    c.tasks += static_cast<std::uint32_t>(more);
    given += more;
  }
}

// Whether tasks and devices have found their nodes.
bool share_out(std::vector<Choice>& chosen, const GroupSpec& group, std::uint32_t tasks) {
  const bool devices_first = devices_per_job(group) > 0 && group.per_task.devices.empty() && tasks >= chosen.size();
  if (!devices_first) {
    spread_tasks(chosen, tasks);
    return spread_devices(chosen, group, false);
  }
  const std::uint32_t devices = devices_per_job(group);
  const bool evenly = group.tasks_per_node_exact || (tasks > devices && tasks % devices == 0);  // several for each
  if (!(evenly && spread_devices(chosen, group, true)) && !spread_devices(chosen, group, false))
    return false;
  follow_devices(chosen, group, tasks);
  return true;
}

std::optional<std::vector<Grant>> grants_for(std::vector<Choice> chosen, const GroupSpec& group,
                                             std::uint16_t group_index, std::uint32_t tasks) {
  // Ranks follow the tree, neighbours beside each other; without one the host list that users see, which is sorted.
  std::sort(chosen.begin(), chosen.end(),
            [](const Choice& a, const Choice& b) { return before_on_tree(*a.candidate->node, *b.candidate->node); });
  if (!share_out(chosen, group, tasks))
    return std::nullopt;
  std::vector<Grant> grants;
  for (const Choice& c : chosen) {
    auto grant = choose_grant(*c.candidate->node, *c.candidate->load, group, group_index, c.tasks, c.extra);
    if (!grant)
      return std::nullopt;
    grants.push_back(std::move(*grant));
  }
  return grants;
}

// The nodes that a group may lie on, those named first, and how many of them it takes.
struct Field {
  std::vector<Choice> all;
  std::size_t must = 0;  // of those named: all, unless fewer nodes than named are wanted
  std::size_t least = 1, most = 0;
};

std::vector<Choice> choices_with_room(const std::vector<Candidate>& candidates, const GroupSpec& group) {
  std::vector<Choice> all;
  const NameSet named(group.only_nodes);
  for (const Candidate& candidate : candidates) {
    Choice choice;
    choice.candidate = &candidate;
    choice.capacity = tasks_that_fit(*candidate.node, *candidate.load, group);
    if (choice.capacity == 0)
      continue;
    choice.required = named.has(candidate.node->meta.name);
    all.push_back(choice);
  }
  return all;
}

// Nullopt: there are too few nodes with room, or of those named.
std::optional<Field> field_of(std::vector<Choice> all, const GroupSpec& group) {
  Field out;
  const auto others = std::stable_partition(all.begin(), all.end(), [](const Choice& c) { return c.required; });
  const auto required = static_cast<std::size_t>(others - all.begin());
  out.must =
      group.nodes.max > 0 ? std::min<std::size_t>(group.only_nodes.size(), group.nodes.max) : group.only_nodes.size();
  if (required < out.must)
    return std::nullopt;
  out.least = std::max<std::size_t>({group.nodes.min, out.must, 1});
  out.most = group.nodes.max > 0 ? group.nodes.max : all.size();
  out.most = std::min({out.most, all.size(), static_cast<std::size_t>(group.tasks.max)});
  if (out.least > out.most)
    return std::nullopt;
  if (const std::uint32_t devices = devices_per_job(group); devices > 0)
    out.most = std::min<std::size_t>(out.most, devices);
  out.all = std::move(all);
  return out;
}

using Placed = std::optional<std::vector<Grant>>;

// One task on every node there is.
Placed place_on_all(std::vector<Choice> all, const GroupSpec& group, std::uint16_t group_index) {
  if (all.empty())
    return std::nullopt;
  for (Choice& c : all) c.capacity = 1;
  const auto count = static_cast<std::uint32_t>(all.size());
  return grants_for(std::move(all), group, group_index, count);
}

// Elastic: as many tasks as there is room for.
Placed place_most(const Field& field, const GroupSpec& group, std::uint16_t group_index, std::size_t enough) {
  for (std::size_t n = field.most; n >= std::max(field.least, enough); --n) {
    auto chosen = pick(field.all, n, std::max<std::uint64_t>(group.tasks.min, n));
    if (!chosen)
      continue;
    const auto tasks = static_cast<std::uint32_t>(std::min<std::uint64_t>(group.tasks.max, capacity_of(*chosen)));
    if (auto grants = grants_for(std::move(*chosen), group, group_index, tasks))
      return grants;
  }
  return std::nullopt;
}

// The first single node that holds everything.
Placed place_on_one(const Field& field, const GroupSpec& group, std::uint16_t group_index) {
  if (field.least > 1)
    return std::nullopt;
  for (const Choice& c : field.all) {
    if (c.capacity < group.tasks.min || (field.must == 1 && !c.required))
      continue;
    if (auto grants = grants_for({c}, group, group_index, group.tasks.min))
      return grants;
  }
  return std::nullopt;
}

// As few nodes as will do.
Placed place_fixed(const Field& field, const GroupSpec& group, std::uint16_t group_index, std::size_t enough) {
  if (auto grants = place_on_one(field, group, group_index))
    return grants;
  for (std::size_t n = std::max<std::size_t>({field.least, enough, 2}); n <= field.most; ++n)
    if (auto chosen = pick(field.all, n, std::max<std::uint64_t>(group.tasks.min, n)))
      if (auto grants = grants_for(std::move(*chosen), group, group_index, group.tasks.min))
        return grants;
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Grant>> place_group(const std::vector<Candidate>& candidates, const GroupSpec& group,
                                              std::uint16_t group_index) {
  std::vector<Choice> all = choices_with_room(candidates, group);
  if (wants_every_node(group))
    return place_on_all(std::move(all), group, group_index);
  const auto field = field_of(std::move(all), group);
  if (!field)
    return std::nullopt;
  const std::size_t enough = nodes_for(field->all, group.tasks.min);
  return group.tasks.min < group.tasks.max ? place_most(*field, group, group_index, enough)
                                           : place_fixed(*field, group, group_index, enough);
}

}  // namespace lockstep
