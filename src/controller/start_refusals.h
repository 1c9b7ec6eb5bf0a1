// StartRefusals: what the core did not take of plans, and why. The planner decides on what it has seen, so now and then
// the core knows better; where that happens again and again somebody waits for no visible reason. Counted by reason,
// and named on standard error at most every few seconds.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/time.h"
#include "model/command.h"

namespace lockstep {

class StartRefusals {
 public:
  // From any thread.
  void took(const std::vector<RefusedStart>& refused, Instant now);
  std::map<std::string, std::uint64_t> counts() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> counts_;
  Instant told_;
  std::uint64_t untold_ = 0;  // refusals that were not named since then
};

// What readers are told of a job whose start was refused. Nothing of one that is simply another job by now.
std::vector<PlanNote> notes_of(const std::vector<RefusedStart>& refused);

// Prometheus text: lockstep_starts_refused_total{reason}.
std::string metrics_text(const StartRefusals& refusals);

}  // namespace lockstep
