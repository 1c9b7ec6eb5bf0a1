// The policies of lockstep-sim queue and gpu: the published ones, and the product's own out of sched.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/records.h"
#include "rules/order.h"
#include "sim/queue_figures.h"
#include "sim/queue_loop.h"
#include "sim/strict_loop.h"

namespace lockstep::sim {

struct QueueChoice {
  std::string policy;   // fcfs, fifo, easy, conservative, easy-sjbf; default: the core and the planner as they
                        // are; turns: order and predictions of the rules in a flat loop, for studies
  bool oracle = false;  // run times are known instead of limits and predictions
  bool published_events = false;     // one event at a time, as the published simulators do
  std::optional<Topology> topology;  // of the nodes (node_topology.h); published policies know none
  OrderPolicy order;                 // turns only
};

// kInvalid: no such policy.
Result<QueueRun> run_policy(std::span<const TraceJob> jobs, std::int32_t nodes, std::int32_t devices_per_node,
                            const QueueChoice& choice);

// RLScheduler's loop with one of its heuristics (fcfs, sjf, f1, wfp3, unicep) or with the turns of the default policy.
Result<std::unique_ptr<StrictPolicy>> strict_policy(std::string_view name, std::span<const TraceJob> jobs,
                                                    std::int64_t procs);

}  // namespace lockstep::sim
