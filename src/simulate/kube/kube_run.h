// One run of the simulation of Kubernetes' API: the cluster comes up, clients, controllers and faults do what the seed
// says, everything is mended and comes to rest, all is deleted, and at last nothing is left and nobody was told less or
// more than happened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::sim {

struct KubeSettings {
  std::uint64_t seed = 1;
  std::uint64_t commands = 150;  // of users
  bool noting = false;
};

struct KubeReport {
  bool passed = false, out_of_time = false;
  std::string failure;
  std::vector<std::string> notes;
  std::uint64_t commands = 0, answered = 0, pods = 0, events = 0, batches = 0, simulated_s = 0;
};

KubeReport run_kube(const KubeSettings& settings);
// In a process of its own. A failing seed is run again with notes where they are asked for.
KubeReport run_kube_apart(const KubeSettings& settings, bool explain);

}  // namespace lockstep::sim
