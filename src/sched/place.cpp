#include "sched/place.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/hostlist.h"
#include "sched/idle_together.h"

namespace lockstep {

namespace {

constexpr std::size_t kTogetherLook = 64;  // nodes that are compared for a part of one
constexpr int kIslandsLook = 64;           // nodes whose whole islands would be broken, before one of them is taken
constexpr int kOrdersMax = 24;             // of a job's groups: all of up to four

// The loads a placement is tried on.
struct Board {
  PlannerView& view;
  std::function<const NodeLoad*(NodeId)> load;  // null: not to be used
  std::map<NodeId, NodeLoad> held;              // with what earlier groups of the job take
  Duration needed;                              // predicted run time of the job; 0 = it does not matter
  const NodeLoad* at(NodeId id) const {
    const auto it = held.find(id);
    return it != held.end() ? &it->second : load(id);
  }
};

struct Choice {
  std::uint32_t weight = 0;
  bool breaks = false;  // an NVLink island that is whole
  FreeAmounts free;
  Candidate candidate;
  Duration cost;  // sched/idle_together.h
};

// The order in which nodes are taken: light ones, those whose whole islands stay whole, then those with the least left,
// so that whole nodes stay free.
bool preferred(const Choice& a, const Choice& b) {
  return std::tie(a.weight, a.breaks, a.cost, a.free.devices, a.free.cores, a.candidate.node->id) <
         std::tie(b.weight, b.breaks, b.cost, b.free.devices, b.free.cores, b.candidate.node->id);
}

// How many candidates to try before taking in all of them; 0 = all at once.
std::size_t first_try(const GroupSpec& group, const GroupWay& way) {
  if (way.exact)
    return way.nodes;
  if (!group.only_nodes.empty() || group.tasks.max == UINT32_MAX)
    return 0;
  std::size_t nodes = group.nodes.max;
  if (nodes == 0)
    nodes = group.tasks_per_node == 0 ? group.tasks.max : group.tasks.max / group.tasks_per_node + 1;
  return 4 * nodes + 16;
}

// A listed node with enough free now, if the board allows it and the group may go there.
std::optional<Choice> choice_of(Board& board, const GroupSpec& group, const GroupWay& way, const Partition& partition,
                                const ClassNeed& need, NodeId id) {
  const NodeClass& cls = board.view.classes()[need.cls];
  const NodeSlot& slot = board.view.nodes()[id.value];
  const NodeLoad* load = board.at(id);
  const Node& node = *slot.node;
  if (load != &slot.load && !free_on(cls, node, *load).covers(need.amounts))
    return std::nullopt;
  if (slot.free.memory_mb < need.amounts.memory_mb || (group.sharing == Sharing::kExclusive && load->holders > 0) ||
      (!way.exact && !eligible(node, partition, group)))
    return std::nullopt;
  return Choice{node.weight, false, slot.free, {&node, load}};
}

// What it costs the others that a part of the node is taken. An idle node goes last.
Duration cost_of(const Board& board, NodeId id, const FreeAmounts& free, std::uint32_t devices) {
  const NodeSlot& slot = board.view.nodes()[id.value];
  if (slot.holders.empty())
    return kForever;
  const Instant now = board.view.now();
  Instant idle = now;
  for (const Holder& holder : slot.holders) idle = std::max(idle, holder.likely_end(now));
  return std::min(kForever - seconds(1),
                  node_cost(std::int64_t{free.devices} - devices, std::min(idle - now, kForever), board.needed));
}

// Of the listed nodes with enough free, `enough` (0 = all) in order of preference; false when there are no more.
bool gather_listed(Board& board, const GroupSpec& group, const GroupWay& way, const Partition& partition,
                   std::size_t enough, std::vector<Candidate>& out) {
  std::vector<Choice> choices;
  bool cut = false;
  for (const ClassNeed& need : way.needs) {
    const NodeClass& cls = board.view.classes()[need.cls];
    const bool spare = way.exact && way.nodes == 1 && need.amounts.devices > 0 && cls.islands.size() > 1;
    // One node out of many for a part of it: those are compared that have the least left.
    const bool one = way.exact && way.nodes == 1 && need.amounts.devices > 0 && board.needed.us > 0;
    const bool together = one && need.amounts.devices < cls.whole.devices;
    const std::size_t most = together && enough != 0 ? std::max(enough, kTogetherLook) : enough;
    for (const NodeIndex* index : {&cls.open, &cls.shaded}) {
      std::size_t found = 0;
      int breaking = 0;
      index->each(need.amounts, [&](NodeId id) {
        auto choice = choice_of(board, group, way, partition, need, id);
        if (!choice)
          return true;
        choice->breaks = spare && breaks_island(cls, *choice->candidate.load, need.amounts.devices);
        if (one)
          choice->cost = together ? cost_of(board, id, choice->free, need.amounts.devices) : kForever;
        choices.push_back(*choice);
        if (choice->breaks && ++breaking < kIslandsLook)
          return true;
        if (++found < most || enough == 0)
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

// --- in the domains of a topology ---

// The nodes that hang on one domain, with enough free now, in order of preference; `enough` as above.
std::vector<Choice> listed_at(Board& board, const GroupSpec& group, const GroupWay& way, const Partition& partition,
                              DomainNo domain, std::uint32_t weight_max, std::size_t enough) {
  std::vector<Choice> choices;
  for (const ClassNeed& need : way.needs) {
    const NodeClass& cls = board.view.classes()[need.cls];
    if (cls.like.weight > weight_max || domain >= cls.at_domain.size())
      continue;
    std::size_t found = 0;
    cls.at_domain[domain].each(need.amounts, [&](NodeId id) {
      const auto choice = choice_of(board, group, way, partition, need, id);
      if (!choice || (!way.exact && tasks_that_fit(*choice->candidate.node, *choice->candidate.load, group) <
                                        (way.even ? way.tasks_each : 1)))
        return true;
      choices.push_back(*choice);
      return ++found != enough;
    });
  }
  std::sort(choices.begin(), choices.end(), preferred);
  if (enough != 0 && choices.size() > enough)
    choices.resize(enough);
  return choices;
}

std::vector<Candidate> candidates_of(const std::vector<Choice>& choices) {
  std::vector<Candidate> out;
  for (const Choice& choice : choices) out.push_back(choice.candidate);
  return out;
}

// How many have the amounts free now, heads and names aside.
NodeCounts listed_counts(Board& board, const GroupWay& way, std::uint32_t weight_max) {
  NodeCounts counts(board.view.domains().size());
  for (const ClassNeed& need : way.needs) {
    const NodeClass& cls = board.view.classes()[need.cls];
    if (cls.like.weight <= weight_max)
      for (DomainNo d = 0; d < cls.at_domain.size(); ++d) counts[d] += cls.at_domain[d].at_least(need.amounts);
  }
  return counts;
}

// The weights there are, ascending: heavier nodes are only looked at when the lighter ones do not suffice.
std::vector<std::uint32_t> weights_of(Board& board, const GroupWay& way) {
  std::vector<std::uint32_t> weights;
  for (const ClassNeed& need : way.needs) weights.push_back(board.view.classes()[need.cls].like.weight);
  std::sort(weights.begin(), weights.end());
  weights.erase(std::unique(weights.begin(), weights.end()), weights.end());
  return weights;
}

using Grants = std::optional<std::vector<Grant>>;

// What a group is placed with.
struct GroupTask {
  const GroupSpec& group;
  const GroupWay& way;
  std::uint16_t number;
  const Partition& partition;
  bool listed;
};

// Everywhere at once.
Grants place_anywhere(Board& board, const GroupTask& task) {
  for (std::size_t enough = first_try(task.group, task.way);; enough = 0) {
    std::vector<Candidate> candidates;
    bool cut = false;
    if (task.listed)
      cut = gather_listed(board, task.group, task.way, task.partition, enough, candidates);
    else
      gather_all(board, task.group, task.way, task.partition, candidates);
    Grants grants;
    if (candidates.size() >= task.way.nodes)
      grants = place_group(candidates, task.group, task.number);
    if (grants || !cut)
      return grants;
  }
}

// All nodes the board allows, by the domain they hang on.
std::vector<std::vector<Candidate>> all_by_domain(Board& board, const GroupTask& task, std::uint32_t tasks_each) {
  std::vector<Candidate> all;
  gather_all(board, task.group, task.way, task.partition, all);
  std::vector<std::vector<Candidate>> out(board.view.domains().size());
  for (const Candidate& candidate : all)
    if (tasks_that_fit(*candidate.node, *candidate.load, task.group) >= tasks_each)
      out[board.view.nodes()[candidate.node->id.value].domain].push_back(candidate);
  return out;
}

// So many nodes, each with room for so many tasks.
Grants place_even(Board& board, const GroupTask& task, std::uint32_t nodes, std::uint32_t tasks_each) {
  const DomainTree& tree = board.view.domains();
  const GangAsk ask{nodes, task.way.where};
  if (!task.listed || !board.view.by_domain()) {
    const auto all = all_by_domain(board, task, tasks_each);
    NodeCounts counts;
    for (const auto& members : all) counts.push_back(static_cast<std::uint32_t>(members.size()));
    const auto gang = choose_gang(tree, counts, ask, [&](DomainNo d) { return all[d]; });
    return gang ? place_group(*gang, task.group, task.number) : std::nullopt;
  }
  // Of a domain that alone has enough no more than that many nodes are looked at.
  const std::size_t enough = ask.where.wish == 0 && ask.where.segment == 0 ? nodes : 0;
  for (const std::uint32_t weight_max : weights_of(board, task.way)) {
    const auto gang = choose_gang(tree, listed_counts(board, task.way, weight_max), ask, [&](DomainNo d) {
      return candidates_of(listed_at(board, task.group, task.way, task.partition, d, weight_max, enough));
    });
    if (gang)
      if (Grants grants = place_group(*gang, task.group, task.number))
        return grants;
  }
  return std::nullopt;
}

// A node that nobody uses comes from the domain with the fewest of them.
Grants place_single(Board& board, const GroupTask& task) {
  Grants first = place_anywhere(board, task);
  if (!first || !task.listed || !task.way.exact || !board.view.by_domain())
    return first;
  const NodeSlot& slot = board.view.nodes()[first->front().node.value];
  if (slot.load.holders > 0)
    return first;
  const std::uint32_t weight_max = slot.node->weight;
  const auto gang =
      choose_gang(board.view.domains(), listed_counts(board, task.way, weight_max), {1, {}}, [&](DomainNo d) {
        return candidates_of(listed_at(board, task.group, task.way, task.partition, d, weight_max, 1));
      });
  Grants grants = gang ? place_group(*gang, task.group, task.number) : std::nullopt;
  return grants ? grants : first;
}

// The number of nodes, or of tasks on each, is found by trying: in one domain after the other.
Grants place_uneven(Board& board, const GroupTask& task) {
  constexpr int kTriesMost = 4;  // where it is only a preference
  const GroupWay& way = task.way;
  const DomainTree& tree = board.view.domains();
  Grants anywhere;
  if (!way.bound || task.group.nodes.min <= 1)
    anywhere = place_anywhere(board, task);
  const bool listed = task.listed && board.view.by_domain();
  if ((anywhere && anywhere->size() == 1) || (!way.bound && (!anywhere || !listed)))
    return anywhere;
  std::vector<std::vector<Candidate>> all;
  NodeCounts counts;
  if (listed) {
    counts = listed_counts(board, way, UINT32_MAX);
  } else {
    all = all_by_domain(board, task, 1);
    for (const auto& members : all) counts.push_back(static_cast<std::uint32_t>(members.size()));
  }
  GangAsk ask{way.bound ? std::max(1u, task.group.nodes.min) : static_cast<std::uint32_t>(anywhere->size()), way.where};
  int tries = 0;
  Grants found;
  each_domain_for(tree, counts, ask, [&](DomainNo domain) {
    if (!way.bound && (domain == kWholeCluster || ++tries > kTriesMost))
      return true;
    std::vector<std::vector<Choice>> parts;
    const std::size_t from = tree.place_in_order(domain), depth = tree.depth_of(domain);
    for (std::size_t i = from; i < tree.size(); ++i) {
      const DomainNo part = tree.in_order()[i];
      if (i != from && tree.depth_of(part) <= depth)
        break;
      if (part >= counts.size() || counts[part] == 0)
        continue;
      if (listed) {
        parts.push_back(listed_at(board, task.group, way, task.partition, part, UINT32_MAX, 0));
        continue;
      }
      parts.emplace_back();
      for (const Candidate& candidate : all[part])
        parts.back().push_back({candidate.node->weight, false, {}, candidate});
    }
    if (way.where.switches_max != 0 && parts.size() > way.where.switches_max) {
      std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
      parts.resize(way.where.switches_max);
    }
    std::vector<Choice> choices;
    for (const auto& part : parts) choices.insert(choices.end(), part.begin(), part.end());
    std::sort(choices.begin(), choices.end(), preferred);
    found = place_group(candidates_of(choices), task.group, task.number);
    return found.has_value();
  });
  return found || way.bound ? found : anywhere;
}

Grants place_one_group(Board& board, const GroupTask& task) {
  const GroupSpec& group = task.group;
  const GroupWay& way = task.way;
  if (!way.bound && !(task.listed && board.view.by_domain()))
    return place_anywhere(board, task);
  if (way.where.unknown)
    return std::nullopt;
  if (way.even && way.nodes == 1)
    return place_single(board, task);
  const bool named = !group.only_nodes.empty() && (group.nodes.max == 0 || group.nodes.max > group.only_nodes.size());
  if (way.even && !named)
    return place_even(board, task, way.nodes, way.tasks_each);
  if (way.where.segment != 0 && group.nodes.min != 0 && group.nodes.min == group.nodes.max)
    return place_even(board, task, group.nodes.min, (group.tasks.min + group.nodes.min - 1) / group.nodes.min);
  return place_uneven(board, task);
}

// --- whole jobs ---

// One group after the other in the given order.
std::optional<std::vector<Grant>> place_in_order(Board& board, const JobSpec& spec, const Way& way,
                                                 std::span<const std::uint16_t> order, bool listed) {
  const Partition& partition = *board.view.partitions()[way.partition];
  std::vector<Grant> all;
  board.held.clear();
  for (const std::uint16_t g : order) {
    const GroupSpec& group = spec.groups[g];
    const GroupWay& group_way = way.groups[g];
    Grants grants = place_one_group(board, {group, group_way, g, partition, listed});
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
                                            const Shadows& shadows, const Avoid& avoid, Duration predicted) {
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
  return place(Board{view, load, {}, std::min(predicted, way.limit)}, spec, way, true);
}

std::optional<std::vector<Grant>> place_where(PlannerView& view, const JobSpec& spec, const Way& way,
                                              std::function<const NodeLoad*(NodeId)> load) {
  return place(Board{view, std::move(load), {}, {}}, spec, way, false);
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
      const NodeClass& cls = view.classes()[demand.pool];
      nodes += cls.open.at_least(amounts) + cls.shaded.at_least(amounts);
    }
    return nodes >= brief.demands[0].nodes;
  }
  const std::vector<Way>& ways = view.shapes()[number].ways;
  return std::any_of(ways.begin(), ways.end(), [&](const Way& way) { return way.open && may_fit(view, way, {}, {}); });
}

namespace {

bool fits_empty(PlannerView& view, const Shape& shape, const Way& way, bool any_state,
                std::vector<std::pair<NodeId, std::uint64_t>>* witness) {
  if (way.groups.size() == 1 && way.groups[0].exact && way.groups[0].bound) {
    NodeCounts counts(view.domains().size());
    for (const ClassNeed& need : way.groups[0].needs) {
      const NodeClass& cls = view.classes()[need.cls];
      const std::vector<std::uint32_t>& nodes = any_state ? cls.present_at : cls.usable_at;
      for (std::size_t d = 0; d < nodes.size(); ++d) counts[d] += nodes[d];
    }
    return each_domain_for(view.domains(), counts, {way.groups[0].nodes, way.groups[0].where},
                           [](DomainNo) { return true; });
  }
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
  const auto grants = place(Board{view, load, {}, {}}, *shape.spec, way, false);
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
  if (shape.ways.size() != 1 || head->groups.size() != 1 || !head->groups[0].exact || head->groups[0].bound ||
      head->groups[0].needs.size() > ShapeBrief::kNeeds)
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
  const bool counted = std::all_of(shape.ways.begin(), shape.ways.end(), [](const Way& way) {
    return way.groups.size() == 1 && way.groups[0].exact && !way.groups[0].bound;
  });
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
