// ChaosHealth: health checks of the simulated cluster that come, go and find nodes bad at random. Draws from dice of
// its own: a seed without checks stays what it was.
#pragma once

#include <optional>

#include "base/rng.h"
#include "model/command.h"

namespace lockstep::sim {

struct World;

class ChaosHealth {
 public:
  explicit ChaosHealth(World& world);
  // Whether a run has checks at all: the others stay what they were, and with them the seeds that caught a planted bug.
  static bool there(std::uint64_t seed) { return seed % 5 == 0; }

  // Another check, or none, or the end of a run; nullopt: nothing to do now.
  std::optional<CommandBody> change();
  // Nothing is checked any more.
  std::optional<CommandBody> settle() const;

 private:
  HealthCheck new_check();

  World& world_;
  Rng rng_;
  bool there_;  // in this run
};

}  // namespace lockstep::sim
