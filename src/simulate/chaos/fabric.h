// ChaosFabric: the topology of the simulated cluster, trees and blocks that change while jobs run, and what jobs ask of
// it. Draws from dice of its own: a seed without a topology stays what it was.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/command.h"

namespace lockstep::sim {

struct World;

class ChaosFabric {
 public:
  explicit ChaosFabric(World& world);

  // Another topology, or none; nullopt: nothing to do now.
  std::optional<CommandBody> change();
  void dress(JobSpec& spec);
  // One on which whatever was asked for can run.
  std::optional<CommandBody> settle() const;

 private:
  World& world_;
  Rng rng_;
  bool there_;  // in this run
};

}  // namespace lockstep::sim
