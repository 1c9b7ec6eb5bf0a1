// Fair Tree: ranks users so that everybody below a better served account comes after everybody below a worse served
// sibling. The algorithm is Slurm's (Ryan Cox and Levi Morrison, https://slurm.schedmd.com/fair_tree.html):
//
//   level fair share = (shares / siblings' shares) / (use / siblings' use), infinite without use, 0 without shares;
//   depth first from the root, best level first, users are ranked as they are met; factor = rank / users.
//
// Ties: users with equal level fair share have equal rank; a user equal to a sibling account has the rank of the
// account's best user; accounts that are equal have their children merged before descending. An account with "parent"
// as its shares lends its children to its parent; a user with it stands as its account stands among its siblings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rules/usage.h"

namespace lockstep {

// An index that no node of the tree has: the parent of those that lie right below the root.
inline constexpr std::uint32_t kNobody = UINT32_MAX;

// One node of the tree; a parent comes before its children.
struct ShareNode {
  std::uint32_t parent = kNobody;  // index
  bool user = false;
  std::uint32_t shares = 1;  // kParentShares: see above
  std::int64_t used = 0;     // of an account: with everything below it
};

struct Share {
  double shares_norm = 0;  // among siblings
  double use_norm = 0;     // among siblings ("effective usage")
  double level = 0;        // level fair share; infinity without use
  std::uint32_t rank = 0;  // of users: the best has as many as there are users; equal for ties
  double factor = 0;       // of users: rank / users
};
std::vector<Share> fair_tree(const std::vector<ShareNode>& tree);

// The tree of a directory: accounts, associations, and users without one who have spent something (one share each),
// with the billing they spent.
class FairShares {
 public:
  FairShares() = default;
  FairShares(const Directory& directory, const Spendings& spendings);

  struct Row {
    std::string account, user, partition;  // user "" = the account itself; account "" = the root
    std::uint32_t depth = 0;               // root 0
    std::uint32_t raw_shares = 0;
    std::int64_t raw_use = 0;  // billing-ms
    Share share;
  };
  const std::vector<Row>& rows() const { return rows_; }  // as sshare lists them: depth first, by name
  std::int64_t use_of_all() const { return total_; }
  // The user's factor in the account, 0 … 1. Whoever is not in the tree stands with the best, and without any account
  // everybody does.
  double factor(const Directory& directory, const std::string& account, UserId user,
                const std::string& partition) const;

 private:
  std::vector<Row> rows_;
  std::map<Spendings::Key, double> factors_;
  std::int64_t total_ = 0;
};

}  // namespace lockstep
