// One run of the chaos simulation, and many.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulate/chaos/world.h"

namespace lockstep::sim {

struct ChaosReport {
  bool passed = false;
  bool out_of_time = false;        // of real time: no verdict of a checker
  std::string failure;             // the checker's words
  std::vector<std::string> notes;  // the last events before it, when asked for
  std::uint64_t commands = 0, batches = 0, starts = 0, requeues = 0, jobs = 0;
  std::uint64_t growths = 0, shrinks = 0, reserved = 0;  // reserved: starts in reservations
  std::uint64_t closings = 0;                            // records of nodes that did not do as they were told
  std::uint64_t topologies = 0, bound = 0;               // bound: starts of groups that a topology binds
  std::uint64_t health_runs = 0, unhealthy = 0;          // of health checks; unhealthy: those that closed their node
  Duration simulated;
};
ChaosReport run_chaos(const ChaosSettings& settings);

// In a process of its own, so that a CHECK ends only this seed. A failing seed is run again with notes.
ChaosReport run_chaos_apart(const ChaosSettings& settings, bool explain);

}  // namespace lockstep::sim
