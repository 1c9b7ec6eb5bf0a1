// The machine's clocks.
#pragma once

#include "ports/clock.h"

namespace lockstep {

class RealClock final : public Clock {
 public:
  Instant boot() const override;
  WallTime wall() const override;
  Duration thread_cpu() const override;
};

}  // namespace lockstep
