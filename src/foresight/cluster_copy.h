// ClusterCopy: the cluster as a value that may be asked "what if": the real core and the real planner over shared
// records. Commands change it as they would change the cluster, its planner plans and the core commits, and its nodes
// do at once what they are told. Nothing of it reaches the outside.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "model/foresight.h"
#include "sched/planner.h"
#include "views/plan_notes.h"

namespace lockstep {

class ClusterCopy {
 public:
  struct Clock {
    Instant now;           // cluster time
    Duration wall_offset;  // adds to it to give the calendar
  };
  // The records as they are. Time is not before the last entry's.
  ClusterCopy(const Tables& tables, const Clock& clock, CoreSettings settings = {});

  // As the core takes it; an error changes nothing. Without a caller: the controller's own command.
  Result<Answer> change(CommandBody body, const Caller& caller = {UserId{}, true});
  // Plans until the planner has nothing left to do at this moment, and commits what it proposes.
  void plan();
  // As plan() does with what its planner proposes: the core looks at it anew.
  void propose(ApplyPlan plan);
  // Of a job that waits: that a start was proposed for it and the core did not take it; null: none was.
  const RefusedPart* refused(JobId job) const;
  // Time goes on to the next moment at which something happens (a limit strikes, a delay is over), at most to `until`,
  // and is planned. Running jobs last to their limits. False: nothing happened before.
  bool step(Instant until);
  // Time goes on without anything happening on the way; step() first, as far as it goes.
  void advance_to(Instant at) { clock_.now = std::max(clock_.now, at); }
  // The job ends now: its script returned 0.
  void finish(JobId job);

  const Tables& tables() const { return state_->tables(); }
  const NodeLoad& load(NodeId node) const { return state_->load(node); }
  const Planner& planner() const { return *planner_; }
  const PlanNotes& notes() const { return notes_; }
  Instant now() const { return clock_.now; }
  const Clock& clock() const { return clock_; }
  WallTime wall(Instant at) const;  // in whole seconds; 0 for 0 and kNever
  // Jobs that started since the last call, in order; elements of arrays by their own ids.
  std::vector<JobId> take_started();
  // Jobs that gave back what they held, likewise.
  std::vector<JobId> take_ended();

  // Of an array: its next element.
  Foreseen foresee(JobId job) const;

 private:
  // What is known of a job that waits.
  Foreseen foresee_start(const Job& job) const;
  void take(const Outcome& outcome);
  void obey();
  void tick();

  Clock clock_;
  Instant begun_;
  std::unique_ptr<ClusterState> state_;
  std::unique_ptr<Planner> planner_;
  PlanNotes notes_;
  std::map<JobId, RefusedPart> refused_;
  std::vector<Action> actions_;  // not carried out yet
  std::vector<JobId> started_, ended_;
  std::map<JobId, JobId> newest_;  // of an array: its element that started last, here
  bool stopped_leftovers_ = false;
};

std::string host_list(const Tables& tables, const std::vector<Grant>& grants);
std::string host_list(const Tables& tables, const std::vector<NodeId>& nodes);

// Those the job names, or the default one; without those that are gone.
std::vector<const Partition*> partitions_asked(const Tables& tables, const JobSpec& spec);

std::string user_name(const Tables& tables, const Job& job);  // "" when the user is gone

}  // namespace lockstep
