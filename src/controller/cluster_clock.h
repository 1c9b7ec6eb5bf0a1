// ClusterClock: cluster time on this controller: what the log has reached, plus what the boot clock has counted since.
// The boot clock counts while the machine is suspended: agents' fences run on meanwhile, so we must see that time pass.
// That it was our own silence is told by the beats that are missing (NodeDesk). Any thread may read it.
#pragma once

#include <algorithm>

#include "ports/clock.h"

namespace lockstep {

class ClusterClock {
 public:
  // floor: the log's clock. wall_offset: wall clock minus cluster time, as recorded. While the controller was down time
  // went on: by the wall clock, as long as that is believable.
  ClusterClock(const Clock& clock, Instant floor, Duration wall_offset) : clock_(clock), boot_(clock.boot()) {
    constexpr Duration kBelievable = hours(24 * 30);
    const Instant by_wall{clock.wall().us - wall_offset.us};
    base_ = by_wall > floor && by_wall - floor < kBelievable ? by_wall : floor;
  }
  Instant now() const { return base_ + (clock_.boot() - boot_); }
  Duration thread_cpu() const { return clock_.thread_cpu(); }
  // Wall clock minus cluster time, at this moment.
  Duration wall_offset() const { return {clock_.wall().us - now().us}; }

 private:
  const Clock& clock_;
  Instant boot_, base_;
};

}  // namespace lockstep
