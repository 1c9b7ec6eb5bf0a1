#include "rules/node_tally.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep {

std::int64_t NodesInUse::count() const {
  if (parts_.size() == 1)
    return static_cast<std::int64_t>(parts_.front()->size());
  std::set<NodeId> all;
  for (const JobsByNode* part : parts_)
    for (const auto& [node, jobs] : *part) all.insert(node);
  return static_cast<std::int64_t>(all.size());
}

bool NodesInUse::contains(NodeId node) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const JobsByNode* part) { return part->contains(node); });
}

std::int64_t NodesInUse::count_with(const std::vector<NodeId>& nodes) const {
  return count() + std::count_if(nodes.begin(), nodes.end(), [&](NodeId node) { return !contains(node); });
}

void NodeTally::count(const Holder& holder, const std::set<NodeId>& nodes, std::int64_t times) {
  if (!keeps(holder.of, holder.name) || nodes.empty())
    return;
  JobsByNode& counts = counts_[holder];
  for (const NodeId node : nodes)
    if ((counts[node] += times) == 0)
      counts.erase(node);
  if (counts.empty())
    counts_.erase(holder);
}

const JobsByNode& NodeTally::of(const Holder& holder) const {
  static const JobsByNode kNone;
  const auto it = counts_.find(holder);
  return it == counts_.end() ? kNone : it->second;
}

bool NodeTally::agrees_with(const NodeTally& other) const {
  const auto same_in = [](const NodeTally& a, const NodeTally& b) {
    return std::all_of(a.counts_.begin(), a.counts_.end(), [&](const auto& entry) {
      return !b.keeps(entry.first.of, entry.first.name) || b.of(entry.first) == entry.second;
    });
  };
  return same_in(*this, other) && same_in(other, *this);
}

}  // namespace lockstep
