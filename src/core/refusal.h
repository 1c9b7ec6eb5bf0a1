// Why the core does not take a part of a plan; no reason: it takes it.
#pragma once

#include <string>
#include <utility>

#include "model/plan.h"

namespace lockstep {

struct Refusal {
  const char* reason = nullptr;  // one word: "NodeNotUp"
  std::string detail;            // which: a node, a limit
  Wait wait = Wait::kResources;
  explicit operator bool() const { return reason != nullptr; }
};

inline Refusal refusal(const char* reason, std::string detail = {}) { return {reason, std::move(detail)}; }

}  // namespace lockstep
