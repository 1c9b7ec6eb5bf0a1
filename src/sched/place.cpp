#include "sched/place.h"

#include <algorithm>
#include <numeric>

#include "sched/idle_together.h"
#include "sched/place_inner.h"

namespace lockstep {

namespace {

constexpr std::size_t kTogetherLook = 64;  // nodes that are compared for a part of one
constexpr int kOrdersMax = 24;             // of a job's groups: all of up to four

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

}  // namespace

bool preferred(const Choice& a, const Choice& b) {
  return std::tie(a.weight, a.breaks, a.cost, a.free.devices, a.free.milli, a.place, a.candidate.node->id) <
         std::tie(b.weight, b.breaks, b.cost, b.free.devices, b.free.milli, b.place, b.candidate.node->id);
}

std::optional<Choice> choice_of(Board& board, const GroupSpec& group, const GroupWay& way, const Partition& partition,
                                const ClassNeed& need, NodeId id) {
  const AlikeNodes& cls = board.view.classes()[need.cls];
  const NodeSlot& slot = board.view.nodes()[id.value];
  const NodeLoad* load = board.at(id);
  const Node& node = *slot.node;
  if (load != &slot.load && !free_on(cls, node, *load).covers(need.amounts))
    return std::nullopt;
  if (slot.free.memory_mb < need.amounts.memory_mb || (group.sharing == Sharing::kExclusive && load->occupants > 0) ||
      seats_left(*load, group) == 0 || (!way.exact && !eligible(node, partition, group)) || !seated(board, node))
    return std::nullopt;
  return Choice{node.weight, false, slot.free, {&node, load}, {}, slot.place};
}

namespace {

// How the listed nodes of a class are looked at for a group.
struct ListedLook {
  std::size_t enough = 0;  // so many are looked at; 0: all
  bool by_island = false;  // those are preferred that need not break a whole island
  bool one = false;        // it is one node, and of what is left there something is kept
  bool together = false;   // a part of it: those that have the least left are compared
};

ListedLook look_at(const Board& board, const GroupWay& way, const ClassNeed& need, const AlikeNodes& cls,
                   std::size_t enough) {
  const bool devices_of_one = way.exact && way.nodes == 1 && need.amounts.devices > 0;
  ListedLook look;
  look.by_island = devices_of_one && cls.islands.size() > 1;
  look.one = devices_of_one && board.needed.us > 0;
  look.together = look.one && need.amounts.devices < cls.whole.devices;
  look.enough = look.together && enough != 0 ? std::max(enough, kTogetherLook) : enough;
  return look;
}

// Collects choices from one list of a class; true: it was left before its end.
bool gather_from(Board& board, const NodeIndex& index, const ClassNeed& need, const ListedLook& look,
                 const GroupSpec& group, const GroupWay& way, const Partition& partition, std::vector<Choice>& out) {
  const AlikeNodes& cls = board.view.classes()[need.cls];
  std::size_t found = 0;
  int breaking = 0;
  bool cut = false;
  index.each(need.amounts, [&](NodeId id) {
    auto choice = choice_of(board, group, way, partition, need, id);
    if (!choice)
      return true;
    choice->breaks = look.by_island && breaks_island(cls, *choice->candidate.load, need.amounts.devices);
    if (look.one)
      choice->cost = look.together ? cost_of(board, id, choice->free, need.amounts.devices) : kForever;
    out.push_back(*choice);
    if (choice->breaks && ++breaking < kIslandsLook)
      return true;
    cut = ++found >= look.enough && look.enough != 0;
    return !cut;
  });
  return cut;
}

// Of the listed nodes with enough free, `enough` (0 = all) in order of preference; false when there are no more.
bool gather_listed(Board& board, const GroupSpec& group, const GroupWay& way, const Partition& partition,
                   std::size_t enough, std::vector<Candidate>& out) {
  std::vector<Choice> choices;
  bool cut = false;
  for (const ClassNeed& need : way.needs) {
    const AlikeNodes& cls = board.view.classes()[need.cls];
    const ListedLook look = look_at(board, way, need, cls, enough);
    for (const NodeIndex* index : {&cls.open, &cls.shaded})
      cut = gather_from(board, *index, need, look, group, way, partition, choices) || cut;
  }
  std::sort(choices.begin(), choices.end(), preferred);
  if (enough != 0 && choices.size() > enough) {
    choices.resize(enough);
    cut = true;
  }
  for (const Choice& choice : choices) out.push_back(choice.candidate);
  return cut;
}

}  // namespace

void gather_all(Board& board, const GroupSpec& group, const GroupWay& way, const Partition& partition,
                std::vector<Candidate>& out) {
  std::vector<bool> in(board.view.classes().size());
  for (const ClassNeed& need : way.needs) in[need.cls] = true;
  for (const NodeSlot& slot : board.view.nodes()) {
    if (!slot.node || !in[slot.cls])
      continue;
    const NodeLoad* load = board.at(slot.node->id);
    if (load && eligible(*slot.node, partition, group) && seated(board, *slot.node))
      out.push_back({slot.node.get(), load});
  }
}

namespace {

// For a single node: the first that will do.
Grants first_fit(Board& board, const GroupTask& task) {
  std::vector<bool> in(board.view.classes().size());
  for (const ClassNeed& need : task.way.needs) in[need.cls] = true;
  for (const NodeSlot& slot : board.view.nodes()) {
    if (!slot.node || !in[slot.cls])
      continue;
    const NodeLoad* load = board.at(slot.node->id);
    if (load && eligible(*slot.node, task.partition, task.group) && seated(board, *slot.node) &&
        tasks_that_fit(*slot.node, *load, task.group) >= task.way.tasks_each)
      if (Grants grants = place_group({{slot.node.get(), load}}, task.group, task.number))
        return grants;
  }
  return std::nullopt;
}

}  // namespace

Grants place_anywhere(Board& board, const GroupTask& task) {
  if (by_taste(board, task))
    return place_by_taste(board, task);
  if (by_price(board, task))
    return place_by_price(board, task);
  if (!task.listed && task.way.even && task.way.nodes == 1 && task.group.only_nodes.empty())
    return first_fit(board, task);
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

namespace {

// One group after the other in the given order.
Grants place_in_order(Board& board, const JobSpec& spec, const Way& way, std::span<const std::uint16_t> order,
                      bool listed) {
  const Partition& partition = *board.view.partitions()[way.partition];
  std::vector<Grant> all;
  board.held.clear();
  for (const std::uint16_t g : order) {
    const GroupSpec& group = spec.groups[g];
    const GroupTask task{group, way.groups[g], g, partition, listed};
    Grants grants = task.way.bound || (listed && board.view.by_domain()) ? place_in_domains(board, task)
                                                                         : place_anywhere(board, task);
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

}  // namespace

Grants place(Board board, const JobSpec& spec, const Way& way, bool listed) {
  board.alone = spec.groups.size() == 1;
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

namespace {

bool has_terms(const JobSpec& spec) {
  return std::any_of(spec.groups.begin(), spec.groups.end(), [](const GroupSpec& group) {
    return !group.neighbours.empty() || !group.node_wishes.empty() || group.minds_marks;
  });
}

// Among the jobs that run, and those that are about to.
class Seat {
 public:
  Seat(PlannerView& view, const JobSpec& spec) {
    if (!minds_neighbours(view, spec))
      return;
    const Seating::NodeOf node_of = [&](NodeId id) {
      return id.value < view.nodes().size() ? view.nodes()[id.value].node.get() : nullptr;
    };
    const Seating::EachNode each_node = [&](const std::function<void(const Node&)>& see) {
      for (const NodeSlot& slot : view.nodes())
        if (slot.node)
          see(*slot.node);
    };
    seating_.emplace(view.neighbours(), spec, node_of, each_node);
  }
  const Seating* get() const { return seating_ ? &*seating_ : nullptr; }

 private:
  std::optional<Seating> seating_;
};

}  // namespace

bool minds_neighbours(const PlannerView& view, const JobSpec& spec) {
  return has_terms(spec) || (!spec.scope.empty() && !view.neighbours().keep_apart().empty());
}

bool must_mind_neighbours(const PlannerView& view, const JobSpec& spec) {
  for (const GroupSpec& group : spec.groups)
    if (std::any_of(group.neighbours.begin(), group.neighbours.end(),
                    [](const NeighbourTerm& term) { return term.weight == 0; }))
      return true;
  const auto& apart = view.neighbours().keep_apart();
  return !spec.scope.empty() &&
         std::any_of(apart.begin(), apart.end(), [&](const auto& one) { return means(one.second.term, spec); });
}

bool may_fit(PlannerView& view, const Way& way, const Shadows& shadows, const Avoid& avoid) {
  const bool all_avoided = !shadows.all().empty() && std::find(avoid.begin(), avoid.end(), false) == avoid.end();
  for (const GroupWay& group : way.groups) {
    std::uint64_t nodes = 0;
    for (const ClassNeed& need : group.needs) {
      const AlikeNodes& cls = view.classes()[need.cls];
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
  const Seat seat(view, spec);
  Board board{view, load, {}, std::min(predicted, way.limit), way.limit >= kForever};
  board.seating = seat.get();
  return place(std::move(board), spec, way, true);
}

std::optional<std::vector<Grant>> place_where(PlannerView& view, const JobSpec& spec, const Way& way,
                                              std::function<const NodeLoad*(NodeId)> load) {
  const Seat seat(view, spec);
  Board board{view, std::move(load), {}, {}};
  board.seating = seat.get();
  return place(std::move(board), spec, way, false);
}

}  // namespace lockstep
