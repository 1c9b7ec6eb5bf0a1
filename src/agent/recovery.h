// The first look of an agent at what the one before it has left: what of the shims its journal knows, and what of the
// journal has no shim.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "agent/held_attempt.h"

namespace lockstep {

using HeldAttempts = std::map<AttemptId, HeldAttempt>;

// Of a shim's folder, which may still be there for a moment when all has been said of it. gone: attempts that must not
// start any more.
bool knows(const HeldAttempts& held, const std::set<AttemptId>& gone, const WorkId& key);

struct Missing {
  std::vector<WorkId> works;       // should run, and no shim is there for them
  std::vector<AttemptId> scripts;  // attempts whose script was never ordered
  std::vector<AttemptId> stopping;
  std::vector<WorkId> hooks;  // were ordered, and never began: a shim's folder stays until it is forgotten
};
Missing missing_in(const HeldAttempts& held, const std::set<WorkId>& survivors);

}  // namespace lockstep
