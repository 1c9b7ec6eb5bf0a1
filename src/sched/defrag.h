// Defragmenting: a head waits although enough is free in all, because that is scattered. A few running jobs that can
// save their work move onto room that is free now, and the head starts where they were.
//
// Of single moves the one that loses the least (rules/preempt.h: move_loss) where at most kMovesAll jobs could move;
// else, and for several moves, the victims search's choice (sched/victims.h), without those that find no other place.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sched/victims.h"

namespace lockstep {

inline constexpr std::size_t kMovesAll = 16;

struct Moves {
  struct One {
    JobId job;
    std::vector<Grant> grants;  // its new place
  };
  std::vector<Grant> grants;  // the head's place
  std::vector<One> moved;     // ascending by id
  PreemptLoss loss;
};

// movable: in the order of ids, all of the way's partition. going: jobs that are about to leave anyway. Nullopt: there
// are none that lose less than `most` GPU-milliseconds, or none are needed.
std::optional<Moves> find_moves(PlannerView& view, const JobSpec& spec, const Way& way,
                                const std::vector<Victim>& movable, const std::vector<const Job*>& going,
                                const Shadows& shadows, const OrderKey& key, std::int64_t most);

}  // namespace lockstep
