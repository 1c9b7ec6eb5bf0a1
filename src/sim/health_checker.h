// HealthChecker: from committed records alone, that what a run of a health check found is what its node's record says,
// that a failure closes the node where it must, and that no run opens what an administrator drained. Knows nothing of
// the rules.
#pragma once

#include <set>
#include <span>

#include "model/health.h"
#include "model/tables.h"
#include "sim/verdict.h"

namespace lockstep::sim {

class HealthChecker {
 public:
  explicit HealthChecker(Verdict& verdict) : verdict_(verdict) {}

  // Changes of whole entries, in the order of their commit.
  void saw(std::span<const Change> changes);

  std::uint64_t runs() const { return runs_; }
  std::uint64_t closings() const { return closings_; }

 private:
  void run_changed(const Job* before, const Job& after);
  void node_changed(const Node& before, const Node& after);
  void found(const Node& node, const HealthFinding& finding);

  Verdict& verdict_;
  Tables tables_;
  std::set<JobId> untold_;  // runs that ended in the entries at hand, and whose node has to say how
  std::uint64_t runs_ = 0, closings_ = 0;
};

}  // namespace lockstep::sim
