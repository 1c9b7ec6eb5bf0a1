#include "rules/quota.h"

#include <algorithm>
#include <set>

namespace lockstep {

// Lays out the accounts as a tree with a cell for each resource that some quota speaks of, sums up from the leaves what
// each subtree is guaranteed, and adds what is used now.
QuotaTree::QuotaTree(const std::map<std::string, Ref<Account>, std::less<>>& accounts,
                     const std::map<std::string, Tres, std::less<>>& use) {
  std::set<std::string> governed;
  for (const auto& [name, account] : accounts) {
    const TresLimit& nominal = account->quota.nominal;
    for (const TresField& field : kTresFields)
      if (nominal.*field.limit != kNoLimit)
        governed.insert(std::string(field.name));
    for (const NamedCount& other : nominal.others) governed.insert(other.name);
  }
  if (governed.empty())
    return;
  names_.assign(governed.begin(), governed.end());

  // Parents before children, so that one sweep from the back sums up.
  nodes_.push_back({kNoNode, std::vector<Cell>(names_.size())});
  std::map<std::string, std::vector<const Account*>> below;
  for (const auto& [name, account] : accounts)
    below[accounts.contains(account->parent) ? account->parent : ""].push_back(account.get());
  std::vector<std::pair<std::string, std::uint32_t>> open{{"", 0}};
  std::vector<const Account*> order{nullptr};
  while (!open.empty()) {
    const auto [name, index] = open.back();
    open.pop_back();
    for (const Account* child : below[name]) {
      const auto at = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({index, std::vector<Cell>(names_.size())});
      order.push_back(child);
      by_name_[child->meta.name] = at;
      open.emplace_back(child->meta.name, at);
    }
  }
  for (std::size_t i = nodes_.size(); i-- > 1;) {
    const Quota& quota = order[i]->quota;
    for (std::size_t r = 0; r < names_.size(); ++r) {
      Cell& cell = nodes_[i].cells[r];
      const std::int64_t lend = bound_of(quota.lend, names_[r]);
      cell.borrow = bound_of(quota.borrow, names_[r]);
      cell.subtree += std::max<std::int64_t>(bound_of(quota.nominal, names_[r]), 0);
      cell.kept = lend == kNoLimit ? 0 : std::max<std::int64_t>(0, cell.subtree - lend);
      nodes_[nodes_[i].parent].cells[r].subtree += cell.subtree - cell.kept;
    }
  }
  for (const auto& [account, tres] : use) add(account, tres, 1);
}

std::uint32_t QuotaTree::index_of(std::string_view account) const {
  const auto it = by_name_.find(account);
  return it == by_name_.end() ? kNoNode : it->second;
}

void QuotaTree::add(std::string_view account, const Tres& tres, std::int64_t times) {
  const std::uint32_t start = index_of(account);
  if (start == kNoNode)
    return;
  for (std::size_t r = 0; r < names_.size(); ++r) {
    std::int64_t change = count_of(tres, names_[r]) * times;
    for (std::uint32_t i = start; i != kNoNode && change != 0; i = nodes_[i].parent) {
      Cell& cell = nodes_[i].cells[r];
      const std::int64_t before = std::max<std::int64_t>(0, cell.used - cell.kept);
      cell.used += change;
      change = std::max<std::int64_t>(0, cell.used - cell.kept) - before;
    }
  }
}

std::int64_t QuotaTree::available(std::uint32_t node, std::size_t resource, bool potential) const {
  const Cell& cell = nodes_[node].cells[resource];
  const std::int64_t used = potential ? 0 : cell.used;
  if (nodes_[node].parent == kNoNode)
    return cell.subtree - used;
  std::int64_t from_parent = available(nodes_[node].parent, resource, potential);
  if (cell.borrow != kNoLimit) {
    const std::int64_t lent = cell.subtree - cell.kept;
    const std::int64_t used_there = std::max<std::int64_t>(0, used - cell.kept);
    from_parent = std::min(from_parent, lent - used_there + cell.borrow);
  }
  return std::max<std::int64_t>(0, cell.kept - used) + from_parent;
}

std::optional<Excess> QuotaTree::first_excess(std::string_view account, const Tres& ask, bool potential) const {
  const std::uint32_t node = index_of(account);
  if (node == kNoNode)
    return std::nullopt;
  for (std::size_t r = 0; r < names_.size(); ++r) {
    const std::int64_t wanted = count_of(ask, names_[r]);
    if (wanted <= 0)
      continue;
    const std::int64_t there = available(node, r, potential);
    if (wanted > there) {
      const std::int64_t used = potential ? 0 : nodes_[node].cells[r].used;
      return Excess{names_[r], used + there, used, wanted};
    }
  }
  return std::nullopt;
}

void QuotaTree::amounts_of(std::string_view account, std::vector<std::int64_t>& out) const {
  const std::uint32_t node = index_of(account);
  if (node == kNoNode)
    return;
  for (std::size_t r = 0; r < names_.size(); ++r) {
    out.push_back(nodes_[node].cells[r].used);
    out.push_back(available(node, r, false));
  }
}

std::int64_t QuotaTree::available(std::string_view account, std::string_view resource) const {
  const std::uint32_t node = index_of(account);
  const auto at = std::find(names_.begin(), names_.end(), resource);
  if (node == kNoNode || at == names_.end())
    return INT64_MAX;
  return available(node, static_cast<std::size_t>(at - names_.begin()), false);
}

std::int64_t QuotaTree::borrowed(std::string_view account, std::string_view resource) const {
  const std::uint32_t node = index_of(account);
  const auto at = std::find(names_.begin(), names_.end(), resource);
  if (node == kNoNode || at == names_.end())
    return 0;
  const Cell& cell = nodes_[node].cells[static_cast<std::size_t>(at - names_.begin())];
  return std::max<std::int64_t>(0, cell.used - cell.subtree);
}

bool QuotaTree::governs(std::string_view account, std::string_view resource) const {
  return by_name_.contains(account) && std::find(names_.begin(), names_.end(), resource) != names_.end();
}

}  // namespace lockstep
