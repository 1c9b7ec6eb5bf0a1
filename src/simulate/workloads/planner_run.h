// A job log through the product itself: the real core and the real planner under a virtual clock.
#pragma once

#include <span>

#include "base/result.h"
#include "model/records.h"
#include "sim/queue_loop.h"
#include "sim/queue_trace.h"

namespace lockstep::sim {

// nodes 1: a flat pool of so many processors. topology: of all nodes (node_topology.h); null = they are equally near.
// Errors: kImpossible where the core refuses a job.
Result<QueueRun> run_planner(std::span<const TraceJob> jobs, std::int32_t nodes, std::int32_t devices_per_node,
                             const Topology* topology = nullptr);

}  // namespace lockstep::sim
