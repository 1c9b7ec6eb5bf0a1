// StepRefusals: why steps could not be started here, for those who attach to them: they get the reason, as a task's
// failure that a shim would tell, and the exit of every rank. The latest so many are kept.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ports/loop.h"
#include "ports/shims.h"

namespace lockstep {

struct StepRefusal {
  WorkId key;
  std::vector<std::uint32_t> ranks;
  std::string why;
};

class StepRefusals {
 public:
  explicit StepRefusals(EventLoop& loop) : loop_(loop) {}
  void add(StepRefusal refusal);
  // In place of the stream to a shim; null when this one was not refused.
  std::unique_ptr<Stream> stream(const WorkId& key) const;

 private:
  EventLoop& loop_;
  std::deque<StepRefusal> kept_;
};

}  // namespace lockstep
