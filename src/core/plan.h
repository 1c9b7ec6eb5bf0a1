// The planner's proposals, checked again before they count.
#pragma once

#include "core/txn.h"

namespace lockstep {

Answer apply_plan(Txn& txn, const ApplyPlan& plan);

}  // namespace lockstep
