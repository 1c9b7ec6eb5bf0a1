// Quotas on the tree of accounts: what each is guaranteed, may borrow from its siblings and lends to them. The
// arithmetic is that of Kueue's cohorts (https://kueue.sigs.k8s.io/docs/concepts/cohort/): what an account does not use
// of its guarantee flows up to its parent, no more of it than the lending limit; what it uses beyond the part it keeps
// is taken from there, no more than the borrowing limit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/directory.h"
#include "rules/tres.h"

namespace lockstep {

class QuotaTree {
 public:
  QuotaTree() = default;
  // use: what the jobs of each account itself use, without the accounts below it.
  QuotaTree(const std::map<std::string, Ref<Account>, std::less<>>& accounts,
            const std::map<std::string, Tres, std::less<>>& use);

  bool empty() const { return names_.empty(); }  // no account guarantees anything

  // Jobs of the account use this much more (times = 1) or less (-1).
  void add(std::string_view account, const Tres& tres, std::int64_t times);

  // The first amount that the account may not take now. potential: as if nobody else used anything, so that the answer
  // is final. Accounts that are not in the tree are not governed.
  std::optional<Excess> first_excess(std::string_view account, const Tres& ask, bool potential = false) const;
  std::int64_t available(std::string_view account, std::string_view resource) const;
  // What first_excess() looks at, appended.
  void amounts_of(std::string_view account, std::vector<std::int64_t>& out) const;
  // How much of the resource the account and what is below it use beyond what it is guaranteed: what siblings may
  // claim back.
  std::int64_t borrowed(std::string_view account, std::string_view resource) const;
  bool governs(std::string_view account, std::string_view resource) const;
  const std::vector<std::string>& resources() const { return names_; }  // that some account guarantees

 private:
  struct Cell {
    std::int64_t subtree = 0;  // guaranteed here, and lent from below
    std::int64_t kept = 0;     // of it, what is not lent upwards
    std::int64_t used = 0;     // here, and beyond what accounts below keep
    std::int64_t borrow = kNoLimit;
  };
  // An index that no node has: the parent of the root, which is index 0, and what an unknown account gets.
  static constexpr std::uint32_t kNoNode = UINT32_MAX;
  struct Node {
    std::uint32_t parent = kNoNode;
    std::vector<Cell> cells;  // by resource
  };
  std::uint32_t index_of(std::string_view account) const;
  std::int64_t available(std::uint32_t node, std::size_t resource, bool potential) const;

  std::vector<std::string> names_;  // of governed resources
  std::vector<Node> nodes_;
  std::map<std::string, std::uint32_t, std::less<>> by_name_;
};

}  // namespace lockstep
