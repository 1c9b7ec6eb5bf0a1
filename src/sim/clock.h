// SimClock: the clocks of one simulated machine. The boot clock starts anew with every boot and runs a little fast or
// slow; the wall clock may be moved.
#pragma once

#include "ports/clock.h"
#include "sim/timeline.h"

namespace lockstep::sim {

class SimClock : public Clock {
 public:
  // drift_ppm: how much faster than true time the boot clock runs, in millionths.
  SimClock(const Timeline& timeline, std::int64_t drift_ppm) : timeline_(timeline), drift_ppm_(drift_ppm) { reboot(); }

  Instant boot() const override {
    const std::int64_t us = (timeline_.now() - booted_).us;
    return Instant{1'000'000 + us + us * drift_ppm_ / 1'000'000};
  }
  WallTime wall() const override { return WallTime{timeline_.now().us + wall_offset_.us}; }

  // True time at which the boot clock will show `boot`, rounded up.
  Instant true_time(Instant boot) const {
    if (boot >= kNever)
      return kNever;
    const std::int64_t us = boot.us - 1'000'000;
    return booted_ + micros(us * 1'000'000 / (1'000'000 + drift_ppm_) + 2);
  }
  void reboot() { booted_ = timeline_.now(); }
  void jump_wall(Duration by) { wall_offset_ = wall_offset_ + by; }

 private:
  const Timeline& timeline_;
  std::int64_t drift_ppm_;
  Instant booted_;
  Duration wall_offset_;
};

}  // namespace lockstep::sim
