// Whether a shape could start at all: on an empty cluster, or by counts.
#include <algorithm>

#include "base/hostlist.h"
#include "rules/limits.h"
#include "sched/place_inner.h"

namespace lockstep {

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
  for (const Way& way : view.ways(number))
    for (const GroupWay& group : way.groups)
      for (const ClassNeed& need : group.needs)
        if (gained_since(view, need.cls, need.amounts.devices, brief.parked))
          return false;
  return true;
}

namespace {

bool enough_free(PlannerView& view, const ShapeBrief& brief) {
  const auto most = static_cast<std::uint32_t>(brief.demands[0].nodes);
  std::uint64_t nodes = 0;
  for (unsigned n = 0; n < brief.needs; ++n) {
    const Demand& demand = brief.demands[n];
    const FreeAmounts amounts{static_cast<std::uint32_t>(demand.devices), brief.milli[n], brief.memory_mb[n]};
    const AlikeNodes& cls = view.classes()[demand.pool];
    for (const NodeIndex* index : {&cls.open, &cls.shaded})
      if (nodes += index->count(amounts, most); nodes >= most)
        return true;
  }
  return false;
}

}  // namespace

bool may_start(PlannerView& view, std::uint32_t number) {
  ShapeBrief& brief = view.briefs()[number];
  if (brief.kind == ShapeBrief::Kind::kCounted) {
    if (enough_free(view, brief))
      return true;
    brief.parked = view.gains;
    return false;
  }
  const std::vector<Way>& ways = view.ways(number);
  return std::any_of(ways.begin(), ways.end(), [&](const Way& way) { return way.open && may_fit(view, way, {}, {}); });
}

namespace {

// Whether there are enough nodes for a group that fits every node of its classes.
bool counts_empty(PlannerView& view, const GroupWay& group, bool any_state) {
  if (!group.bound) {
    std::uint64_t nodes = 0;
    for (const ClassNeed& need : group.needs) {
      const AlikeNodes& cls = view.classes()[need.cls];
      nodes += any_state ? cls.present : cls.usable;
    }
    return nodes >= group.nodes;
  }
  NodeCounts counts(view.domains().size());
  for (const ClassNeed& need : group.needs) {
    const AlikeNodes& cls = view.classes()[need.cls];
    const std::vector<std::uint32_t>& nodes = any_state ? cls.present_at : cls.usable_at;
    for (std::size_t d = 0; d < nodes.size(); ++d) counts[d] += nodes[d];
  }
  return each_domain_for(view.domains(), counts, {group.nodes, group.where}, [](DomainNo) { return true; });
}

// Whether the shape would fit if nothing ran. any_state: on nodes that cannot be used now, too. witness: where, if it
// took a search; null = nobody wants to know.
bool fits_empty(PlannerView& view, const Shape& shape, const Way& way, bool any_state,
                std::vector<std::pair<NodeId, std::uint64_t>>* witness) {
  if (way.groups.size() == 1 && way.groups[0].uniform)
    return counts_empty(view, way.groups[0], any_state);
  static const NodeLoad kEmpty;
  const auto load = [&](NodeId id) {
    return any_state || node_usable(*view.nodes()[id.value].node) ? &kEmpty : nullptr;
  };
  const auto grants = place(Board{view, load, {}, {}}, *shape.spec, way, false);
  if (grants && witness)
    for (const Grant& grant : *grants) witness->emplace_back(grant.node, view.nodes()[grant.node.value].version);
  return grants.has_value();
}

// What was found before still stands: the same nodes are there and can be used, and no partition that is asked for
// earlier could have become possible.
bool witness_holds(PlannerView& view, const Shape& shape) {
  const auto first =
      std::find_if(shape.compiled_ways.begin(), shape.compiled_ways.end(), [](const Way& way) { return way.open; });
  return !shape.witness.empty() && shape.witness_layout == view.layout && first != shape.compiled_ways.end() &&
         first->possible && std::all_of(shape.witness.begin(), shape.witness.end(), [&](const auto& w) {
           return view.nodes()[w.first.value].version == w.second;
         });
}

bool is_mended(const Node& node) { return std::ranges::all_of(node.devices, &Device::healthy); }

// A GPU that is lost comes back, as a node does that is down.
bool fits_mended(PlannerView& view, const Shape& shape, const Way& way) {
  std::vector<const Node*> nodes;
  bool all_mended = true;
  for (const NodeSlot& slot : view.nodes()) {
    if (!slot.node)
      continue;
    const auto& in = view.classes()[slot.cls].partitions;
    if (std::find(in.begin(), in.end(), way.partition) == in.end())
      continue;
    nodes.push_back(slot.node.get());
    all_mended = all_mended && is_mended(*slot.node);
  }
  return !all_mended && check_possible(*shape.spec, *view.partitions()[way.partition], nodes).ok();
}

bool asks_for_devices(const JobSpec& spec) {
  return std::any_of(spec.groups.begin(), spec.groups.end(), [](const GroupSpec& group) {
    return !group.per_task.devices.empty() || !group.per_node.devices.empty() || !group.per_job.empty();
  });
}

std::string unusable_nodes(PlannerView& view, const Shape& shape) {
  const bool wants_devices = asks_for_devices(*shape.spec);
  std::set<std::string> named;
  for (const GroupSpec& group : shape.spec->groups) named.insert(group.only_nodes.begin(), group.only_nodes.end());
  std::vector<std::string> missing;
  for (const NodeSlot& slot : view.nodes()) {
    if (!slot.node || (node_usable(*slot.node) && !(wants_devices && !is_mended(*slot.node))) ||
        (!named.empty() && !named.contains(slot.node->meta.name)))
      continue;
    const auto& in = view.classes()[slot.cls].partitions;
    if (std::any_of(shape.compiled_ways.begin(), shape.compiled_ways.end(), [&](const Way& way) {
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
  if (brief.kind != ShapeBrief::Kind::kCounted || (brief.layout != view.layout && !view.follow(brief)))
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
  const bool same_rules = brief.layout >= view.laid_out();  // nodes that came to another class count as gains
  brief.layout = view.layout;
  brief.judged = view.generation;
  if (!same_rules)
    brief.parked = 0;
  brief.partition = kNoPartition;
  brief.barred = shape.barred != Wait::kNone;
  brief.needs = 0;
  const auto head = std::find_if(shape.compiled_ways.begin(), shape.compiled_ways.end(),
                                 [](const Way& way) { return way.open && way.possible; });
  if (shape.never != Wait::kNone || head == shape.compiled_ways.end()) {
    brief.kind = ShapeBrief::Kind::kNever;
    return;
  }
  brief.kind = ShapeBrief::Kind::kOther;
  brief.partition = head->partition;
  if (shape.compiled_ways.size() != 1 || head->groups.size() != 1 || !head->groups[0].exact || head->groups[0].bound ||
      head->groups[0].needs.size() > ShapeBrief::kNeeds)
    return;
  brief.kind = ShapeBrief::Kind::kCounted;
  brief.minutes = head->limit >= kForever ? UINT32_MAX : std::max(1u, minute_after(Instant{head->limit.us}));
  for (const ClassNeed& need : head->groups[0].needs) {
    const AlikeNodes& cls = view.classes()[need.cls];
    brief.alone[brief.needs] = cls.usable >= need.nodes;
    brief.milli[brief.needs] = need.amounts.milli;
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
  view.ways(shape);
  judge_shape(view, shape, work);
  brief_of(view, shape, brief);
}

namespace {

// Sets Way::possible. Returns why the shape could not start even if nothing ran, as its last way says; kNone: it could.
Wait look_at_ways(PlannerView& view, Shape& shape, bool counted) {
  Wait worst = Wait::kPartitionDown;
  bool found = false;
  for (Way& way : shape.compiled_ways) {
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
      worst = fits_empty(view, shape, way, true, nullptr) || fits_mended(view, shape, way) ? Wait::kNodesUnavailable
                                                                                           : Wait::kBadConstraints;
  }
  return found ? Wait::kNone : worst;
}

// More of why it could not start: nodes that cannot be used, or partitions that are closed altogether.
std::string detail_of(PlannerView& view, const Shape& shape, Wait never) {
  if (never == Wait::kNodesUnavailable)
    return unusable_nodes(view, shape);
  const auto closed = [&view](const Way& way) { return view.partitions()[way.partition]->closed; };
  const bool all_closed = !shape.compiled_ways.empty() && std::ranges::all_of(shape.compiled_ways, closed);
  return std::string(never == Wait::kPartitionDown && all_closed ? kPartitionClosed : std::string_view());
}

void judge_shape(PlannerView& view, Shape& shape, std::uint64_t& work) {
  const bool counted = std::all_of(shape.compiled_ways.begin(), shape.compiled_ways.end(), [](const Way& way) {
    return way.groups.size() == 1 && way.groups[0].uniform && !way.groups[0].bound;
  });
  if (!counted && witness_holds(view, shape))
    return;
  work += counted ? 1 : 32 + view.nodes().size() / 16;
  shape.witness.clear();
  const Wait never = look_at_ways(view, shape, counted);
  std::string detail = detail_of(view, shape, never);
  if (never == shape.never && (detail == shape.detail || shape.barred != Wait::kNone))
    return;
  shape.never = never;
  shape.barred = Wait::kNone;
  shape.detail = std::move(detail);
  ++shape.reason;
}

}  // namespace

}  // namespace lockstep
