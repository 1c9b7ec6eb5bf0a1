// TurnMeter: the CPU time of a loop's turns on its own thread. To read it is a system call, so it is read once in a
// millisecond at most; shorter turns are counted with what follows them.
#pragma once

#include <optional>

#include "controller/cluster_clock.h"

namespace lockstep {

class TurnMeter {
 public:
  // The clock must outlive this.
  explicit TurnMeter(const ClusterClock& clock) : clock_(clock) {}

  // What came before is no turn's. On the thread that is measured, as all else.
  void begin() { counted_ = recent(); }
  // The thread's CPU time as of a millisecond ago, or later.
  Duration recent() {
    const Instant now = clock_.now();
    if (!read_at_ || now - read_at_ >= kEvery) {
      read_at_ = now;
      cpu_ = clock_.thread_cpu();
    }
    return cpu_;
  }
  // A turn ended. What it cost, and those before it that were not counted; nothing while that may be less than a
  // millisecond.
  std::optional<Duration> turn() {
    const Duration cost = recent() - counted_;
    if (cost.us == 0)
      return std::nullopt;
    counted_ = cpu_;
    return cost;
  }

 private:
  static constexpr Duration kEvery = millis(1);
  const ClusterClock& clock_;
  Instant read_at_;
  Duration cpu_, counted_;
};

}  // namespace lockstep
