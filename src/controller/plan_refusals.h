// PlanRefusals: what the core did not take of plans, and why. The planner decides on what it has seen, so now and then
// the core knows better; where that happens again and again somebody waits for no visible reason. Counted by part and
// reason, and named on standard error at most every few seconds.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "model/command.h"

namespace lockstep {

class PlanRefusals {
 public:
  // From any thread.
  void took(const std::vector<RefusedPart>& refused, Instant now);
  using Counts = std::map<std::pair<std::string, std::string>, std::uint64_t>;  // by part of a plan and reason
  Counts counts() const;

 private:
  mutable std::mutex mutex_;
  Counts counts_;
  Instant told_;
  std::uint64_t untold_ = 0;  // refusals that were not named since then
};

// What readers are told of a job whose start was refused. Nothing of one that is simply another job by now.
std::vector<PlanNote> notes_of(const std::vector<RefusedPart>& refused);

// Prometheus text: lockstep_plans_refused_total{plan,reason}.
std::string metrics_text(const PlanRefusals& refusals);

}  // namespace lockstep
