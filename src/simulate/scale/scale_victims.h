// The search for victims at scale: 2,000 full nodes of 8 GPUs, 700 running jobs that may be preempted (single nodes,
// parts of nodes, gangs), and gangs of 1 to 256 nodes that may preempt them.
#pragma once

#include <cstdint>

namespace lockstep::sim {

struct VictimTimes {
  std::uint64_t nodes = 0, candidates = 0, victims_max = 0;
  double p50_ms = 0, max_ms = 0;  // processor time of the planner's whole call, the pass before the search included
};
VictimTimes measure_victims(std::uint64_t seed);

}  // namespace lockstep::sim
