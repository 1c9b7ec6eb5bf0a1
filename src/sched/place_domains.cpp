// Placing in the domains of a topology.
#include <algorithm>

#include "sched/place_inner.h"

namespace lockstep {

namespace {

// The nodes that hang on one domain, with enough free now, in order of preference; `enough` as above.
std::vector<Choice> listed_at(Board& board, const GroupSpec& group, const GroupWay& way, const Partition& partition,
                              DomainNo domain, std::uint32_t weight_max, std::size_t enough) {
  std::vector<Choice> choices;
  for (const ClassNeed& need : way.needs) {
    const AlikeNodes& cls = board.view.classes()[need.cls];
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
    const AlikeNodes& cls = board.view.classes()[need.cls];
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

// How many of the named nodes hang on each domain, where all of them must be among the gang's; else nothing.
NodeCounts required_at(Board& board, const GroupSpec& group) {
  NodeCounts counts;
  if (group.only_nodes.empty() || (group.nodes.max != 0 && group.nodes.max <= group.only_nodes.size()))
    return counts;
  counts.resize(board.view.domains().size());
  for (const std::string& name : group.only_nodes)
    if (const NodeSlot* slot = board.view.slot_named(name))
      ++counts[slot->domain];
  return counts;
}

// So many nodes, each with room for so many tasks.
Grants place_even(Board& board, const GroupTask& task, std::uint32_t nodes, std::uint32_t tasks_each) {
  const DomainTree& tree = board.view.domains();
  const GangAsk ask{nodes, task.way.where, required_at(board, task.group)};
  const NameSet named(task.group.only_nodes);
  const auto named_first = [&](std::vector<Candidate> members) {
    if (!ask.required.empty())
      std::stable_partition(members.begin(), members.end(),
                            [&](const Candidate& c) { return named.has(c.node->meta.name); });
    return members;
  };
  if (!task.listed || !board.view.by_domain()) {
    const auto all = all_by_domain(board, task, tasks_each);
    NodeCounts counts;
    for (const auto& members : all) counts.push_back(static_cast<std::uint32_t>(members.size()));
    const auto gang = choose_gang(tree, counts, ask, [&](DomainNo d) { return named_first(all[d]); });
    return gang ? place_group(*gang, task.group, task.number) : std::nullopt;
  }
  // Of a domain that alone has enough no more than that many nodes are looked at.
  const std::size_t enough = ask.where.wish == 0 && ask.where.segment == 0 && ask.required.empty() ? nodes : 0;
  for (const std::uint32_t weight_max : weights_of(board, task.way)) {
    const auto gang = choose_gang(tree, listed_counts(board, task.way, weight_max), ask, [&](DomainNo d) {
      return named_first(candidates_of(listed_at(board, task.group, task.way, task.partition, d, weight_max, enough)));
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
  if (!first || !task.listed || !task.way.exact || by_taste(board, task) || !board.view.by_domain())
    return first;
  const NodeSlot& slot = board.view.nodes()[first->front().node.value];
  if (slot.load.occupants > 0)
    return first;
  const std::uint32_t weight_max = slot.node->weight;
  GroupWay way = task.way;
  if (by_price(board, task)) {  // of those that cost the same
    std::erase_if(way.needs, [&](const ClassNeed& need) { return need.cls != slot.cls; });
    way.needs[0].amounts.devices = board.view.classes()[slot.cls].whole.devices;
    way.needs[0].amounts.milli = board.view.classes()[slot.cls].whole.milli;
  }
  const auto gang = choose_gang(board.view.domains(), listed_counts(board, way, weight_max), {1, {}}, [&](DomainNo d) {
    return candidates_of(listed_at(board, task.group, way, task.partition, d, weight_max, 1));
  });
  Grants grants = gang ? place_group(*gang, task.group, task.number) : std::nullopt;
  return grants ? grants : first;
}

// The number of nodes, or of tasks on each, is found by trying: in one domain after the other.
class UnevenSearch {
 public:
  UnevenSearch(Board& board, const GroupTask& task, bool listed)
      : board_(board), task_(task), tree_(board.view.domains()), listed_(listed) {
    if (listed) {
      counts_ = listed_counts(board, task.way, UINT32_MAX);
    } else {
      all_ = all_by_domain(board, task, 1);
      for (const auto& members : all_) counts_.push_back(static_cast<std::uint32_t>(members.size()));
    }
  }

  // nodes: so many at least.
  Grants run(std::uint32_t nodes) {
    constexpr int kTriesMost = 4;  // where it is only a preference
    int tries = 0;
    Grants found;
    each_domain_for(tree_, counts_, GangAsk{nodes, task_.way.where}, [&](DomainNo domain) {
      if (!task_.way.bound && (domain == kWholeCluster || ++tries > kTriesMost))
        return true;
      found = place_under(domain);
      return found.has_value();
    });
    return found;
  }

 private:
  Grants place_under(DomainNo domain) {
    std::vector<std::vector<Choice>> parts = parts_of(domain);
    const std::uint32_t switches_max = task_.way.where.switches_max;
    if (switches_max != 0 && parts.size() > switches_max) {
      std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
      parts.resize(switches_max);
    }
    std::vector<Choice> choices;
    for (const auto& part : parts) choices.insert(choices.end(), part.begin(), part.end());
    std::sort(choices.begin(), choices.end(), preferred);
    return place_group(candidates_of(choices), task_.group, task_.number);
  }

  // The nodes under the domain, apart by what they hang on.
  std::vector<std::vector<Choice>> parts_of(DomainNo domain) {
    std::vector<std::vector<Choice>> parts;
    const std::size_t from = tree_.place_in_order(domain), depth = tree_.depth_of(domain);
    for (std::size_t i = from; i < tree_.size(); ++i) {
      const DomainNo part = tree_.in_order()[i];
      if (i != from && tree_.depth_of(part) <= depth)
        break;
      if (part < counts_.size() && counts_[part] != 0)
        parts.push_back(nodes_at(part));
    }
    return parts;
  }

  std::vector<Choice> nodes_at(DomainNo part) {
    if (listed_)
      return listed_at(board_, task_.group, task_.way, task_.partition, part, UINT32_MAX, 0);
    std::vector<Choice> out;
    for (const Candidate& candidate : all_[part])
      out.push_back(
          {candidate.node->weight, false, {}, candidate, {}, board_.view.nodes()[candidate.node->id.value].place});
    return out;
  }

  Board& board_;
  const GroupTask& task_;
  const DomainTree& tree_;
  const bool listed_;  // the indexes of the classes know all nodes that will do
  std::vector<std::vector<Candidate>> all_;
  NodeCounts counts_;
};

Grants place_uneven(Board& board, const GroupTask& task) {
  const GroupWay& way = task.way;
  Grants anywhere;
  if (!way.bound || task.group.nodes.min <= 1)
    anywhere = place_anywhere(board, task);
  const bool listed = task.listed && board.view.by_domain();
  if ((anywhere && anywhere->size() == 1) || (!way.bound && (!anywhere || !listed)))
    return anywhere;
  const std::uint32_t nodes =
      way.bound ? std::max(1u, task.group.nodes.min) : static_cast<std::uint32_t>(anywhere->size());
  Grants found = UnevenSearch(board, task, listed).run(nodes);
  return found || way.bound ? found : anywhere;
}

}  // namespace

Grants place_in_domains(Board& board, const GroupTask& task) {
  const GroupSpec& group = task.group;
  const GroupWay& way = task.way;
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

}  // namespace lockstep
