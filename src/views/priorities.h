// What order and fair share make of the jobs as they stand: the numbers behind sprio and sshare.
#pragma once

#include "model/tables.h"
#include "rules/fair_tree.h"
#include "rules/priority.h"

namespace lockstep {

// As of one moment. Making one costs a pass over past use, running jobs and nodes.
class Priorities {
 public:
  Priorities(const Tables& tables, Instant now, Duration wall_offset);

  const FairShares& shares() const { return shares_; }
  const Spendings& spendings() const { return spendings_; }
  // The factors of a pending job, by the first of its partitions.
  PriorityFactors factors(const Job& job) const;
  PriorityParts parts(const Job& job) const { return priority_parts(tables_.policy(), factors(job)); }
  // What users see: 0 while held, what an administrator fixed, else the sum of the factors.
  std::uint32_t shown(const Job& job) const;

 private:
  const Tables& tables_;
  Instant now_;
  Spendings spendings_;
  FairShares shares_;
  Tres cluster_;  // all there is
  std::uint32_t most_partition_ = 0;
};

}  // namespace lockstep
