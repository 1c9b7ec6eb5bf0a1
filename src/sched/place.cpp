#include "sched/place.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/hostlist.h"

namespace lockstep {

namespace {

constexpr int kOrdersMax = 24;  // of a job's groups: all of up to four

// The loads a placement is tried on.
struct Board {
  PlannerView& view;
  std::function<const NodeLoad*(NodeId)> load;  // null: not to be used
  std::map<NodeId, NodeLoad> held;              // with what earlier groups of the job take
  const NodeLoad* at(NodeId id) const {
    const auto it = held.find(id);
    return it != held.end() ? &it->second : load(id);
  }
};

struct Choice {
  std::uint32_t weight = 0;
  FreeAmounts free;
  Candidate candidate;
};

// The order in which nodes are taken: light ones, then those with the least left, so that whole nodes stay free.
bool preferred(const Choice& a, const Choice& b) {
  return std::tie(a.weight, a.free.devices, a.free.cores, a.candidate.node->id) <
         std::tie(b.weight, b.free.devices, b.free.cores, b.candidate.node->id);
}

// How many candidates to try before taking in all of them; 0 = all at once.
std::size_t first_try(const GroupSpec& group, const GroupWay& way) {
  if (way.exact)
    return way.nodes;
  if (!group.only_nodes.empty() || group.tasks.max == UINT32_MAX || !group.topology_level.empty())
    return 0;
  std::size_t nodes = group.nodes.max;
  if (nodes == 0)
    nodes = group.tasks_per_node == 0 ? group.tasks.max : group.tasks.max / group.tasks_per_node + 1;
  return 4 * nodes + 16;
}

// Of the listed nodes with enough free, `enough` (0 = all) in order of preference; false when there are no more.
bool gather_listed(Board& board, const GroupSpec& group, const GroupWay& way, const Partition& partition,
                   std::size_t enough, std::vector<Candidate>& out) {
  std::vector<Choice> choices;
  bool cut = false;
  for (const ClassNeed& need : way.needs) {
    const NodeClass& cls = board.view.classes()[need.cls];
    for (const NodeIndex* index : {&cls.open, &cls.shaded}) {
      std::size_t found = 0;
      index->each(need.amounts, [&](NodeId id) {
        const NodeSlot& slot = board.view.nodes()[id.value];
        const NodeLoad* load = board.at(id);
        const Node& node = *slot.node;
        if (load != &slot.load && !free_on(cls, node, *load).covers(need.amounts))
          return true;
        if (slot.free.memory_mb < need.amounts.memory_mb ||
            (group.sharing == Sharing::kExclusive && load->holders > 0) ||
            (!way.exact && !eligible(node, partition, group)))
          return true;
        choices.push_back({node.weight, slot.free, {&node, load}});
        if (++found < enough || enough == 0)
          return true;
        cut = true;
        return false;
      });
    }
  }
  std::sort(choices.begin(), choices.end(), preferred);
  if (enough != 0 && choices.size() > enough) {
    choices.resize(enough);
    cut = true;
  }
  for (const Choice& choice : choices) out.push_back(choice.candidate);
  return cut;
}

// Every node of the classes that the board allows.
void gather_all(Board& board, const GroupSpec& group, const GroupWay& way, const Partition& partition,
                std::vector<Candidate>& out) {
  std::vector<bool> in(board.view.classes().size());
  for (const ClassNeed& need : way.needs) in[need.cls] = true;
  for (const NodeSlot& slot : board.view.nodes()) {
    if (!slot.node || !in[slot.cls])
      continue;
    const NodeLoad* load = board.at(slot.node->id);
    if (load && eligible(*slot.node, partition, group))
      out.push_back({slot.node.get(), load});
  }
}

// One group after the other in the given order.
std::optional<std::vector<Grant>> place_in_order(Board& board, const JobSpec& spec, const Way& way,
                                                 std::span<const std::uint16_t> order, bool listed) {
  const Partition& partition = *board.view.partitions()[way.partition];
  std::vector<Grant> all;
  board.held.clear();
  for (const std::uint16_t g : order) {
    const GroupSpec& group = spec.groups[g];
    const GroupWay& group_way = way.groups[g];
    std::optional<std::vector<Grant>> grants;
    for (std::size_t enough = first_try(group, group_way);; enough = 0) {
      std::vector<Candidate> candidates;
      bool cut = false;
      if (listed)
        cut = gather_listed(board, group, group_way, partition, enough, candidates);
      else
        gather_all(board, group, group_way, partition, candidates);
      if (candidates.size() >= group_way.nodes)
        grants = place_group(candidates, group, g);
      if (grants || !cut)
        break;
    }
    if (!grants)
      return std::nullopt;
    for (Grant& grant : *grants) {
      if (spec.groups.size() > 1) {
        const auto [it, fresh] = board.held.try_emplace(grant.node);
        if (fresh)
          it->second = *board.load(grant.node);
        add_grant(it->second, grant);
      }
      all.push_back(std::move(grant));
    }
  }
  if (partition.nodes_max != 0 && all.size() > partition.nodes_max)
    return std::nullopt;
  return all;
}

std::optional<std::vector<Grant>> place(Board board, const JobSpec& spec, const Way& way, bool listed) {
  std::vector<std::uint16_t> order(spec.groups.size());
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  // One group may take the only node that another could use, so several orders are tried.
  for (int tries = 0; tries < kOrdersMax; ++tries) {
    if (auto grants = place_in_order(board, spec, way, order, listed)) {
      std::stable_sort(grants->begin(), grants->end(),
                       [](const Grant& a, const Grant& b) { return a.group < b.group; });
      return grants;
    }
    if (!std::next_permutation(order.begin(), order.end()))
      break;
  }
  return std::nullopt;
}

// What is left of the load when everything expected to end by then has ended; at kNever, everything has.
NodeLoad load_after(const NodeSlot& slot, Instant at) {
  NodeLoad load;
  for (const Holder& holder : slot.holders)
    if (holder.end > at)
      add_grant(load, *holder.grant);
  return load;
}

constexpr Instant kNotEver = kNever + seconds(1);

// When the node would have the amounts if running jobs ended as expected; 0 = now, kNotEver = not even then.
Instant ready_at(const NodeClass& cls, const NodeSlot& slot, const FreeAmounts& need, std::vector<Holder>& scratch) {
  if (slot.free.covers(need))
    return Instant{};
  scratch = slot.holders;
  std::sort(scratch.begin(), scratch.end(), [](const Holder& a, const Holder& b) { return a.end < b.end; });
  NodeLoad load = slot.load;
  for (const Holder& holder : scratch) {
    remove_grant(load, *holder.grant);
    if (slot.overlaps)
      load = load_after(slot, holder.end);
    if (free_on(cls, *slot.node, load).covers(need))
      return holder.end;
  }
  return kNotEver;
}

struct Ready {
  Instant at;
  NodeId node;
};

void look_again(PlannerView& view, const GroupWay& group, ReadyTimes& times) {
  std::vector<std::pair<ClassNo, FreeAmounts>> needs;
  for (const ClassNeed& need : group.needs) needs.emplace_back(need.cls, need.amounts);
  if (times.layout != view.layout || times.needs != needs)
    times = {.layout = view.layout, .clock = 0, .needs = std::move(needs), .at = {}};
  times.at.resize(view.nodes().size(), kNotEver);
  std::vector<const FreeAmounts*> by_class(view.classes().size());
  for (const auto& [cls, amounts] : times.needs) by_class[cls] = &amounts;
  std::vector<Holder> scratch;
  for (std::uint32_t i = 0; i < times.at.size(); ++i) {
    if (times.clock != 0 && view.touched_at(NodeId{i}) <= times.clock)
      continue;
    const NodeSlot& slot = view.nodes()[i];
    times.at[i] = slot.node && by_class[slot.cls] && node_usable(*slot.node)
                      ? ready_at(view.classes()[slot.cls], slot, *by_class[slot.cls], scratch)
                      : kNotEver;
  }
  times.clock = view.touch_clock();
}

// On what of the node is busy the longest until then, so that what is free now, or soon, stays open to others.
std::optional<Grant> choose_latest(const NodeSlot& slot, const NodeLoad& then, Instant at, const GroupSpec& group,
                                   std::uint32_t tasks) {
  std::vector<Holder> leaving;
  for (const Holder& holder : slot.holders)
    if (holder.end <= at)
      leaving.push_back(holder);
  std::sort(leaving.begin(), leaving.end(), [](const Holder& a, const Holder& b) { return b.end < a.end; });
  NodeLoad rest = then;
  rest.cores = CoreSet::first_n(slot.node->cores);
  rest.devices = DeviceSet::first_n(static_cast<std::uint32_t>(slot.node->devices.size()));
  for (std::size_t i = 0; i < leaving.size(); ++i) {
    rest.cores = rest.cores.minus(leaving[i].grant->cores) | then.cores;
    rest.devices = rest.devices.minus(leaving[i].grant->visible()) | then.devices;
    if (i + 1 < leaving.size() && leaving[i + 1].end == leaving[i].end)
      continue;
    if (auto grant = choose_grant(*slot.node, rest, group, 0, tasks, 0))
      return grant;
  }
  return choose_grant(*slot.node, then, group, 0, tasks, 0);
}

std::optional<Shadow> exact_later(PlannerView& view, const JobSpec& spec, const Way& way, Instant now,
                                  ReadyTimes& times) {
  const GroupWay& group = way.groups[0];
  look_again(view, group, times);
  std::vector<Ready> ready;
  ready.reserve(times.at.size());
  for (std::uint32_t i = 0; i < times.at.size(); ++i)
    if (times.at[i] <= kNever)
      ready.push_back({times.at[i], NodeId{i}});
  if (ready.size() < group.nodes)
    return std::nullopt;
  const auto nth = ready.begin() + static_cast<std::ptrdiff_t>(group.nodes) - 1;
  std::nth_element(ready.begin(), nth, ready.end(), [](const Ready& a, const Ready& b) { return a.at < b.at; });
  const Instant at = nth->at;
  // Of the nodes that are ready by then, those that are busy the longest: what is free now stays open to others.
  std::erase_if(ready, [&](const Ready& r) { return r.at > at; });
  const auto later = [&](const Ready& a, const Ready& b) {
    const std::uint32_t wa = view.nodes()[a.node.value].node->weight, wb = view.nodes()[b.node.value].node->weight;
    return std::tie(b.at, wa, a.node) < std::tie(a.at, wb, b.node);
  };
  const auto last = ready.begin() + static_cast<std::ptrdiff_t>(group.nodes);
  std::partial_sort(ready.begin(), last, ready.end(), later);
  // The nodes must not depend on now, or they would change while nothing happens.
  Shadow shadow{.partition = way.partition, .at = std::max(at, now), .made = now};
  for (auto it = ready.begin(); it != last; ++it) {
    const NodeSlot& slot = view.nodes()[it->node.value];
    NodeLoad load = load_after(slot, at);
    auto grant = choose_latest(slot, load, at, spec.groups[0], group.tasks_each);
    CHECK(grant.has_value());
    add_grant(load, *grant);
    shadow.grants.push_back(std::move(*grant));
    shadow.loads.push_back(load);
  }
  return shadow;
}

std::optional<Shadow> general_later(PlannerView& view, const JobSpec& spec, const Way& way, Instant now) {
  std::vector<Instant> ends;
  for (const NodeSlot& slot : view.nodes())
    for (const Holder& holder : slot.holders) ends.push_back(holder.end);
  ends.push_back({});  // as it is now
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<NodeLoad> loads(view.nodes().size());
  const auto after = [&](Instant at) {
    for (std::size_t i = 0; i < loads.size(); ++i) loads[i] = load_after(view.nodes()[i], at);
    const auto load = [&](NodeId id) { return node_usable(*view.nodes()[id.value].node) ? &loads[id.value] : nullptr; };
    return place(Board{view, load, {}}, spec, way, false);
  };
  // More ends, more room: the fewest ends that suffice are found by halving.
  std::size_t low = 0, high = ends.size() - 1;
  auto found = after(ends[high]);
  if (!found)
    return std::nullopt;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (auto grants = after(ends[middle])) {
      found = std::move(grants);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  Shadow shadow{.partition = way.partition, .at = std::max(ends[high], now), .made = now};
  for (Grant& grant : *found) {
    NodeLoad load = load_after(view.nodes()[grant.node.value], ends[high]);
    for (const Grant& other : *found)
      if (other.node == grant.node)
        add_grant(load, other);
    shadow.loads.push_back(load);
  }
  shadow.grants = std::move(*found);
  return shadow;
}

}  // namespace

bool may_fit(PlannerView& view, const Way& way, const Shadows& shadows, const Avoid& avoid) {
  const bool all_avoided = !shadows.all().empty() && std::find(avoid.begin(), avoid.end(), false) == avoid.end();
  for (const GroupWay& group : way.groups) {
    std::uint64_t nodes = 0;
    for (const ClassNeed& need : group.needs) {
      const NodeClass& cls = view.classes()[need.cls];
      nodes += cls.open.at_least(need.amounts) + (all_avoided ? cls.kept : cls.shaded).at_least(need.amounts);
      if (nodes >= group.nodes)
        break;
    }
    if (nodes < group.nodes)
      return false;
  }
  return true;
}

std::optional<std::vector<Grant>> place_now(PlannerView& view, const JobSpec& spec, const Way& way,
                                            const Shadows& shadows, const Avoid& avoid) {
  std::map<NodeId, NodeLoad> seen;
  const auto load = [&](NodeId id) -> const NodeLoad* {
    const NodeSlot& slot = view.nodes()[id.value];
    if (!slot.shaded)
      return &slot.load;
    const auto [it, fresh] = seen.try_emplace(id);
    if (fresh)
      it->second = shadows.seen(id, slot.load, avoid);
    return &it->second;
  };
  return place(Board{view, load, {}}, spec, way, true);
}

std::optional<std::vector<Grant>> place_where(PlannerView& view, const JobSpec& spec, const Way& way,
                                              std::function<const NodeLoad*(NodeId)> load) {
  return place(Board{view, std::move(load), {}}, spec, way, false);
}

std::optional<Shadow> place_later(PlannerView& view, const JobSpec& spec, const Way& way, Instant now,
                                  ReadyTimes& times) {
  return way.groups[0].exact ? exact_later(view, spec, way, now, times) : general_later(view, spec, way, now);
}

namespace {

bool gained_since(PlannerView& view, ClassNo number, std::uint32_t devices, std::uint64_t clock) {
  const std::vector<std::uint64_t>& gained = view.classes()[number].gained;
  return gained[std::min<std::size_t>(devices, gained.size() - 1)] > clock;
}

}  // namespace

bool still_parked(PlannerView& view, std::uint32_t number) {
  const ShapeBrief& brief = view.briefs()[number];
  if (brief.parked == 0)
    return false;
  if (brief.kind == ShapeBrief::Kind::kCounted) {
    for (unsigned n = 0; n < brief.needs; ++n)
      if (gained_since(view, brief.demands[n].pool, static_cast<std::uint32_t>(brief.demands[n].devices), brief.parked))
        return false;
    return true;
  }
  for (const Way& way : view.shapes()[number].ways)
    for (const GroupWay& group : way.groups)
      for (const ClassNeed& need : group.needs)
        if (gained_since(view, need.cls, need.amounts.devices, brief.parked))
          return false;
  return true;
}

bool may_start(PlannerView& view, std::uint32_t number) {
  const ShapeBrief& brief = view.briefs()[number];
  if (brief.kind == ShapeBrief::Kind::kCounted) {
    std::int64_t nodes = 0;
    for (unsigned n = 0; n < brief.needs; ++n) {
      const Demand& demand = brief.demands[n];
      const FreeAmounts amounts{static_cast<std::uint32_t>(demand.devices), static_cast<std::uint32_t>(demand.cores),
                                brief.memory_mb[n]};
      nodes += view.classes()[demand.pool].open.at_least(amounts);
    }
    return nodes >= brief.demands[0].nodes;
  }
  const std::vector<Way>& ways = view.shapes()[number].ways;
  return std::any_of(ways.begin(), ways.end(), [&](const Way& way) { return way.open && may_fit(view, way, {}, {}); });
}

namespace {

bool fits_empty(PlannerView& view, const Shape& shape, const Way& way, bool any_state,
                std::vector<std::pair<NodeId, std::uint64_t>>* witness) {
  if (way.groups.size() == 1 && way.groups[0].exact) {
    std::uint64_t nodes = 0;
    for (const ClassNeed& need : way.groups[0].needs) {
      const NodeClass& cls = view.classes()[need.cls];
      nodes += any_state ? cls.present : cls.usable;
    }
    return nodes >= way.groups[0].nodes;
  }
  static const NodeLoad kEmpty;
  const auto load = [&](NodeId id) {
    return any_state || node_usable(*view.nodes()[id.value].node) ? &kEmpty : nullptr;
  };
  const auto grants = place(Board{view, load, {}}, *shape.spec, way, false);
  if (grants && witness)
    for (const Grant& grant : *grants) witness->emplace_back(grant.node, view.nodes()[grant.node.value].version);
  return grants.has_value();
}

// What was found before still stands: the same nodes are there and can be used, and no partition that is asked for
// earlier could have become possible.
bool witness_holds(PlannerView& view, const Shape& shape) {
  const auto first = std::find_if(shape.ways.begin(), shape.ways.end(), [](const Way& way) { return way.open; });
  return !shape.witness.empty() && shape.witness_layout == view.layout && first != shape.ways.end() &&
         first->possible && std::all_of(shape.witness.begin(), shape.witness.end(), [&](const auto& w) {
           return view.nodes()[w.first.value].version == w.second;
         });
}

std::string unusable_nodes(PlannerView& view, const Shape& shape) {
  std::set<std::string> named;
  for (const GroupSpec& group : shape.spec->groups) named.insert(group.only_nodes.begin(), group.only_nodes.end());
  std::vector<std::string> missing;
  for (const NodeSlot& slot : view.nodes()) {
    if (!slot.node || node_usable(*slot.node) || (!named.empty() && !named.contains(slot.node->meta.name)))
      continue;
    const auto& in = view.classes()[slot.cls].partitions;
    if (std::any_of(shape.ways.begin(), shape.ways.end(), [&](const Way& way) {
          return way.open && std::find(in.begin(), in.end(), way.partition) != in.end();
        }))
      missing.push_back(slot.node->meta.name);
  }
  sort_hosts(missing);
  return "UnavailableNodes:" + compress_hostlist(missing);
}

}  // namespace

namespace {

// What was counted before still holds with the nodes there are now: the usual case when a node comes or goes.
bool counted_again(PlannerView& view, ShapeBrief& brief) {
  if (brief.kind != ShapeBrief::Kind::kCounted || brief.layout != view.layout)
    return false;
  std::int64_t nodes = 0;
  for (unsigned n = 0; n < brief.needs; ++n) {
    const auto usable = static_cast<std::int32_t>(view.classes()[brief.demands[n].pool].usable);
    brief.alone[n] = usable >= brief.demands[n].nodes;
    nodes += usable;
  }
  if (nodes < brief.demands[0].nodes)
    return false;
  brief.judged = view.generation;
  return true;
}

void brief_of(PlannerView& view, const Shape& shape, ShapeBrief& brief) {
  const bool again = brief.layout == view.layout;
  brief.layout = view.layout;
  brief.judged = view.generation;
  if (!again)
    brief.parked = 0;
  brief.partition = kNoPartition;
  brief.needs = 0;
  const auto head =
      std::find_if(shape.ways.begin(), shape.ways.end(), [](const Way& way) { return way.open && way.possible; });
  if (shape.never != Wait::kNone || head == shape.ways.end()) {
    brief.kind = ShapeBrief::Kind::kNever;
    return;
  }
  brief.kind = ShapeBrief::Kind::kOther;
  brief.partition = head->partition;
  if (shape.ways.size() != 1 || head->groups.size() != 1 || !head->groups[0].exact || head->groups[0].needs.size() > 2)
    return;
  brief.kind = ShapeBrief::Kind::kCounted;
  brief.minutes = head->limit >= kForever ? UINT32_MAX : std::max(1u, minute_after(Instant{head->limit.us}));
  for (const ClassNeed& need : head->groups[0].needs) {
    const NodeClass& cls = view.classes()[need.cls];
    brief.alone[brief.needs] = cls.usable >= need.nodes;
    brief.memory_mb[brief.needs] = need.amounts.memory_mb;
    brief.demands[brief.needs++] = demand_of(need, cls);
  }
}

void judge_shape(PlannerView& view, Shape& shape, std::uint64_t& work);

}  // namespace

void judge(PlannerView& view, std::uint32_t number, std::uint64_t& work) {
  ShapeBrief& brief = view.briefs()[number];
  if (brief.judged == view.generation || counted_again(view, brief))
    return;
  Shape& shape = view.shapes()[number];
  view.compile(shape);
  judge_shape(view, shape, work);
  brief_of(view, shape, brief);
}

namespace {

void judge_shape(PlannerView& view, Shape& shape, std::uint64_t& work) {
  const bool counted = std::all_of(shape.ways.begin(), shape.ways.end(),
                                   [](const Way& way) { return way.groups.size() == 1 && way.groups[0].exact; });
  if (!counted && witness_holds(view, shape))
    return;
  work += counted ? 1 : 32 + view.nodes().size() / 16;
  shape.witness.clear();
  Wait worst = Wait::kPartitionDown;
  bool found = false;
  for (Way& way : shape.ways) {
    way.possible = false;
    if (!view.partitions()[way.partition]->up)
      continue;
    if (!way.open) {
      worst = Wait::kPartitionTimeLimit;
      continue;
    }
    if (found && !counted)
      continue;
    way.possible = fits_empty(view, shape, way, false, &shape.witness);
    shape.witness_layout = view.layout;
    found = found || way.possible;
    if (!found)
      worst = fits_empty(view, shape, way, true, nullptr) ? Wait::kNodesUnavailable : Wait::kBadConstraints;
  }
  if (found)
    worst = Wait::kNone;
  std::string detail = worst == Wait::kNodesUnavailable ? unusable_nodes(view, shape) : std::string();
  if (worst == shape.never && (detail == shape.detail || shape.barred != Wait::kNone))
    return;
  shape.never = worst;
  shape.barred = Wait::kNone;
  shape.detail = std::move(detail);
  ++shape.reason;
}

}  // namespace

}  // namespace lockstep
