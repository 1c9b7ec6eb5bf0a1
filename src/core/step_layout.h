// Where a step's tasks go inside its allocation: which grants, how many tasks, which cores and devices. Pure.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "model/resources.h"
#include "model/step.h"
#include "model/tables.h"

namespace lockstep {

// What other steps use of one grant.
struct GrantUse {
  CoreSet cores;
  DeviceSet devices;
  std::vector<DevicePart> slices;
  std::int64_t memory_mb = 0;  // of those that say how much they need; the others share what the job has
  bool any = false;
};
using AllocationUse = std::map<std::uint32_t, GrantUse>;  // by index into the allocation

// Places for the step, in rank order. nullopt = the resources are there but busy; an Error = they never will be.
//
// Slurm's rules (srun manual, 21.08 and later): a step has its nodes' whole share for itself unless it says exact (only
// what it asks for) or overlap (shares with everybody). Devices default to all of the job's,
// MIG slices too; shares of devices are every step's.
Result<std::optional<std::vector<StepPlace>>> lay_out_step(const Tables& tables, const Job& job, const StepSpec& spec,
                                                           const AllocationUse& use);

}  // namespace lockstep
