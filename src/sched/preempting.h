// Preempting: what the planner does about preemption beside looking for victims: which blocked jobs may preempt and are
// tried, starts on places that are kept, kept places that are of no use, suspended jobs that can go on. Everything
// follows from records; what is proposed and not answered yet counts as done.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "model/plan.h"
#include "sched/victims.h"

namespace lockstep {

class Preempting {
 public:
  void observe(const Change& change);

  // As a pass begins: what suspended jobs will go on with is kept from those of lower rank, as a head's place is.
  void keep_places(PlannerView& view, Shadows& shadows) const;
  // Before a pass. Starts jobs on the places that are kept for them; gives up those that the core does not let them
  // use.
  void serve(PlannerView& view, Shadows& shadows, Instant now, PlanChunk& chunk);
  // After one. Those that wait for others to make room start elsewhere if they can, suspended jobs go on.
  void serve_late(PlannerView& view, Shadows& shadows, Instant now, PlanChunk& chunk);

  // Looks for victims for blocked jobs, the first in the order of rank first. blocked: no job of this shape fits now.
  void search(PlannerView& view, const Shadows& shadows, Instant now,
              const std::function<bool(std::uint32_t shape)>& blocked, PlanChunk& chunk);

  // Looks for jobs to move so that the head of a partition starts, after search(); at most one set in a pass.
  void defragment(PlannerView& view, const Shadows& shadows, Instant now, Duration after, PlanChunk& chunk);

  void settled();
  Instant wake_at() const { return exempt_until_; }  // a running job may be preempted or moved then that may not be now
  // When a job will start that a place is kept for; 0: none is.
  Instant kept_until(const PlannerView& view, JobId job) const;

 private:
  void forget(JobId id);
  void note_holder(const Ref<Job>& job);
  void serve_hold(PlannerView& view, Shadows& shadows, Instant now, JobSlot& slot, PlanChunk& chunk);
  void start_elsewhere(PlannerView& view, Shadows& shadows, Instant now, const JobSlot& slot, PlanChunk& chunk) const;
  static bool can_go_on(PlannerView& view, const Shadows& shadows, const Job& job);
  std::vector<const Job*> jobs_going() const;
  void start(PlannerView& view, Shadows& shadows, JobId id, std::vector<Grant> grants, const std::string& partition,
             Instant end, PlanChunk& chunk) const;

  struct Hunt;
  // Of running jobs.
  struct Kind {
    std::string qos, partition;
    std::optional<std::int32_t> precedence;
    bool is_check = false;  // runs of health checks, which go for everybody
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };

  std::map<Kind, std::map<JobId, Ref<Job>>> running_;  // that could be victims
  std::map<JobId, Kind> kinds_;
  std::map<JobId, Ref<Job>> going_;      // hold an allocation and are about to give it back
  std::map<JobId, Ref<Job>> suspended_;  // by preemption
  std::set<JobId> kept_;                 // waiting, with a kept place
  std::set<JobId> victims_, resumed_;    // proposed
  std::set<JobId> stuck_;                // resumes that the core refused, until something changes on the nodes
  std::uint64_t stuck_clock_ = 0;
  Instant exempt_until_ = kNever;  // the first end of an exemption that a search met; kNever: it met none
};

}  // namespace lockstep
