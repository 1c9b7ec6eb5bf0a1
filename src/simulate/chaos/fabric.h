// ChaosFabric: the topology of the simulated cluster, trees and blocks that change while jobs run, and what jobs ask of
// it; and classes of nodes. Draws from dice of its own: a seed without a topology stays what it was.
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

  // Another topology, or none, or another class of nodes; nullopt: nothing to do now.
  std::optional<CommandBody> change();
  void dress(JobSpec& spec);
  // One on which whatever was asked for can run.
  std::optional<CommandBody> settle() const;

 private:
  CommandBody new_class();

  World& world_;
  Rng rng_, class_rng_;
  bool there_;  // in this run
};

}  // namespace lockstep::sim
