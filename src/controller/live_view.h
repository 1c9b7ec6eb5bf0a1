// LiveView: the I/O thread's own picture of the cluster, brought forward by committed batches: every record, what the
// planner says, what is taken on each node, and the last changes for watches.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "controller/change_window.h"
#include "controller/holdings.h"
#include "controller/request_names.h"
#include "model/command.h"
#include "model/plan.h"
#include "model/tables.h"
#include "routes/front_end.h"
#include "views/job_index.h"
#include "views/live_use.h"
#include "views/read_context.h"
#include "views/summary.h"

namespace lockstep {

class LiveView {
 public:
  explicit LiveView(const std::vector<Change>& snapshot, Instant now = {});

  // Brings the view forward; returns the jobs whose record, steps or tasks changed. at: when they were committed.
  std::set<JobId> apply(const std::vector<Change>& changes, Instant at = {});
  // Tells the reader of every change from now on, before the view has it.
  void add_reader(std::shared_ptr<FrontReader> reader);
  // What the planner says of the cluster as of that change; put by until it is here.
  void note(std::vector<PlanNote> notes, Seq as_of);

  const Tables& tables() const { return tables_; }
  const PlanNotes& notes() const { return notes_; }
  const JobIndex& index() const { return index_; }
  const RequestNames& requests() const { return requests_; }
  NodeUse use(NodeId node) const;
  const LiveUse& live() const { return live_; }
  // What a node measured, which its readers are told of.
  void take(const Node& node, Telemetry told, Instant now);
  const StateCounts& counts() const { return counts_; }
  const Holdings& holdings() const { return holdings_; }
  Holdings& holdings() { return holdings_; }
  // The owner of something that runs on the node, by uid; null when nobody of that uid has anything there. An attempt
  // that has been told to end counts for as long as that may take, not until its node pleases to confirm it.
  const User* owner_on(NodeId node, std::uint32_t uid, Instant now) const;
  bool holds(JobId job, NodeId node) const;     // some part of the job is there and not proven stopped
  std::vector<UserId> users_with_work() const;  // that waits or runs
  // The record a user means by a target of one job: an element's own, or the array's while the element waits.
  const Job* find(const JobTarget& target) const;

  ChangeWindow& window() { return window_; }

 private:
  void bring_forward(const Change& change);
  void put_notes();
  void hold(const Ref<Job>& job);
  void take(JobId job, const Grant& grant);
  void give_back(JobId job, const Grant& grant);
  void release(JobId job);
  void count_work(const Job* before, const Job* after);

  void count(const Job& job, int sign);

  Tables tables_;
  std::vector<std::shared_ptr<FrontReader>> readers_;
  LiveUse live_;
  StateCounts counts_;
  Holdings holdings_;
  JobIndex index_;
  RequestNames requests_;
  PlanNotes notes_;
  std::deque<std::pair<Seq, std::vector<PlanNote>>> early_;  // of changes that are still to come, in their order
  std::map<NodeId, NodeUse> use_;
  struct Held {
    Ref<Job> job;          // as it was counted: all its grants but those of members that have stopped
    Instant ending_since;  // 0 = it is not told to end
  };
  std::map<JobId, Held> held_;
  std::map<NodeId, std::map<JobId, std::uint32_t>> jobs_on_;   // how many grants each job holds there
  std::map<UserId, std::uint32_t> work_;                       // jobs that have not ended
  Instant now_;                                                // of the last batch
  std::map<std::pair<JobId, std::uint32_t>, JobId> elements_;  // newest record of an array's element
  ChangeWindow window_{0};
};

}  // namespace lockstep
