// Placing a whole job: every group or nothing, on the nodes of one partition.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sched/view.h"

namespace lockstep {

// Nodes kept for the highest blocked job of a partition until it can start there. A job of lower rank may use them only
// if it is certain to be gone by then.
struct Shadow {
  OrderKey key;
  std::string partition;
  Instant at;               // kNever: behind jobs without a limit
  Instant made;             // when this was worked out
  std::vector<bool> nodes;  // by NodeId
  std::vector<NodeId> ids;
  bool overdue() const { return at <= made; }  // what it waits for should be gone already
  bool same_as(const Shadow& o) const { return ids == o.ids && (at == o.at || (overdue() && o.overdue())); }
};

// On what is free now, in order of preference. Leaves the view as it was.
std::optional<std::vector<Grant>> place_now(PlannerView& view, const JobSpec& spec, const Partition& partition,
                                            std::span<const Shadow* const> avoid);

// False when all that is free together is too little: a look that costs next to nothing.
bool may_fit(const PlannerView& view, const JobSpec& spec);

// When and where the job could start if running jobs ended as expected; nullopt if not even then.
std::optional<Shadow> place_later(PlannerView& view, const JobSlot& slot, const Partition& partition, Instant now);

// Why jobs of the shape could not start even if nothing ran; kNone if they could. Remembered in the shape for as long
// as it is certain.
Wait never_starts(PlannerView& view, Shape& shape);

}  // namespace lockstep
