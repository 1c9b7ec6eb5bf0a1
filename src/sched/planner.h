// Planner: which pending job starts where, now, and when the others will. Deterministic over its own view, which the
// committed changes keep equal to the state; its plan returns as a command and is re-checked by the core.
#pragma once

#include <memory>
#include <span>

#include "base/time.h"
#include "model/change.h"
#include "model/plan.h"

namespace lockstep {

struct PlannerSettings {
  bool defragment = false;  // propose to move running jobs, where the core would do it (CoreSettings)
  Duration move_after = minutes(10);
};

class Planner {
 public:
  Planner();
  explicit Planner(PlannerSettings settings);
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  // Brings the view forward. A planner that observed a snapshot and the tail equals one that observed all of history.
  void observe(std::span<const Change> changes);

  // One slice of a pass at cluster time now. A job that fits on free resources is proposed in the first slice after its
  // submission was observed, even in the middle of a long pass. The view already counts the chunk's own starts as taken
  // until the change (or its absence after settled()) says otherwise.
  PlanChunk plan(Instant now, PlanBudget budget);

  // The core has answered the last chunk: starts that were not committed are free again.
  void settled();

  // When a queued job is foreseen to start, as of the last finished pass: exact for the head of a partition, else on
  // the calendar's grid. 0: not known.
  Instant expected_start(JobId job) const;

  bool idle() const;        // nothing to do until the next observe() or wake_at()
  Instant wake_at() const;  // a running job's expected end may open a backfill hole; kNever

 private:
  struct Inner;
  std::unique_ptr<Inner> inner_;
};

}  // namespace lockstep
