// The priorities of the jobs in the tables, made for a page.
#pragma once

#include "model/tables.h"
#include "rules/priorities.h"

namespace lockstep {

// Costs a pass over past use, running jobs and nodes.
Priorities priorities_of(const Tables& tables, Instant now, Duration wall_offset);

// The partition that a pending job's priority is worked out for: the first it names, or the default one.
const Partition* first_partition(const Tables& tables, const JobSpec& spec);

// What users see of a job's priority: 0 while held.
std::uint32_t shown_priority(const Priorities& priorities, const Tables& tables, const Job& job);

}  // namespace lockstep
