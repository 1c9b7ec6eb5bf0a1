#include "sched/domains.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/hostlist.h"

namespace lockstep {

DomainTree::DomainTree() : domains_(1), order_{kWholeCluster} {}

DomainNo DomainTree::at(const std::vector<std::string>& path) {
  DomainNo at = kWholeCluster;
  bool grown = false;
  for (const std::string& name : path) {
    std::vector<DomainNo>& children = domains_[at].children;
    const auto child = std::lower_bound(children.begin(), children.end(), name, [&](DomainNo d, const std::string& n) {
      return domains_[d].name != n && host_less(domains_[d].name, n);
    });
    if (child != children.end() && domains_[*child].name == name) {
      at = *child;
      continue;
    }
    const auto made = static_cast<DomainNo>(domains_.size());
    children.insert(child, made);
    domains_.push_back({name, at, domains_[at].depth + 1, 0, {}});
    at = made;
    grown = true;
    depth_ = std::max(depth_, domains_[at].depth);
  }
  if (grown) {
    order_.clear();
    order_below(kWholeCluster);
  }
  return at;
}

void DomainTree::order_below(DomainNo d) {
  domains_[d].place = order_.size();
  order_.push_back(d);
  for (const DomainNo child : domains_[d].children) order_below(child);
}

namespace {

std::uint32_t usable(const NodeCounts& counts, DomainNo d, std::uint32_t segment) {
  const std::uint32_t here = d < counts.size() ? counts[d] : 0;
  return segment == 0 ? here : here - here % segment;
}

// With everything below.
NodeCounts sums_of(const DomainTree& tree, const NodeCounts& counts, std::uint32_t segment) {
  NodeCounts sums(tree.size());
  for (DomainNo d = 0; d < sums.size(); ++d) sums[d] = usable(counts, d, segment);
  const std::vector<DomainNo>& order = tree.in_order();
  for (std::size_t i = order.size(); i-- > 1;) sums[tree.parent_of(order[i])] += sums[order[i]];
  return sums;
}

// Domains on which nodes hang directly, from d downwards.
std::vector<DomainNo> parts_below(const DomainTree& tree, const NodeCounts& counts, std::uint32_t segment, DomainNo d) {
  std::vector<DomainNo> out;
  const std::vector<DomainNo>& order = tree.in_order();
  const std::size_t depth = tree.depth_of(d), from = tree.place_in_order(d);
  for (std::size_t i = from; i < order.size() && (i == from || tree.depth_of(order[i]) > depth); ++i)
    if (usable(counts, order[i], segment) > 0)
      out.push_back(order[i]);
  return out;
}

bool few_enough(const DomainTree& tree, const NodeCounts& counts, const GangAsk& ask, DomainNo d) {
  if (ask.where.switches_max == 0)
    return true;
  const std::vector<DomainNo> parts = parts_below(tree, counts, ask.where.segment, d);
  if (parts.size() <= ask.where.switches_max)
    return true;
  std::vector<std::uint32_t> sizes;
  for (const DomainNo part : parts) sizes.push_back(usable(counts, part, ask.where.segment));
  const auto most = sizes.begin() + ask.where.switches_max;
  std::nth_element(sizes.begin(), most, sizes.end(), std::greater<>{});
  return std::accumulate(sizes.begin(), most, std::uint64_t{0}) >= ask.nodes;
}

struct Part {
  DomainNo domain = kWholeCluster;
  std::uint32_t nodes = 0;
  std::uint32_t leaves = 1;  // that have them
  bool direct = false;       // only what hangs on the domain itself
};

// Fills `out` from the parts, which hold enough together: the tightest that is enough for the rest, else the largest.
template <class Take>
void take_few(std::vector<Part> parts, std::uint32_t left, Take&& take) {
  while (left > 0) {
    auto best = parts.end();
    for (auto it = parts.begin(); it != parts.end(); ++it)
      if (it->nodes >= left &&
          (best == parts.end() || std::tie(it->nodes, it->leaves) < std::tie(best->nodes, best->leaves)))
        best = it;
    if (best == parts.end())
      best = std::max_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
        return std::tie(a.nodes, b.leaves) < std::tie(b.nodes, a.leaves);
      });
    const Part part = *best;
    const std::uint32_t here = std::min(left, part.nodes);
    parts.erase(best);
    take(part, here);
    left -= here;
  }
}

void share_out(const DomainTree& tree, const NodeCounts& counts, const NodeCounts& sums, const NodeCounts& leaves,
               std::uint32_t segment, DomainNo domain, std::uint32_t nodes, std::vector<DomainShare>& out) {
  std::vector<Part> parts;
  if (const std::uint32_t here = usable(counts, domain, segment); here > 0)
    parts.push_back({domain, here, 1, true});
  for (const DomainNo child : tree.children_of(domain))
    if (sums[child] > 0)
      parts.push_back({child, sums[child], leaves[child], false});
  take_few(std::move(parts), nodes, [&](const Part& part, std::uint32_t here) {
    if (part.direct)
      out.push_back({part.domain, here});
    else
      share_out(tree, counts, sums, leaves, segment, part.domain, here, out);
  });
}

}  // namespace

bool each_domain_for(const DomainTree& tree, const NodeCounts& counts, const GangAsk& ask,
                     const std::function<bool(DomainNo)>& f) {
  if (ask.where.unknown || (ask.where.segment != 0 && ask.nodes % ask.where.segment != 0))
    return false;
  const NodeCounts sums = sums_of(tree, counts, ask.where.segment);
  const std::size_t lowest = ask.where.wish != 0 ? std::min(ask.where.wish, tree.depth()) : tree.depth();
  const std::size_t highest = ask.where.level;
  std::vector<std::vector<DomainNo>> levels(tree.depth() + 1);
  for (const DomainNo d : tree.in_order())
    if (sums[d] >= ask.nodes)
      levels[tree.depth_of(d)].push_back(d);
  const auto tighter = [&](DomainNo a, DomainNo b) { return sums[a] < sums[b]; };
  for (std::size_t depth = lowest + 1; depth-- > highest;) {
    std::vector<DomainNo>& level = levels[depth];
    if (level.empty())
      continue;
    // Mostly the first one does; the others are put in order only if it does not.
    const auto first = std::min_element(level.begin(), level.end(), tighter);
    if (few_enough(tree, counts, ask, *first) && f(*first))
      return true;
    level.erase(first);
    std::stable_sort(level.begin(), level.end(), tighter);
    for (const DomainNo d : level)
      if (few_enough(tree, counts, ask, d) && f(d))
        return true;
  }
  return false;
}

namespace {

// A gang that is being laid out: what was taken so far of each domain, and what is left to take.
struct Layout {
  NodeCounts counts;
  GangAsk ask;
  std::map<DomainNo, std::uint32_t> taken;

  // Whole segments around what is required; false: some of it lies elsewhere, or does not fit.
  bool take_required(const DomainTree& tree, const NodeCounts& required, DomainNo domain) {
    const std::uint32_t segment = std::max(1u, ask.where.segment);
    std::size_t found = 0;
    for (const DomainNo part : parts_below(tree, counts, ask.where.segment, domain)) {
      const std::uint32_t must = part < required.size() ? required[part] : 0;
      const std::uint32_t here = (must + segment - 1) / segment * segment;
      if (here > counts[part] || here > ask.nodes)
        return false;
      found += must;
      if (here == 0)
        continue;
      taken[part] = here;
      counts[part] -= here;
      ask.nodes -= here;
    }
    return found >= std::accumulate(required.begin(), required.end(), std::size_t{0});
  }

  // Where only few domains may be used: as much as there is of those that are used already. False: they are too many,
  // or they are all that may be used and not enough.
  bool fill_used() {
    if (taken.size() > ask.where.switches_max)
      return false;
    for (auto& [part, nodes] : taken) {
      const std::uint32_t more = std::min(ask.nodes, usable(counts, part, ask.where.segment));
      nodes += more;
      ask.nodes -= more;
      counts[part] = 0;
    }
    ask.where.switches_max -= static_cast<std::uint32_t>(taken.size());
    return ask.nodes == 0 || ask.where.switches_max > 0;
  }
};

// Whole segments around what is required come first, then the rest, of domains that are used already where only few
// may be.
std::vector<DomainShare> shares_around(const DomainTree& tree, NodeCounts counts, GangAsk ask, DomainNo domain) {
  const NodeCounts required = std::exchange(ask.required, {});
  Layout layout{std::move(counts), std::move(ask), {}};
  if (!layout.take_required(tree, required, domain))
    return {};
  if (layout.ask.where.switches_max != 0 && !layout.fill_used())
    return {};
  if (layout.ask.nodes > 0) {
    const auto rest = shares_in(tree, layout.counts, layout.ask, domain);
    if (rest.empty())
      return {};
    for (const DomainShare& share : rest) layout.taken[share.domain] += share.nodes;
  }
  std::vector<DomainShare> shares;
  for (const auto& [part, nodes] : layout.taken) shares.push_back({part, nodes});
  return shares;
}

}  // namespace

std::vector<DomainShare> shares_in(const DomainTree& tree, const NodeCounts& counts, const GangAsk& ask,
                                   DomainNo domain) {
  if (!ask.required.empty())
    return shares_around(tree, counts, ask, domain);
  std::vector<DomainShare> out;
  const std::uint32_t segment = ask.where.segment;
  const std::vector<DomainNo> below = parts_below(tree, counts, segment, domain);
  std::uint64_t all = 0;
  for (const DomainNo part : below) all += usable(counts, part, segment);
  if (all < ask.nodes || !few_enough(tree, counts, ask, domain))
    return out;
  if (ask.where.switches_max != 0) {
    std::vector<Part> parts;
    for (const DomainNo part : below) parts.push_back({part, usable(counts, part, segment), 1, true});
    take_few(std::move(parts), ask.nodes, [&](const Part& part, std::uint32_t here) {
      out.push_back({part.domain, here});
    });
    return out;
  }
  NodeCounts leaves(tree.size());
  for (const DomainNo part : below) leaves[part] = 1;
  share_out(tree, counts, sums_of(tree, counts, segment), sums_of(tree, leaves, 0), segment, domain, ask.nodes, out);
  return out;
}

std::optional<std::vector<Candidate>> choose_gang(const DomainTree& tree, const NodeCounts& counts, const GangAsk& ask,
                                                  const MembersOf& members) {
  std::vector<std::optional<std::vector<Candidate>>> known(tree.size());
  std::optional<std::vector<Candidate>> found;
  each_domain_for(tree, counts, ask, [&](DomainNo domain) {
    NodeCounts real(tree.size());
    for (const DomainNo part : parts_below(tree, counts, 0, domain)) {
      if (!known[part])
        known[part] = members(part);
      real[part] = static_cast<std::uint32_t>(known[part]->size());
    }
    const std::vector<DomainShare> shares = shares_in(tree, real, ask, domain);
    if (shares.empty())
      return false;
    found.emplace();
    for (const DomainShare& share : shares)
      found->insert(found->end(), known[share.domain]->begin(), known[share.domain]->begin() + share.nodes);
    return true;
  });
  return found;
}

}  // namespace lockstep
