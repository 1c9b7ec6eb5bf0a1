// Job arrays: one record for everything that waits, a record of its own for each element that runs or diverges.
#pragma once

#include <optional>

#include "core/txn.h"
#include "model/job.h"

namespace lockstep {

IntervalSet in_both(const IntervalSet& a, const IntervalSet& b);
IntervalSet without(const IntervalSet& a, const IntervalSet& b);  // what of a is not in b

// A record, not yet put, for a waiting element; it has left `waiting`.
Job split_off(Txn& txn, const Job& array, std::uint32_t index);

// These waiting elements leave and have no record.
void cut_off(ArrayState& state, const IntervalSet& which);

// Whether one more element may run now.
bool throttled(const Txn& txn, JobId array);

// Writes an edited array. It ends once nothing of it is left, and is held while its throttle allows no more elements.
void settle_array(Txn& txn, JobId id);

}  // namespace lockstep
