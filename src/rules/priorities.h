// The priorities of all pending jobs as of one moment: fair share, QOS, age and the rest put together. The planner
// makes one every Policy::calc_period and whenever the directory changes; pages make one to show.
#pragma once

#include "model/spec.h"
#include "model/tres.h"
#include "rules/fair_tree.h"
#include "rules/priority.h"

namespace lockstep {

class Priorities {
 public:
  // cluster: all there is, see tres_of_node(); most_partition: the highest Partition::priority. The directory must
  // outlive this.
  Priorities(const Directory& directory, Spendings spendings, Tres cluster, std::uint32_t most_partition, Instant now);

  const FairShares& shares() const { return shares_; }
  const Spendings& spendings() const { return spendings_; }
  // Of a pending job, in one of its partitions. eligible: since when it could have started; 0 = not yet.
  PriorityFactors factors(const JobSpec& spec, const Partition* partition, Instant eligible) const;
  PriorityParts parts(const JobSpec& spec, const Partition* partition, Instant eligible) const {
    return priority_parts(directory_.policy(), factors(spec, partition, eligible));
  }
  // What an administrator fixed, else the sum of the factors: 1 … 2^32 - 1.
  std::uint32_t priority(const JobSpec& spec, const Partition* partition, Instant eligible) const {
    return spec.priority ? *spec.priority : parts(spec, partition, eligible).total;
  }

 private:
  const Directory& directory_;
  Spendings spendings_;
  FairShares shares_;
  Tres cluster_;
  std::uint32_t most_partition_;
  Instant now_;
};

// What a node adds to the cluster.
Tres tres_of_node(const Node& node);

}  // namespace lockstep
