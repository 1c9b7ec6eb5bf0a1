#include "rules/topology.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/hostlist.h"
#include "base/text.h"
#include "model/spec.h"
#include "rules/fit.h"

namespace lockstep {

namespace {

using Path = std::span<const std::string>;

Path path_of(const Node& node, std::size_t depth) {
  return Path(node.domains).first(std::min(depth, node.domains.size()));
}

struct PathLess {
  bool operator()(Path a, Path b) const { return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end()); }
};

struct Amount {
  std::uint64_t nodes = 0, tasks = 0;
};
using Amounts = std::map<Path, Amount, PathLess>;

std::string one(const std::string& level) { return "one " + level; }

std::string plural(const std::string& level) { return level == "leaf" ? "leaves" : level + "s"; }

// The word for the innermost level.
std::string leaf_word(std::span<const std::string> levels) { return levels.empty() ? "switch" : levels.back(); }

// Enough of it in the n richest.
Amount richest(const Amounts& amounts, std::size_t n, std::vector<std::string>* names) {
  std::vector<const Amounts::value_type*> order;
  for (const auto& entry : amounts) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->second.nodes > b->second.nodes; });
  Amount all;
  for (std::size_t i = 0; i < std::min(n, order.size()); ++i) {
    all.nodes += order[i]->second.nodes;
    all.tasks += order[i]->second.tasks;
    if (names && !order[i]->first.empty())
      names->push_back(order[i]->first.back());
  }
  return all;
}

Error impossible(std::string message, std::size_t g, const char* field) {
  return {Errc::kImpossible, std::move(message), format("groups[{}].{}", g, field)};
}

}  // namespace

DomainAsk domain_ask(const GroupSpec& group, const Partition& partition, std::span<const std::string> levels) {
  DomainAsk ask;
  ask.switches_max = group.switches_max;
  ask.segment = group.segment;
  if (ask.segment == 0 && partition.segment > 1 && group.nodes.min > 0 && group.nodes.min == group.nodes.max &&
      group.nodes.min % partition.segment == 0)
    ask.segment = partition.segment;
  if (ask.segment == 1)
    ask.segment = 0;
  std::string_view name = group.topology_level;
  const bool must = name.starts_with('!');
  if (must)
    name.remove_prefix(1);
  if (name.empty() || name == "cluster")
    return ask;
  const auto at = std::find(levels.begin(), levels.end(), name);
  const auto depth = at == levels.end() ? std::size_t{0} : static_cast<std::size_t>(at - levels.begin()) + 1;
  ask.unknown = must && depth == 0;
  (must ? ask.level : ask.wish) = depth;
  return ask;
}

Instant switches_end(const JobSpec& spec, Instant eligible) {
  Duration longest;
  bool bound = false;
  for (const GroupSpec& group : spec.groups)
    if (group.switches_max != 0) {
      bound = true;
      longest = std::max(longest, group.switches_wait);
    }
  return !bound || longest >= kForever ? kNever : eligible + longest;
}

Ref<JobSpec> without_switches(const JobSpec& spec) {
  auto out = std::make_shared<JobSpec>(spec);
  std::vector<GroupSpec> groups(spec.groups.begin(), spec.groups.end());
  for (GroupSpec& group : groups) group.switches_max = 0;
  out->groups = std::move(groups);
  return out;
}

std::size_t depth_reached(NodeList nodes) {
  if (nodes.empty())
    return 0;
  std::size_t depth = nodes[0]->domains.size();
  for (const Node* node : nodes) {
    depth = std::min(depth, node->domains.size());
    std::size_t same = 0;
    while (same < depth && node->domains[same] == nodes[0]->domains[same]) ++same;
    depth = same;
  }
  return depth;
}

std::size_t leaves_of(NodeList nodes) {
  std::vector<Path> paths;
  for (const Node* node : nodes) paths.emplace_back(node->domains);
  std::sort(paths.begin(), paths.end(), PathLess());
  const auto same = [](Path a, Path b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); };
  return static_cast<std::size_t>(std::unique(paths.begin(), paths.end(), same) - paths.begin());
}

std::size_t best_depth(NodeList nodes, std::size_t count) {
  std::size_t deepest = 0;
  for (const Node* node : nodes) deepest = std::max(deepest, node->domains.size());
  for (std::size_t depth = deepest; depth > 0; --depth) {
    std::map<Path, std::size_t, PathLess> have;
    for (const Node* node : nodes)
      if (node->domains.size() >= depth && ++have[path_of(*node, depth)] >= count)
        return depth;
  }
  return 0;
}

std::string level_word(std::size_t depth, std::size_t nodes, std::span<const std::string> levels) {
  if (nodes == 1)
    return "node";
  if (depth == 0)
    return "cluster";
  return depth <= levels.size() ? levels[depth - 1] : format("level{}", depth);
}

bool before_on_tree(const Node& a, const Node& b) {
  const std::size_t common = std::min(a.domains.size(), b.domains.size());
  for (std::size_t i = 0; i < common; ++i)
    if (a.domains[i] != b.domains[i])
      return host_less(a.domains[i], b.domains[i]);
  if (a.domains.size() != b.domains.size())
    return a.domains.size() > b.domains.size();  // what the tree does not know comes last
  return host_less(a.meta.name, b.meta.name);
}

Result<void> check_domains(const JobSpec& spec, const Partition& partition, std::span<const std::string> levels,
                           const std::vector<Grant>& grants, NodeList nodes, bool switches_over) {
  CHECK(grants.size() == nodes.size());
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    const DomainAsk ask = domain_ask(spec.groups[g], partition, levels);
    if (!ask.binds())
      continue;
    if (ask.unknown)
      return conflict("the level that must hold the group does not exist");
    std::vector<const Node*> own;
    for (std::size_t i = 0; i < grants.size(); ++i)
      if (grants[i].group == g)
        own.push_back(nodes[i]);
    if (own.size() > 1 && depth_reached(own) < ask.level)
      return conflict(format("group {} does not lie under one {}", g, levels[ask.level - 1]));
    if (ask.switches_max != 0 && !switches_over && leaves_of(own) > ask.switches_max)
      return conflict(format("group {} lies on more than {} switches", g, ask.switches_max));
    if (ask.segment == 0)
      continue;
    std::map<Path, std::size_t, PathLess> here;
    for (const Node* node : own) ++here[node->domains];
    for (const auto& [leaf, count] : here)
      if (count % ask.segment != 0)
        return conflict(format("group {} breaks a segment of {} nodes", g, ask.segment));
  }
  return {};
}

namespace {

// What the words of the group say of the tree, whatever nodes there are.
Result<void> check_tree_words(const GroupSpec& group, const DomainAsk& ask, std::span<const std::string> levels,
                              std::size_t g) {
  std::string_view name = group.topology_level;
  const bool names_level = name.size() > 1;
  if (name.starts_with('!'))
    name.remove_prefix(1);
  if (names_level && name != "cluster" && ask.level == 0 && ask.wish == 0)
    return Error{Errc::kInvalid,
                 levels.empty() ? format("asks for level {}; this cluster has no topology", name)
                                : format("there is no level {}; the levels are {}", name,
                                         join(std::vector<std::string>(levels.begin(), levels.end()), ", ")),
                 format("groups[{}].topology_level", g)};
  if (ask.segment == 0)
    return {};
  if (group.nodes.min == 0 || group.nodes.min != group.nodes.max)
    return Error{Errc::kInvalid, format("segments of {} nodes need a fixed number of nodes", ask.segment),
                 format("groups[{}].segment", g)};
  if (group.nodes.min % ask.segment != 0)
    return Error{Errc::kInvalid,
                 format("{} nodes are no multiple of segments of {} nodes", group.nodes.min, ask.segment),
                 format("groups[{}].segment", g)};
  return {};
}

// What empty nodes offer a group, by the domains that its words speak of.
struct TreeRoom {
  std::map<Path, Amounts, PathLess> leaves;  // by the domain that must hold all
  Amounts domains;                           // the same domains, each as a whole
};

TreeRoom room_in_tree(const GroupSpec& group, const DomainAsk& ask, const Partition& partition, NodeList nodes) {
  static const NodeLoad kEmpty;
  TreeRoom out;
  for (const Node* node : nodes) {
    if (!eligible(*node, partition, group) || node->domains.size() < ask.level)
      continue;
    const std::uint32_t room = tasks_that_fit(*node, kEmpty, group);
    if (room == 0)
      continue;
    const Path domain = path_of(*node, ask.level);
    for (Amount* amount : {&out.leaves[domain][node->domains], &out.domains[domain]}) {
      ++amount->nodes;
      amount->tasks += room;
    }
  }
  return out;
}

Amounts whole_segments(Amounts amounts, std::uint32_t segment) {
  if (segment != 0)
    for (auto& [path, amount] : amounts) amount.nodes -= amount.nodes % segment;
  return amounts;
}

// So much is asked for at least.
struct Want {
  std::uint64_t nodes = 1, tasks = 0;
  bool met_by(const Amount& amount) const { return amount.nodes >= nodes && amount.tasks >= tasks; }
  std::string words() const { return nodes > 1 ? format("{} nodes", nodes) : format("{} tasks", tasks); }
  std::string words_for(const Amount& had) const {
    return nodes > 1 ? format("{}", had.nodes) : format("{} nodes with room for {}", had.nodes, had.tasks);
  }
};

// Some domain that may hold the group has room for it, on as many leaves as it may lie on.
bool some_domain_does(const TreeRoom& room, const DomainAsk& ask, const Want& want) {
  return std::any_of(room.leaves.begin(), room.leaves.end(), [&](const auto& domain) {
    const Amounts amounts = whole_segments(domain.second, ask.segment);
    return want.met_by(richest(amounts, ask.switches_max == 0 ? amounts.size() : ask.switches_max, nullptr));
  });
}

// No domain does: what would be possible, said of the first of its wishes that none can meet.
Error no_domain_does(const TreeRoom& room, const DomainAsk& ask, const Want& want, std::span<const std::string> levels,
                     std::size_t g) {
  if (ask.level != 0) {
    std::vector<std::string> names;
    const Amount most = richest(room.domains, 1, &names);
    const std::string& level = levels[ask.level - 1];
    if (!want.met_by(most))
      return impossible(
          names.empty() ? format("asks for {} under {}; no {} has any that it may use", want.words(), one(level), level)
                        : format("asks for {} under {}; the largest {}, {}, has {}", want.words(), one(level), level,
                                 names[0], want.words_for(most)),
          g, "topology_level");
  }
  Amounts all;
  for (const auto& [path, amounts] : room.leaves)
    for (const auto& [leaf, here] : amounts) all[leaf] = here;
  const Amounts segments = whole_segments(all, ask.segment);
  const std::string leaf = leaf_word(levels);
  if (ask.segment != 0 && richest(segments, segments.size(), nullptr).nodes < want.nodes)
    return impossible(
        format("asks for {} in segments of {} within one {}; the {} have room for {} in such segments", want.words(),
               ask.segment, leaf, plural(leaf), richest(segments, segments.size(), nullptr).nodes),
        g, "segment");
  if (ask.switches_max == 0)
    return impossible(format("asks for {} in segments of {} under one {}; none has room for them", want.words(),
                             ask.segment, levels[ask.level - 1]),
                      g, "segment");
  std::vector<std::string> names;
  const Amount most = richest(segments, ask.switches_max, &names);
  return impossible(
      format("asks for {} on at most {} {}; the largest, {}, {} {} nodes that it may use; with a time "
             "after which any place will do it would start then",
             want.words(), ask.switches_max, ask.switches_max == 1 ? leaf : plural(leaf),
             names.empty() ? "without a name" : join(names, " and "), names.size() > 1 ? "have" : "has", most.nodes),
      g, "switches_max");
}

}  // namespace

Result<void> check_domains_possible(const JobSpec& spec, const Partition& partition,
                                    std::span<const std::string> levels, NodeList nodes) {
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    const GroupSpec& group = spec.groups[g];
    DomainAsk ask = domain_ask(group, partition, levels);
    TRY(check_tree_words(group, ask, levels, g));
    if (group.switches_max != 0 && group.switches_wait < kForever)
      ask.switches_max = 0;
    if (!ask.binds())
      continue;
    const Want want{std::max<std::uint64_t>(1, group.nodes.min), group.tasks.min};
    const TreeRoom room = room_in_tree(group, ask, partition, nodes);
    if (!some_domain_does(room, ask, want))
      return no_domain_does(room, ask, want, levels, g);
  }
  return {};
}

}  // namespace lockstep
