// Clock: the two clocks of a machine. Everything above takes time as an argument; only shells read this.
#pragma once

#include "base/time.h"

namespace lockstep {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant boot() const = 0;   // CLOCK_BOOTTIME: counts suspension, never jumps; zero is arbitrary
  virtual WallTime wall() const = 0;  // may jump
  // CPU time of the calling thread, for those who watch themselves; a clock without one stands still.
  virtual Duration thread_cpu() const { return {}; }
};

}  // namespace lockstep
