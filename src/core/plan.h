// The planner's proposals, checked again before they count.
#pragma once

#include <optional>
#include <string>

#include "core/refusal.h"
#include "core/txn.h"

namespace lockstep {

Answer apply_plan(Txn& txn, const ApplyPlan& plan);
// One start, under the same rules.
Refusal start_now(Txn& txn, const PlannedStart& start);

// It waits, and nothing but room keeps it waiting.
bool may_start_now(const Txn& txn, const Job* job);

// Where and for how long a job would run.
struct StartingIn {
  const Partition* plain = nullptr;
  std::optional<Partition> eased;  // as its QOS eases it
  Duration limit;
  const Partition& partition() const { return eased ? *eased : *plain; }
};
// Nullopt: it may not run in that partition now.
std::optional<StartingIn> starting_in(const Txn& txn, const JobSpec& spec, const std::string& partition);

// Whether these are grants of the job on nodes that can be used and lie where its groups must, whoever is there now.
// nodes: where they are, one for each.
Refusal check_place(const Txn& txn, const Job& job, const Partition& partition, const std::vector<Grant>& grants,
                    std::vector<const Node*>& nodes);

}  // namespace lockstep
