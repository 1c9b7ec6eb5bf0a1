// When and where a head could start once running jobs have ended.
#include <algorithm>

#include "sched/place_inner.h"

namespace lockstep {

namespace {

// What is left of the load when everything expected to end by then has ended; at kNever, everything has.
NodeLoad load_after(const NodeSlot& slot, Instant at) {
  NodeLoad load;
  for (const Holder& holder : slot.holders)
    if (holder.end > at)
      add_grant(load, *holder.grant);
  return load;
}

// When the node would have the amounts if running jobs ended as expected; 0 = now, kNotEver = not even then.
Instant ready_at(const AlikeNodes& cls, const NodeSlot& slot, const FreeAmounts& need, std::vector<Holder>& scratch) {
  if (slot.free.covers(need))
    return Instant{};
  if (std::all_of(slot.holders.begin(), slot.holders.end(), [](const Holder& h) { return h.end == kNever; }))
    return !slot.holders.empty() && free_on(cls, *slot.node, {}).covers(need) ? kNever : kNotEver;
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

// The first moment at which the nodes that are ready by then hold a gang that is bound to domains, and its nodes.
std::optional<Instant> bound_ready(PlannerView& view, const GroupWay& group, std::vector<Ready>& ready,
                                   const std::function<bool(const Ready&, const Ready&)>& later) {
  const DomainTree& tree = view.domains();
  const GangAsk ask{group.nodes, group.where};
  const auto domain_of = [&](const Ready& r) { return view.nodes()[r.node.value].domain; };
  const auto counts_at = [&](Instant at) {
    NodeCounts counts(tree.size());
    for (const Ready& r : ready) counts[domain_of(r)] += r.at <= at;
    return counts;
  };
  const auto do_then = [&](Instant at) {
    return each_domain_for(tree, counts_at(at), ask, [](DomainNo) { return true; });
  };
  std::vector<Instant> moments;
  for (const Ready& r : ready) moments.push_back(r.at);
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  if (moments.empty() || !do_then(moments.back()))
    return std::nullopt;
  const Instant at = *std::partition_point(moments.begin(), moments.end() - 1, [&](Instant t) { return !do_then(t); });
  std::erase_if(ready, [&](const Ready& r) { return r.at > at; });
  std::sort(ready.begin(), ready.end(), later);
  std::map<NodeId, Ready> by_node;
  std::vector<std::vector<Candidate>> members(tree.size());
  for (const Ready& r : ready) {
    by_node[r.node] = r;
    members[domain_of(r)].push_back({view.nodes()[r.node.value].node.get(), nullptr});
  }
  const auto gang = choose_gang(tree, counts_at(at), ask, [&](DomainNo d) { return members[d]; });
  CHECK(gang.has_value());
  ready.clear();
  for (const Candidate& member : *gang) ready.push_back(by_node.at(member.node->id));
  return at;
}

// When and where the job could start, for jobs that only a search can place: the moment is found among the ends of what
// runs. nullopt: not even when all of that has ended.
std::optional<Shadow> general_later(PlannerView& view, const JobSpec& spec, const Way& way, Instant now) {
  std::vector<Instant> ends;
  for (const NodeSlot& slot : view.nodes())
    for (const Holder& holder : slot.holders) ends.push_back(holder.end);
  ends.push_back({});  // as it is now
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  const auto after = [&](Instant at) -> Grants {
    if (!at && !view.packing().may_have_room(view, way))
      return std::nullopt;
    std::map<NodeId, NodeLoad> loads;
    const auto load = [&](NodeId id) -> const NodeLoad* {
      const NodeSlot& slot = view.nodes()[id.value];
      if (!node_usable(*slot.node))
        return nullptr;
      if (!at)
        return &slot.load;
      const auto [it, fresh] = loads.try_emplace(id);
      if (fresh)
        it->second = load_after(slot, at);
      return &it->second;
    };
    return place(Board{view, load, {}, {}}, spec, way, false);
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

// The same where each node says by itself from when on it has room for one member. A moment above kNever in `times`: it
// never does.
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
  // Of the nodes that are ready by then, those that are busy the longest: what is free now stays open to others.
  const auto later = [&](const Ready& a, const Ready& b) {
    const std::uint32_t wa = view.nodes()[a.node.value].node->weight, wb = view.nodes()[b.node.value].node->weight;
    return std::tie(b.at, wa, a.node) < std::tie(a.at, wb, b.node);
  };
  const auto last = ready.begin() + static_cast<std::ptrdiff_t>(group.nodes);
  Instant at;
  if (group.bound) {
    const auto found = bound_ready(view, group, ready, later);
    if (!found)
      return std::nullopt;
    at = *found;
  } else {
    std::nth_element(ready.begin(), last - 1, ready.end(), [](const Ready& a, const Ready& b) { return a.at < b.at; });
    at = (last - 1)->at;
    std::erase_if(ready, [&](const Ready& r) { return r.at > at; });
    std::partial_sort(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(group.nodes), ready.end(), later);
  }
  // The nodes must not depend on now, or they would change while nothing happens.
  Shadow shadow{.partition = way.partition, .at = std::max(at, now), .made = now};
  for (auto it = ready.begin(); it != ready.begin() + static_cast<std::ptrdiff_t>(group.nodes); ++it) {
    const NodeSlot& slot = view.nodes()[it->node.value];
    NodeLoad load = load_after(slot, at);
    auto grant = choose_latest(slot, load, at, spec.groups[0], group.tasks_each);
    if (!grant)  // the counts of this node say that it fits
      return general_later(view, spec, way, now);
    add_grant(load, *grant);
    shadow.grants.push_back(std::move(*grant));
    shadow.loads.push_back(load);
  }
  return shadow;
}

}  // namespace

std::optional<Shadow> place_later(PlannerView& view, const JobSpec& spec, const Way& way, Instant now,
                                  ReadyTimes& times) {
  return way.groups[0].exact ? exact_later(view, spec, way, now, times) : general_later(view, spec, way, now);
}

}  // namespace lockstep
