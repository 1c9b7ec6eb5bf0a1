// Ready times of heads, kept over changes of what a head needs and of classes as far as they say the same.
#pragma once

#include <vector>

#include "sched/place.h"

namespace lockstep {

// Those for the way, out of the ones known of its partition, to be handed to place_later(). Only nodes that changed
// since, and classes nothing is known of, are looked at again.
ReadyTimes& ready_times(PlannerView& view, const Way& way, std::vector<ReadyTimes>& known);

}  // namespace lockstep
