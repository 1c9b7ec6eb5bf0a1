// One job on every node of a large cluster, and a step on all of them: what the reports of the nodes cost the core.
// Each says one thing of one node, so all of them together must not cost the square of their number.
#pragma once

#include <cstdint>

namespace lockstep::sim {

struct WideTimes {
  std::uint64_t nodes = 0;
  // Processor time of the core.
  double plan_ms = 0;  // the one command that starts the job
  double job_ms = 0;   // start and end of the job, that command included
  double step_ms = 0;  // a step on all nodes, from its creation to its end
  // A job of tasks that the cluster itself starts, one on each node: their starts and ends, and what every node's
  // renewal once asks of them.
  double tasks_ms = 0, renewals_ms = 0;
};
WideTimes measure_wide(std::uint64_t seed);

}  // namespace lockstep::sim
