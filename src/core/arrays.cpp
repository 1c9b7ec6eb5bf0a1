#include "core/arrays.h"

#include <algorithm>

#include "base/mutant.h"
#include "model/job.h"

namespace lockstep {

IntervalSet in_both(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet out;
  auto x = a.intervals().begin();
  auto y = b.intervals().begin();
  while (x != a.intervals().end() && y != b.intervals().end()) {
    const std::uint32_t low = std::max(x->low, y->low), high = std::min(x->high, y->high);
    if (low <= high)
      out.insert(low, high);
    if (x->high < y->high)
      ++x;
    else
      ++y;
  }
  return out;
}

IntervalSet without(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet out;
  auto y = b.intervals().begin();
  for (const Interval& part : a.intervals()) {
    std::uint64_t low = part.low;
    while (y != b.intervals().end() && y->high < low) ++y;
    for (; y != b.intervals().end() && y->low <= part.high; ++y) {
      if (low < y->low)
        out.insert(static_cast<std::uint32_t>(low), y->low - 1);
      low = std::uint64_t{y->high} + 1;
      if (y->high >= part.high)
        break;  // it may reach into the next one
    }
    if (low <= part.high)
      out.insert(static_cast<std::uint32_t>(low), part.high);
  }
  return out;
}

Job split_off(Txn& txn, const Job& array, std::uint32_t index) {
  ArrayState& state = txn.edit_array(array.id);
  CHECK(state.waiting.contains(index));
  state.waiting.erase(index);
  Job element = array;
  element.meta = {};
  element.meta.ns = array.meta.ns;
  element.id = txn.new_job_id();
  element.array = nullptr;
  element.array_job = array.id;
  element.array_index = index;
  element.state = JobState::kPending;
  element.ending = JobState::kCompleted;
  element.ended = {};
  element.end_reason.clear();
  element.cancelled_by = {};
  if (element.hold == Hold::kArrayThrottle)
    element.hold = Hold::kNone;
  return element;
}

void cut_off(ArrayState& state, const IntervalSet& which) {
  IntervalSet left = without(state.waiting, which);
  state.cut_short = state.cut_short || left != state.waiting;
  state.waiting = std::move(left);
}

bool throttled(const Txn& txn, JobId array) {
  const ArrayState& state = txn.array(array);
  return state.throttle != 0 && state.running >= state.throttle && !mutant(Mutant::kArrayOverThrottle);
}

namespace {

// How the array ends when nothing of it is left: as it was cancelled, else by the worst of its elements.
void finish_array(Job& job, const ArrayState& state, Instant now) {
  if (job.ending != JobState::kCompleted)
    job.state = job.ending;
  else
    job.state = state.worst_code == 0 ? JobState::kCompleted : JobState::kFailed;
  job.exit.code = static_cast<std::int32_t>(state.worst_code);
  job.ended = now;
  job.hold = Hold::kNone;
}

// One of its elements was requeued after the array had ended.
void reopen_array(Job& job) {
  job.state = JobState::kPending;
  job.ending = JobState::kCompleted;
  job.cancelled_by = {};
  job.ended = {};
  job.end_reason.clear();
}

// Its throttle's hold comes and goes; any other stays.
Hold throttle_hold(Hold hold, const ArrayState& state) {
  const bool full = state.throttle != 0 && state.running >= state.throttle && !state.waiting.empty();
  if (full)
    return hold == Hold::kNone ? Hold::kArrayThrottle : hold;
  return hold == Hold::kArrayThrottle ? Hold::kNone : hold;
}

}  // namespace

void settle_array(Txn& txn, JobId id) {
  Job job = *txn.job(id);
  const ArrayState& state = txn.array(id);
  const JobState state_before = job.state;
  const Hold hold_before = job.hold;
  const bool done = state.waiting.empty() && state.unfinished == 0;
  if (done && !is_final(job.state))
    finish_array(job, state, txn.now());
  else if (!done && is_final(job.state))
    reopen_array(job);
  if (job.state == JobState::kPending)
    job.hold = throttle_hold(job.hold, state);
  if (txn.has_draft(id) || job.state != state_before || job.hold != hold_before)
    txn.put(std::move(job));
}

}  // namespace lockstep
