#include "rules/fair_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "model/accounting.h"
#include "model/records.h"

namespace lockstep {

namespace {

double level_of(std::uint32_t shares, double shares_norm, std::int64_t used, double use_norm) {
  if (shares == 0)
    return 0;
  if (used <= 0)
    return std::numeric_limits<double>::infinity();
  return shares_norm / use_norm;
}

class Ranking {
 public:
  explicit Ranking(const std::vector<ShareNode>& tree) : tree_(tree), shares_(tree.size()), children_(tree.size()) {
    for (std::uint32_t i = 0; i < tree.size(); ++i) {
      const ShareNode& node = tree[i];
      CHECK(node.parent == kNobody || node.parent < i, "a parent comes first");
      users_ += node.user;
      (stands_below(i) == kNobody ? top_ : children_[stands_below(i)]).push_back(i);
    }
    next_rank_ = users_;
  }

  std::vector<Share> run() {
    measure(top_);
    for (const auto& list : children_) measure(list);
    for (std::uint32_t i = 0; i < tree_.size(); ++i)
      if (tree_[i].user && !counts(i) && stands_as(i) != kNobody)
        shares_[i] = shares_[stands_as(i)];
    visit(top_, false);
    for (std::uint32_t i = 0; i < tree_.size(); ++i)
      if (tree_[i].user)
        shares_[i].factor = static_cast<double>(shares_[i].rank) / users_;
    return std::move(shares_);
  }

 private:
  // The nearest account at or above `up` that has shares of its own; kNobody: the root.
  std::uint32_t with_shares(std::uint32_t up) const {
    while (up != kNobody && !counts(up)) up = tree_[up].parent;
    return up;
  }
  // The account as which a user without shares of its own counts.
  std::uint32_t stands_as(std::uint32_t i) const { return with_shares(tree_[i].parent); }
  // The account among whose children a node competes.
  std::uint32_t stands_below(std::uint32_t i) const {
    const std::uint32_t self = tree_[i].user && !counts(i) ? stands_as(i) : i;
    return self == kNobody ? kNobody : with_shares(tree_[self].parent);
  }
  bool counts(std::uint32_t i) const { return tree_[i].shares != kParentShares; }

  void measure(const std::vector<std::uint32_t>& siblings) {
    std::int64_t all_shares = 0;
    double all_used = 0;
    for (std::uint32_t i : siblings)
      if (counts(i)) {
        all_shares += tree_[i].shares;
        all_used += static_cast<double>(tree_[i].used);
      }
    for (std::uint32_t i : siblings) {
      Share& share = shares_[i];
      if (!counts(i))
        continue;
      share.shares_norm = all_shares > 0 ? static_cast<double>(tree_[i].shares) / static_cast<double>(all_shares) : 0;
      share.use_norm = all_used > 0 ? static_cast<double>(tree_[i].used) / all_used : 0;
      share.level = level_of(tree_[i].shares, share.shares_norm, tree_[i].used, share.use_norm);
    }
  }

  // tied: the best of these has the rank of the one ranked last.
  void visit(std::vector<std::uint32_t> list, bool tied) {
    std::erase_if(list, [&](std::uint32_t i) { return !tree_[i].user && !counts(i); });  // its children stand here
    std::stable_sort(list.begin(), list.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (shares_[a].level != shares_[b].level)
        return shares_[a].level > shares_[b].level;
      return tree_[a].user && !tree_[b].user;
    });
    for (std::size_t i = 0; i < list.size();) {
      std::size_t end = i;
      while (end < list.size() && shares_[list[end]].level == shares_[list[i]].level) ++end;
      bool equal = tied && i == 0;
      std::vector<std::uint32_t> below;
      for (; i < end; ++i) {
        if (!tree_[list[i]].user) {
          below.insert(below.end(), children_[list[i]].begin(), children_[list[i]].end());
          continue;
        }
        rank(list[i], equal);
        equal = true;
      }
      if (!below.empty())
        visit(std::move(below), equal);
    }
  }

  void rank(std::uint32_t user, bool as_the_last) {
    if (!as_the_last)
      last_rank_ = next_rank_;
    shares_[user].rank = last_rank_;
    --next_rank_;
  }

  const std::vector<ShareNode>& tree_;
  std::vector<Share> shares_;
  std::vector<std::vector<std::uint32_t>> children_;
  std::vector<std::uint32_t> top_;
  std::uint32_t users_ = 0, next_rank_ = 0, last_rank_ = 0;
};

}  // namespace

std::vector<Share> fair_tree(const std::vector<ShareNode>& tree) { return Ranking(tree).run(); }

namespace {

struct Leaf {
  std::string user, partition;
  std::optional<Spendings::Key> key;  // none: nobody knows the user yet
  std::uint32_t shares = 1;
  std::int64_t used = 0;
};

}  // namespace

// Makes the tree of accounts with their users as leaves, ranks it, and keeps a row for each to show and a factor for
// each user. Users who have spent something without an association are leaves too.
FairShares::FairShares(const Directory& directory, const Spendings& spendings) {
  std::map<std::string, std::vector<std::string>> below;  // account -> its sub-accounts
  for (const auto& [name, account] : directory.accounts)
    below[directory.account(account->parent) ? account->parent : ""].push_back(name);
  std::map<std::string, UserId> ids;
  for (const auto& [id, user] : directory.users) ids.emplace(user->meta.name, id);

  std::map<std::string, std::map<std::pair<std::string, std::string>, Leaf>> leaves;  // account -> user, partition
  for (const auto& [name, record] : directory.associations) {
    Leaf& leaf = leaves[record->account][{record->user, record->partition}];
    leaf = {record->user, record->partition, std::nullopt, record->shares, 0};
    if (const auto id = ids.find(record->user); id != ids.end())
      leaf.key = Spendings::Key{record->account, id->second, record->partition};
  }
  for (const auto& [key, spent] : spendings.leaves()) {
    const auto& [account, id, partition] = key;
    const User* user = directory.user(id);
    const std::string name = user ? user->meta.name : std::to_string(id.value);
    Leaf& leaf = leaves[directory.account(account) ? account : ""].try_emplace({name, partition}).first->second;
    leaf.user = name;
    leaf.partition = partition;
    leaf.key = key;
    leaf.used += spent.tres.billing;
    total_ += spent.tres.billing;
  }

  std::vector<ShareNode> tree;
  rows_.push_back({"", "", "", 0, 0, total_, {}});
  std::vector<std::optional<Spendings::Key>> keys{std::nullopt};
  const auto add_below = [&](const auto& self, const std::string& name, std::uint32_t parent,
                             std::uint32_t depth) -> void {
    for (const auto& [who, leaf] : leaves[name]) {
      tree.push_back({parent, true, leaf.shares, leaf.used});
      rows_.push_back({name, leaf.user, leaf.partition, depth, leaf.shares, leaf.used, {}});
      keys.push_back(leaf.key);
    }
    for (const std::string& child : below[name]) {
      const std::int64_t used = spendings.of_account(child).tres.billing;
      const std::uint32_t shares = directory.account(child)->shares;
      tree.push_back({parent, false, shares, used});
      rows_.push_back({child, "", "", depth, shares, used, {}});
      keys.push_back(std::nullopt);
      self(self, child, static_cast<std::uint32_t>(tree.size() - 1), depth + 1);
    }
  };
  add_below(add_below, "", kNobody, 1);
  const std::vector<Share> shares = fair_tree(tree);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    rows_[i + 1].share = shares[i];
    if (keys[i + 1])
      factors_[*keys[i + 1]] = shares[i].factor;
  }
}

double FairShares::factor(const Directory& directory, const std::string& account, UserId user,
                          const std::string& partition) const {
  if (directory.accounts.empty())
    return 1;
  const Association* own = directory.association(account, user, partition);
  const auto it = factors_.find({account, user, own ? own->partition : ""});
  return it == factors_.end() ? 1 : it->second;
}

}  // namespace lockstep
