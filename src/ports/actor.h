// Actor: whoever reads what is committed and answers with commands: the planner, the collector of what nobody owns.
//
// It decides by a reading that lags, and the core looks again: by Command::read, or as it checks every part of a plan.
// So any actor may stand still, run twice or begin anew at any moment and do no harm. Whatever it keeps follows from
// the records, or is forgotten with it. It has no thread, clock or I/O: ActorLoop drives it, and the simulation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/command.h"

namespace lockstep {

struct ActorBudget {
  std::uint32_t looks = 256;     // at records, in one step
  std::uint32_t commands = 256;  // or parts of a plan
};

class Actor {
 public:
  struct Ask {
    std::uint64_t id = 0;  // answered() names it; never given again
    CommandBody body;
    Reading read;
    std::vector<CommandBody> also = {};  // done behind `body`: all of them, or nothing (Command::also)
  };
  struct Turn {
    std::vector<Ask> asks;
    std::vector<PlanNote> notes;  // for readers; no part of the state
  };

  virtual ~Actor() = default;
  virtual const char* name() const = 0;
  // Begins anew with every record as it is. What was asked before is not answered any more.
  virtual void restart(std::span<const Change> snapshot) = 0;
  virtual void observe(std::span<const Change> changes) = 0;
  // Never before next_timer().
  virtual Turn step(Instant now, ActorBudget budget) = 0;
  // After the changes that it made were observed.
  virtual void answered(std::uint64_t id, const Result<Answer>& answer, Instant now) = 0;
  // When step() has something to do, without anything new to observe: Instant{} = at once, kNever = not at all.
  virtual Instant next_timer() const = 0;
};

}  // namespace lockstep
