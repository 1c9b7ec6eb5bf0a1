// World: one simulated cluster with everything that may happen to it. Owns the simulated machines, the checkers and the
// real controller and agents inside; a seed decides everything.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "sim/bounds_checker.h"
#include "sim/client_checker.h"
#include "sim/crash_note.h"
#include "sim/health_checker.h"
#include "sim/history.h"
#include "sim/log.h"
#include "sim/network.h"
#include "sim/object_checker.h"
#include "sim/process_checker.h"
#include "sim/record_checker.h"
#include "sim/timeline.h"
#include "sim/topology_checker.h"
#include "sim/verdict.h"
#include "simulate/chaos/controller_host.h"
#include "simulate/chaos/hostile_client.h"
#include "simulate/chaos/node_host.h"
#include "simulate/chaos/object_client.h"

namespace lockstep::sim {

inline constexpr Duration kRequeueDelay = millis(200);
inline constexpr Duration kPauseMax = minutes(10);

struct ChaosSettings {
  std::uint64_t seed = 1;
  std::uint64_t commands = 2000;  // of clients
  std::size_t nodes = 20;
  std::uint32_t devices = 8, cores = 32;
  Duration fence_after = seconds(60);
  Duration lease_term = seconds(9), node_timeout = seconds(20), drift = seconds(4);
  Duration fence_silence;  // of a node before its fence hook, which cuts the power, is asked
  // Nothing goes wrong but that processes stand still for up to ten minutes: no attempt may end for it.
  bool only_pauses = false;
  bool hooks = false;  // a prolog and an epilog run around every attempt, and fail or hang now and then
  bool noting = false;
  bool restless = false;  // jobs start anywhere, also where a node has just come back, and nobody administers limits
};

struct World {
  explicit World(const ChaosSettings& settings);

  ChaosSettings settings;
  Rng rng;
  Timeline timeline;
  Verdict verdict;
  ProcessChecker processes;
  RecordChecker records;
  BoundsChecker bounds;
  TopologyChecker topology;
  HealthChecker health;
  ClientChecker clients;
  ObjectChecker objects;
  SimLog log;
  SimCrashNote crash_note;
  SimHistory history;
  SimNetwork network;
  ControllerHost controller;
  HostileClient hostile;
  ObjectClient object_client;
  std::vector<std::unique_ptr<NodeHost>> nodes;

  void note(std::string words) {
    if (verdict.noting)
      verdict.note(timeline.now(), std::move(words));
  }
  // Runs with a seed of their own kind: see only_pauses, and hooks.
  static ChaosSettings settled(ChaosSettings settings);
  Duration up_to(Duration most) { return micros(rng.between(1, most.us)); }
};

}  // namespace lockstep::sim
