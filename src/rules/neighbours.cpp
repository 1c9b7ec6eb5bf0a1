#include "rules/neighbours.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "model/node.h"
#include "model/spec.h"
#include "rules/labels.h"

namespace lockstep {

namespace {

constexpr std::size_t kTalliesMost =
    8192;  // terms that are counted all along; then all are counted anew when asked for

void add(std::string& key, std::string_view text) {
  key += text;
  key += '\0';
}

// The jobs that a term means: what is alike here is counted once.
std::string key_of(const NeighbourTerm& term) {
  std::string key(term.every_scope ? "*" : "=");
  for (const std::string& scope : term.scopes) add(key, scope);
  for (const LabelRule& rule : term.jobs) {
    key += static_cast<char>('0' + static_cast<int>(rule.is));
    add(key, rule.key);
    for (const std::string& value : rule.values) add(key, value);
    key += '\n';
  }
  return key;
}

void change(Neighbours::Counts& counts, NodeId node, int by) {
  std::uint32_t& count = counts[node];
  CHECK(by > 0 || count > 0, "a neighbour was counted less often than it left");
  count += static_cast<std::uint32_t>(by);
  if (count == 0)
    counts.erase(node);
}

}  // namespace

bool means(const NeighbourTerm& term, const JobSpec& spec) {
  if (spec.scope.empty() ||
      (!term.every_scope && !std::binary_search(term.scopes.begin(), term.scopes.end(), std::string(spec.scope))))
    return false;
  return rules_hold(term.jobs, spec.labels.get());
}

void Neighbours::put(JobId id, const Ref<JobSpec>& spec, const std::vector<Grant>& grants) {
  drop(id);
  if (spec->scope.empty())
    return;
  Resident resident{spec, {}};
  for (const Grant& grant : grants)
    if (std::ranges::find(resident.nodes, grant.node) == resident.nodes.end())
      resident.nodes.push_back(grant.node);
  count(resident, 1);
  residents_.emplace(id, std::move(resident));
}

void Neighbours::drop(JobId id) {
  const auto at = residents_.find(id);
  if (at == residents_.end())
    return;
  count(at->second, -1);
  residents_.erase(at);
}

void Neighbours::clear() {
  residents_.clear();
  keep_apart_.clear();
  by_scope_.clear();
  tallies_.clear();
}

void Neighbours::count(const Resident& resident, int by) {
  const JobSpec& spec = *resident.spec;
  for (const std::string_view scope : {std::string_view(), std::string_view(std::string_view(spec.scope))}) {
    const auto tallies = by_scope_.find(scope);
    if (tallies == by_scope_.end())
      continue;
    for (Tally* tally : tallies->second)
      if (means(tally->term, spec))
        for (const NodeId node : resident.nodes) change(tally->at, node, by);
  }
  for (const GroupSpec& group : spec.groups)
    for (const NeighbourTerm& term : group.neighbours) {
      if (term.wish != NeighbourTerm::Wish::kApart || term.weight > 0)
        continue;
      const std::string key = term.level + '\0' + key_of(term);
      const auto keeps = keep_apart_.try_emplace(key, Keeps{term, {}}).first;
      for (const NodeId node : resident.nodes) change(keeps->second.at, node, by);
      if (keeps->second.at.empty())
        keep_apart_.erase(keeps);
    }
}

const Neighbours::Counts& Neighbours::meant_by(const NeighbourTerm& term) const {
  const std::string key = key_of(term);
  if (const auto known = tallies_.find(key); known != tallies_.end())
    return known->second->at;
  if (tallies_.size() >= kTalliesMost) {
    by_scope_.clear();
    tallies_.clear();
  }
  auto tally = std::make_unique<Tally>(Tally{term, {}});
  for (const auto& [id, resident] : residents_)
    if (means(term, *resident.spec))
      for (const NodeId node : resident.nodes) change(tally->at, node, 1);
  if (term.every_scope)
    by_scope_[""].push_back(tally.get());
  else
    for (const std::string& scope : term.scopes) by_scope_[scope].push_back(tally.get());
  return tallies_.emplace(key, std::move(tally)).first->second->at;
}

Seating::Seating(const Neighbours& neighbours, const JobSpec& spec, const NodeOf& node_of, const EachNode& each_node)
    : spec_(spec) {
  bool any_near = false, near_found = false, near_itself = true;
  for (const GroupSpec& group : spec.groups) {
    prefers_ = prefers_ || !group.node_wishes.empty();
    for (const NeighbourTerm& wanted : group.neighbours) {
      Term term{.term = &wanted, .at = &neighbours.meant_by(wanted), .means_itself = means(wanted, spec)};
      for (const auto& [id, count] : *term.at) {
        term.total += count;
        const Node* node = wanted.level.empty() ? nullptr : node_of(id);
        if (const std::string* place = node ? label_of(node->labels, wanted.level) : nullptr)
          term.in[*place] += count;
      }
      prefers_ = prefers_ || wanted.weight > 0;
      if (wanted.wish == NeighbourTerm::Wish::kNear && wanted.weight == 0) {
        any_near = true;
        near_found = near_found || term.total > 0;
        near_itself = near_itself && term.means_itself;
      }
      if (wanted.wish == NeighbourTerm::Wish::kEven && wanted.weight == 0)
        find_least(term, each_node);
      terms_.push_back(std::move(term));
    }
  }
  first_of_all_ = any_near && !near_found && near_itself;
  if (spec.scope.empty())
    return;
  for (const auto& [key, keeps] : neighbours.keep_apart()) {
    if (!means(keeps.term, spec))
      continue;
    Shut shut{.level = keeps.term.level, .at = &keeps.at, .places = {}};
    if (!shut.level.empty())
      for (const auto& [id, count] : keeps.at)
        if (const Node* node = node_of(id))
          if (const std::string* place = label_of(node->labels, shut.level))
            shut.places.push_back(*place);
    std::ranges::sort(shut.places);
    shut_.push_back(std::move(shut));
  }
}

// In how few of them there are in the place with the least.
void Seating::find_least(Term& term, const EachNode& each_node) const {
  const NeighbourTerm& wanted = *term.term;
  const auto counts = [&](const Node& node) {
    if (!wanted.all_nodes &&
        std::ranges::none_of(spec_.groups.get(), [&](const GroupSpec& group) { return node_rules_hold(group, node); }))
      return false;
    return !wanted.heeds_marks ||
           std::ranges::none_of(spec_.groups.get(), [&](const GroupSpec& group) { return kept_off(group, node); });
  };
  std::uint64_t least = UINT64_MAX, places = 0;
  std::set<std::string_view> seen;
  each_node([&](const Node& node) {
    const std::string* place = wanted.level.empty() ? &node.meta.name : label_of(node.labels, wanted.level);
    if (!place || !counts(node) || (!wanted.level.empty() && !seen.insert(*place).second))
      return;
    ++places;
    std::uint64_t room = 0;
    least = std::min(least, *count_in(term, node, room));
  });
  term.least = places == 0 || places < wanted.places_min ? 0 : least;
}

// Null: the node is in no place.
const std::uint64_t* Seating::count_in(const Term& term, const Node& node, std::uint64_t& room) {
  room = 0;
  if (term.term->level.empty()) {
    const auto at = term.at->find(node.id);
    room = at == term.at->end() ? 0 : at->second;
    return &room;
  }
  const std::string* place = label_of(node.labels, term.term->level);
  if (!place)
    return nullptr;
  const auto at = term.in.find(*place);
  room = at == term.in.end() ? 0 : at->second;
  return &room;
}

Seating::Objection Seating::objection_of(const Term& term, const Node& node) const {
  using enum NeighbourTerm::Wish;
  std::uint64_t room = 0;
  const std::uint64_t* there = count_in(term, node, room);
  switch (term.term->wish) {
    case kNear:
      if (!there)
        return Objection::kNotNear;
      return *there > 0 || first_of_all_ ? Objection::kNone : Objection::kNotNear;
    case kApart: return there && *there > 0 ? Objection::kNotApart : Objection::kNone;
    case kEven: break;
  }
  if (!there)
    return Objection::kNoPlace;
  return *there + term.means_itself > term.least + term.term->skew_max ? Objection::kUneven : Objection::kNone;
}

// Its own terms first: they are what its user knows of.
Seating::Objection Seating::objection(const Node& node) const {
  for (const Term& term : terms_)
    if (term.term->weight == 0)
      if (const Objection why = objection_of(term, node); why != Objection::kNone)
        return why;
  for (const Shut& shut : shut_) {
    const std::string* place = shut.level.empty() ? nullptr : label_of(node.labels, shut.level);
    if (shut.level.empty() ? shut.at->contains(node.id)
                           : place && std::binary_search(shut.places.begin(), shut.places.end(), *place))
      return Objection::kOthersApart;
  }
  return Objection::kNone;
}

Seating::Taste Seating::taste(const Node& node) const {
  Taste out;
  for (const Term& term : terms_) {
    std::uint64_t room = 0;
    const std::uint64_t* there = count_in(term, node, room);
    const auto count = static_cast<std::int64_t>(there ? *there : 0);
    const std::int64_t weight = std::max<std::int64_t>(1, term.term->weight);
    switch (term.term->wish) {
      case NeighbourTerm::Wish::kNear: out.company += term.term->weight * count; break;
      case NeighbourTerm::Wish::kApart: out.company -= term.term->weight * count; break;
      // Who is in no place is as if among all of them.
      case NeighbourTerm::Wish::kEven:
        out.crowd += weight * (there ? count : static_cast<std::int64_t>(term.total));
        break;
    }
  }
  for (const GroupSpec& group : spec_.groups) {
    for (const NodeWish& wish : group.node_wishes)
      if (rules_hold(wish.rules, node.labels, node.meta.name))
        out.wishes += wish.weight;
    if (group.minds_marks)
      for (const NodeMark& mark : node.marks)
        out.put_off += mark.effect == NodeMark::Effect::kPutsOff && !bears(group, mark);
  }
  return out;
}

}  // namespace lockstep
