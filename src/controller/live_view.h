// LiveView: the I/O thread's own picture of the cluster, brought forward by committed batches: every record, what the
// planner says, what is taken on each node, and the last changes for watches.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "model/command.h"
#include "model/plan.h"
#include "model/tables.h"
#include "views/read_context.h"

namespace lockstep {

class LiveView {
 public:
  explicit LiveView(const std::vector<Change>& snapshot);

  // Brings the view forward; returns the jobs whose record, steps or tasks changed.
  std::set<JobId> apply(const std::vector<Change>& changes);
  // What the planner says of the cluster as of that change; put by until it is here.
  void note(std::vector<PlanNote> notes, Seq as_of);

  const Tables& tables() const { return tables_; }
  const PlanNotes& notes() const { return notes_; }
  NodeUse use(NodeId node) const;
  // The owner of something held on the node, by uid; null when nobody of that uid holds anything there.
  const User* owner_on(NodeId node, std::uint32_t uid) const;
  // The record a user means by a target of one job: an element's own, or the array's while the element waits.
  const Job* find(const JobTarget& target) const;

  // Changes after seq, oldest first; false when they are not all at hand any more.
  bool changes_after(Seq seq, std::vector<Change>& out) const;

 private:
  void bring_forward(const Change& change);
  void put_notes();
  void take(const Job& job);
  void release(JobId job);

  Tables tables_;
  PlanNotes notes_;
  std::deque<std::pair<Seq, std::vector<PlanNote>>> early_;  // of changes that are still to come, in their order
  std::map<NodeId, NodeUse> use_;
  struct Held {
    UserId user;
    std::vector<Grant> grants;
  };
  std::map<JobId, Held> held_;
  std::map<NodeId, std::map<UserId, std::uint32_t>> owners_;   // how many grants each user holds there
  std::map<std::pair<JobId, std::uint32_t>, JobId> elements_;  // newest record of an array's element
  std::deque<Change> recent_;
  Seq recent_from_ = 0;  // every change after this one is in recent_
};

}  // namespace lockstep
