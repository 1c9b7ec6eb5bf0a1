// What an attempt was granted, and what is promised to who waits.
#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "model/ids.h"
#include "model/resources.h"
#include "model/tres.h"

namespace lockstep {

// assigned ──▶ running ──▶ stopped. Stopped needs proof: the agent's word, a new boot id, or a fence. Running swaps
// with paused, which the agent says too: its processes have been stopped and let go on by signals.
enum class MemberState : unsigned char { kAssigned, kRunning, kStopped, kPaused };

// What one attempt was granted. Grants are in rank order: the batch script runs on grants[0].
struct Allocation {
  AttemptNo attempt = 0;
  std::string partition;
  Duration
      fence_after;  // the agent stops the attempt by itself this long after losing the controller; kForever = never
  std::vector<Grant> grants;
  Tres tres;        // what the grants count for against limits
  Instant granted;  // since when: the start, or the last time an elastic group grew or shrank
  Duration limit;   // the time limit as it stood then; kForever = none
};

// Where and when a waiting job will start, bindingly: nothing lower may delay it. Made from limits, never from
// predictions.
struct Promise {
  Instant at;
  std::string partition;
  std::vector<Grant> grants;
  bool held = false;  // the place is kept: freed for it by preemption, nobody else may take it, not even for a moment
  friend bool operator==(const Promise&, const Promise&) = default;
};

}  // namespace lockstep
