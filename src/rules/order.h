// The order among equals: jobs that priority, fair share, quotas and tiers do not tell apart, and which of them may
// start although the first one waits. Pure arithmetic, shared by the planner and the trace simulators.
//
// A job's turn does not move as time passes, so a queue kept sorted stays sorted. It may change at known instants only:
// when a job of the same kin ends (see predict.h), those of its kin that wait are worth predicting again.
//
//   spread = spread_min + backlog_share * (time to drain what waits)              fixed when the job is submitted
//   turn   = submitted + spread * (doubling * log2(predicted / short_run)
//                                  + steep * predicted / (steep * predicted + spread) * (1 - size / capacity))
//   overdue = turn + overdue_after * (1 - size / capacity)
//
// Short jobs go ahead of long ones, and what has waited long goes ahead of what comes later. The logarithm lets tiny
// jobs, which cost nobody anything, far ahead. The fraction orders jobs of hours as shortest-first would, but puts none
// back by more than one spread: what a linear or a pure shortest-first order does to the longest has no bound. The
// wider a job, the less it is put back and the sooner its promise binds: nearly everything that runs has to end before
// it can start, so wide jobs are slow to start as it is, and who is passed by all others pays for the gain of all
// others. The spread follows the backlog: with days of work queued an hour more is little, on an idle cluster it is
// much. docs/decisions/0004-order-among-equals.md has the figures, where the constants come from and what else was
// tried.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/time.h"

namespace lockstep {

struct OrderPolicy {
  Duration spread_min = seconds(80'000);
  Duration spread_max = hours(300);
  std::int64_t backlog_permille = 1200;
  std::int64_t doubling_permille = 104;       // spreads per doubling of the predicted run time
  Duration short_run = seconds(100);          // what the doublings are counted from
  Duration predicted_min = seconds(5);        // shorter ones are alike
  std::int64_t steep = 10;                    // half a spread for a job of a tenth of the spread
  std::int64_t spare_permille = 1000;         // of both the delay by length and overdue_after, for the whole cluster
  std::int64_t filler_permille = 850;         // of its predicted run time a filler is tested with
  Duration overdue_after = seconds(160'000);  // its turn, from which on the promise of a tiny job that waits binds

  Result<void> validate() const;
  friend bool operator==(const OrderPolicy&, const OrderPolicy&) = default;
};

// Predicted work that waits; to be kept up with every job that joins or leaves the queue or is predicted anew.
class Backlog {
 public:
  void add(std::int64_t size, Duration predicted);
  void remove(std::int64_t size, Duration predicted);
  Duration drain_time(std::int64_t capacity) const;  // were it spread evenly over the cluster; capacity > 0

 private:
  __int128 size_us_ = 0;
};

// How much a job submitted now may be overtaken, from the drain_time() of what waits, without it.
Duration spread_of(const OrderPolicy& policy, Duration backlog);

struct OrderFacts {
  Instant submitted;
  std::int64_t size = 1;      // devices, or cores where the job has none
  std::int64_t capacity = 1;  // of the cluster or partition in the same unit, at least 1
  Duration predicted;         // run time, see predict.h
  Duration spread;            // spread_of() at its submission, at least a second
};

struct Turn {
  Instant at;          // smaller goes first; equal ones by submission, then id
  Instant overdue_at;  // from then on nothing may start that could delay it, were limits used to the full
};

Turn turn_of(const OrderPolicy& policy, const OrderFacts& facts);

// How long after its turn a job of this size is overdue. size and capacity as in OrderFacts.
Duration overdue_after(const OrderPolicy& policy, std::int64_t size, std::int64_t capacity);

// How long a job counts as running when it is asked whether it would end before the first of the queue can start. What
// runs already ends at its limit. Before the first is overdue its start is a forecast, and a prediction is enough; from
// then on it is a promise, and limits count.
Duration filler_time(const OrderPolicy& policy, Duration limit, Duration predicted, bool first_is_overdue);

}  // namespace lockstep
