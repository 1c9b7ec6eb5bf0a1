#include "sched/place.h"

#include <algorithm>
#include <numeric>

#include "base/hostlist.h"

namespace lockstep {

namespace {

constexpr int kOrdersMax = 24;  // of a job's groups: all of up to four

std::uint32_t devices_asked(const GroupSpec& group) {
  std::uint32_t count = 0;
  for (const DeviceAsk& ask : group.per_node.devices) count += ask.count;
  for (const DeviceAsk& ask : group.per_task.devices) count += ask.count;
  return count;
}

// How many candidates to try before taking in all of them; 0 = all at once.
std::size_t first_try(const GroupSpec& group) {
  if (!group.only_nodes.empty() || group.tasks.max == UINT32_MAX || !group.topology_level.empty())
    return 0;
  std::size_t nodes = group.nodes.max;
  if (nodes == 0)
    nodes = group.tasks_per_node == 0 ? group.tasks.max : group.tasks.max / group.tasks_per_node + 1;
  return 4 * nodes + 16;
}

// The loads a placement is tried on: the view's own, or a supposed future.
class Board {
 public:
  Board(PlannerView& view, std::vector<NodeLoad>* supposed) : view_(view), supposed_(supposed) {}
  NodeLoad& load(NodeId id) { return supposed_ ? (*supposed_)[id.value] : view_.nodes()[id.value].load; }
  void hold(const Grant& grant) { add_grant(load(grant.node), grant); }

  PlannerView& view_;
  std::vector<NodeLoad>* supposed_;
};

// Candidates in the order of `ids` until `enough` of them (0 = all); false when the ids ran out.
template <class Ids>
bool gather(Board& board, const Ids& ids, const GroupSpec& group, const Partition& partition,
            const std::vector<bool>& members, std::span<const Shadow* const> avoid, bool any_state, std::size_t enough,
            std::vector<Candidate>& out) {
  const std::uint32_t devices = devices_asked(group);
  for (const auto& entry : ids) {
    NodeId id;
    if constexpr (std::is_same_v<std::decay_t<decltype(entry)>, FreeKey>)
      id = entry.node;
    else if (entry.node)
      id = entry.node->id;
    else
      continue;
    if (id.value >= members.size() || !members[id.value])
      continue;
    const Node& node = *board.view_.nodes()[id.value].node;
    if (!any_state && !node_usable(node))
      continue;
    const NodeLoad& load = board.load(id);
    if (load.whole_holders > 0 || (group.sharing == Sharing::kExclusive && load.holders > 0) ||
        load.devices.count() + devices > node.devices.size())
      continue;
    if (std::any_of(avoid.begin(), avoid.end(),
                    [&](const Shadow* s) { return id.value < s->nodes.size() && s->nodes[id.value]; }))
      continue;
    // Whether its tasks really fit is place_group's to say; this only keeps the list short.
    if (load.cores.count() >= node.cores || !eligible(node, partition, group))
      continue;
    out.push_back({&node, &load});
    if (out.size() == enough)
      return true;
  }
  return false;
}

// One group after the other in the given order.
std::optional<std::vector<Grant>> place_in_order(Board& board, const JobSpec& spec,
                                                 std::span<const std::uint16_t> order, const Partition& partition,
                                                 std::span<const Shadow* const> avoid, bool any_state, bool preferred) {
  const std::vector<bool>& members = board.view_.members(partition.meta.name);
  std::vector<Grant> all;
  std::vector<std::pair<NodeId, NodeLoad>> before;  // undone in the end
  bool fits = true;
  for (const std::uint16_t g : order) {
    const GroupSpec& group = spec.groups[g];
    std::optional<std::vector<Grant>> grants;
    for (std::size_t enough = first_try(group);; enough = 0) {
      std::vector<Candidate> candidates;
      const bool cut =
          preferred
              ? gather(board, board.view_.free(), group, partition, members, avoid, any_state, enough, candidates)
              : gather(board, board.view_.nodes(), group, partition, members, avoid, any_state, enough, candidates);
      if (!candidates.empty())
        grants = place_group(candidates, group, g);
      if (grants || !cut)
        break;
    }
    fits = grants.has_value();
    if (!fits)
      break;
    for (Grant& grant : *grants) {
      before.emplace_back(grant.node, board.load(grant.node));
      board.hold(grant);
      all.push_back(std::move(grant));
    }
  }
  for (auto it = before.rbegin(); it != before.rend(); ++it) board.load(it->first) = it->second;
  if (!fits || (partition.nodes_max != 0 && all.size() > partition.nodes_max))
    return std::nullopt;
  return all;
}

std::optional<std::vector<Grant>> place(Board board, const JobSpec& spec, const Partition& partition,
                                        std::span<const Shadow* const> avoid, bool any_state, bool preferred) {
  std::vector<std::uint16_t> order(spec.groups.size());
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  // One group may take the only node that another could use, so several orders are tried.
  for (int tries = 0; tries < kOrdersMax; ++tries) {
    if (auto grants = place_in_order(board, spec, order, partition, avoid, any_state, preferred)) {
      std::stable_sort(grants->begin(), grants->end(),
                       [](const Grant& a, const Grant& b) { return a.group < b.group; });
      return grants;
    }
    if (!std::next_permutation(order.begin(), order.end()))
      break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Grant>> place_now(PlannerView& view, const JobSpec& spec, const Partition& partition,
                                            std::span<const Shadow* const> avoid) {
  return place(Board(view, nullptr), spec, partition, avoid, false, true);
}

bool may_fit(const PlannerView& view, const JobSpec& spec) {
  std::uint64_t devices = 0;
  for (const GroupSpec& group : spec.groups) {
    const std::uint32_t nodes = std::max(1u, group.nodes.min);
    if (nodes > view.free().size())
      return false;
    for (const DeviceAsk& ask : group.per_node.devices) devices += std::uint64_t{nodes} * ask.count;
    for (const DeviceAsk& ask : group.per_task.devices) devices += std::uint64_t{group.tasks.min} * ask.count;
    for (const DeviceAsk& ask : group.per_job) devices += ask.count;
  }
  return devices <= view.free_devices();
}

std::optional<Shadow> place_later(PlannerView& view, const JobSlot& slot, const Partition& partition, Instant now) {
  const std::vector<PlannerView::Release> releases = view.releases();
  // With the first `count` of them over: what the others hold.
  const auto after = [&](std::size_t count) {
    std::vector<NodeLoad> loads(view.nodes().size());
    for (std::size_t i = count; i < releases.size(); ++i)
      for (const Grant& grant : *releases[i].grants) add_grant(loads[grant.node.value], grant);
    return place(Board(view, &loads), *slot.job->spec, partition, {}, false, false);
  };
  // More ends, more room: the fewest ends that suffice are found by halving.
  std::size_t low = 0, high = releases.size();
  auto found = after(high);
  if (!found)
    return std::nullopt;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (auto grants = after(middle)) {
      found = std::move(grants);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  Shadow shadow{.key = slot.key, .partition = partition.meta.name, .at = now, .made = now};
  if (high > 0)
    shadow.at = std::max(now, releases[high - 1].at);
  shadow.nodes.assign(view.nodes().size(), false);
  for (const Grant& grant : *found) {
    if (!shadow.nodes[grant.node.value])
      shadow.ids.push_back(grant.node);
    shadow.nodes[grant.node.value] = true;
  }
  return shadow;
}

namespace {

// What was found before still stands: the same nodes are there and can be used.
bool witness_holds(PlannerView& view, const Shape& shape) {
  return !shape.witness.empty() && shape.partitions == view.partition_generation &&
         std::all_of(shape.witness.begin(), shape.witness.end(),
                     [&](const auto& w) { return view.nodes()[w.first.value].version == w.second; });
}

Wait find_never(PlannerView& view, Shape& shape) {
  const JobSpec& spec = *shape.spec;
  std::string& detail = shape.detail;
  detail.clear();
  shape.witness.clear();
  std::vector<NodeLoad> empty(view.nodes().size());
  Wait worst = Wait::kPartitionDown;
  std::vector<std::string> missing;
  for (const Partition* partition : view.partitions_of(spec)) {
    if (!partition->up)
      continue;
    if (limit_in(spec, *partition) > partition->time_max) {
      worst = Wait::kPartitionTimeLimit;
      continue;
    }
    if (const auto grants = place(Board(view, &empty), spec, *partition, {}, false, false)) {
      for (const Grant& grant : *grants) shape.witness.emplace_back(grant.node, view.nodes()[grant.node.value].version);
      shape.partitions = view.partition_generation;
      return Wait::kNone;
    }
    if (!place(Board(view, &empty), spec, *partition, {}, true, false)) {
      worst = Wait::kBadConstraints;
      continue;
    }
    // It would fit if the nodes that are down or drained were not.
    worst = Wait::kNodesUnavailable;
    std::set<std::string> named;
    for (const GroupSpec& group : spec.groups) named.insert(group.only_nodes.begin(), group.only_nodes.end());
    const std::vector<bool>& members = view.members(partition->meta.name);
    for (const NodeSlot& slot : view.nodes())
      if (slot.node && !node_usable(*slot.node) && members[slot.node->id.value] &&
          (named.empty() || named.contains(slot.node->meta.name)))
        missing.push_back(slot.node->meta.name);
  }
  if (worst == Wait::kNodesUnavailable) {
    sort_hosts(missing);
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    detail = "UnavailableNodes:" + compress_hostlist(missing);
  }
  return worst;
}

}  // namespace

Wait never_starts(PlannerView& view, Shape& shape) {
  if (shape.generation != view.generation) {
    shape.generation = view.generation;
    if (!witness_holds(view, shape))
      shape.never = find_never(view, shape);
  }
  return shape.never;
}

}  // namespace lockstep
