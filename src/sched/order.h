// The order among equals: jobs that priority, fair share, quotas and tiers do not tell apart, and which of them may
// start although the first one waits. Pure arithmetic, shared by the planner and the trace simulators.
//
// A job's turn is fixed by what is known when it joins the queue and does not move as time passes, so a queue kept
// sorted stays sorted. (It is worth computing again when a job of the same kin ends, see predict.h, and only then.)
//
//   work    = weight * predicted * (100 * size / capacity)^size_exponent
//   spread  = spread_min + backlog_share * (time to drain what waits)
//   turn    = submitted + spread * (doubling * log2(work / work_unit) + work / (work + spread) * (1 - wide * size /
//   capacity))
//
// Short and narrow jobs go ahead of long and wide ones, and what has waited long goes ahead of what comes later. The
// saturating part orders jobs of hours as shortest-first would but puts none back by more than one spread; the
// logarithm lets the tiny ones, which cost nobody anything, far ahead; wide jobs are put back less, because narrow
// ones fill the holes beside them and not the other way round. The spread follows the backlog: with a day's work queued
// an hour more is little, while on an idle cluster nobody is made to wait for it.
// docs/decisions/0004-order-among-equals.md has the figures, where the constants come from and what else was tried.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/time.h"

namespace lockstep {

struct OrderPolicy {
  Duration spread_min = hours(7);
  Duration spread_max = hours(300);
  std::int64_t backlog_permille = 1500;
  std::int64_t weight_permille = 4000;
  std::int64_t size_permille = 200;      // exponent of the size
  std::int64_t doubling_permille = 139;  // spreads per doubling of the work
  Duration work_unit = minutes(10);
  std::int64_t wide_permille = 300;
  Duration predicted_min = seconds(5);   // shorter ones are alike
  std::int64_t filler_permille = 900;    // of its predicted run time a filler is tested with
  std::int64_t overdue_permille = 2000;  // spreads after its turn, from which on a waiting job's promise binds

  Result<void> validate() const;
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

struct OrderFacts {
  Instant submitted;
  std::int64_t size = 1;      // devices, or cores where the job has none
  std::int64_t capacity = 1;  // of the cluster or partition in the same unit, at least 1
  Duration predicted;         // run time, see predict.h
  Duration backlog;           // drain_time(), without this job
};

struct Turn {
  Instant at;          // smaller goes first; equal ones by submission, then id
  Instant overdue_at;  // from then on nothing may start that could delay it, were limits used to the full
};

Turn turn_of(const OrderPolicy& policy, const OrderFacts& facts);

// How long a job counts as running when it is asked whether it would end before the first of the queue can start. What
// runs already ends at its limit. Before the first is overdue its start is a forecast, and a prediction is enough; from
// then on it is a promise, and limits count.
Duration filler_time(const OrderPolicy& policy, Duration limit, Duration predicted, bool first_is_overdue);

}  // namespace lockstep
