// Growing: running elastic jobs get what no waiting job can use now and no head is kept from, the first in the order of
// rank first. Everything follows from records; what is proposed and not answered yet counts as taken.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "model/plan.h"
#include "sched/shadow.h"

namespace lockstep {

class Growing {
 public:
  // True if a job may grow from now on that could not before.
  bool observe(const Change& change);
  bool any() const { return !running_.empty(); }

  // After a pass in which nothing more can start.
  void grow(PlannerView& view, Shadows& shadows, Instant now, PlanChunk& chunk);
  void settled(PlannerView& view);

 private:
  std::map<JobId, Ref<Job>> running_;  // that have less than they could
  std::set<JobId> proposed_;
  std::set<JobId> stuck_;  // refused by the core, until something changes
  std::uint64_t stuck_clock_ = 0, stuck_bounds_ = 0;
};

// A start of an elastic job with fewer tasks than there is room for, as many as limits let it have; nullopt: they let
// it have none.
std::optional<std::vector<Grant>> place_within_limits(PlannerView& view, const JobSpec& spec, const Way& way,
                                                      const Shadows& shadows, const Avoid& avoid);

}  // namespace lockstep
