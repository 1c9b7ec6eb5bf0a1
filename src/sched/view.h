// PlannerView: what the planner knows of the cluster, brought forward change by change: nodes with what is taken on
// them, partitions, running jobs by expected end, pending jobs by order and grouped by shape. Jobs of one shape ask for
// the same thing, so what does not fit for one of them does not fit for the others.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/change.h"
#include "model/plan.h"
#include "rules/fit.h"

namespace lockstep {

// The order in which jobs are considered: partition tier, priority, submission, id.
struct OrderKey {
  std::int64_t tier = 0;       // negated: smaller goes first
  std::uint64_t priority = 0;  // inverted
  Instant submitted;
  JobId job;
  friend auto operator<=>(const OrderKey&, const OrderKey&) = default;
};

struct NodeSlot {
  Ref<Node> node;  // null: no such node
  NodeLoad load;   // the sum of holders: running and proposed
  std::vector<const Grant*> holders;
  std::uint64_t version = 0;  // of what the node has and whether it can be used; 0 = it cannot
  bool listed = false;
  std::uint32_t free_cores = 0, free_devices = 0, weight = 0;  // as listed
};

// Free nodes in order of preference: light ones, then those with the least left, so that whole nodes stay free.
struct FreeKey {
  std::uint32_t weight = 0, free_devices = 0, free_cores = 0;
  NodeId node;
  friend auto operator<=>(const FreeKey&, const FreeKey&) = default;
};

inline constexpr std::uint32_t kNoShape = UINT32_MAX;

struct Shape {
  Ref<JobSpec> spec;  // of one of its jobs; only what matters for placement is the same in all
  std::size_t hash = 0;
  std::set<OrderKey> jobs;
  std::uint64_t blocked_pass = 0;                         // the pass in which it was found not to fit
  std::uint64_t generation = 0;                           // of nodes and partitions, for the three below
  std::uint64_t partitions = 0;                           // of partitions alone
  std::vector<std::pair<NodeId, std::uint64_t>> witness;  // empty, these nodes in these versions would do
  Wait never = Wait::kNone;                               // why it could not start even if nothing ran; kNone: it could
  std::string detail;
  Wait told = Wait::kNone;  // note that its jobs have, the head of a partition apart
  std::string told_detail;
};

struct JobSlot {
  Ref<Job> job;
  OrderKey key;
  std::uint32_t shape = kNoShape;
  bool queued = false;         // in its shape's jobs
  bool refused = false;        // the core refused its last start: not again before retry or the next change
  std::uint32_t proposed = 0;  // starts of it (or of its elements) that the core has not answered
  IntervalSet unplanned;       // array: waiting elements without a proposal
  Instant end;                 // while it holds an allocation: when it is expected to be gone
  Wait told = Wait::kNone;
  std::string told_detail;
  Instant told_start;
};

class PlannerView {
 public:
  void observe(const Change& change);

  // Starts proposed and not yet answered count as taken.
  void propose(const PlannedStart& start, Instant end);
  bool drop_proposals();  // all that the core has not committed; false if there were none
  bool has_proposals() const { return !proposals_.empty(); }

  // Jobs whose delay is over join the queue.
  void advance(Instant now);
  Instant now() const { return now_; }
  Instant next_release() const { return later_.empty() ? kNever : later_.begin()->first; }
  void clear_refused();

  JobSlot* slot(JobId id);
  bool throttled(const JobSlot& slot);  // its array already runs as many as it may

  std::vector<NodeSlot>& nodes() { return nodes_; }  // by NodeId
  const std::set<FreeKey>& free() const { return free_; }
  std::uint64_t free_devices() const { return free_devices_; }  // on all nodes of free()
  const std::map<std::string, Ref<Partition>, std::less<>>& partitions() const { return partitions_; }
  const std::vector<bool>& members(const std::string& partition);  // by NodeId
  std::vector<const Partition*> partitions_of(const JobSpec& spec) const;
  std::vector<Shape>& shapes() { return shapes_; }
  struct Release {
    Instant at;
    const std::vector<Grant>* grants;
  };
  std::vector<Release> releases() const;  // what is held or proposed, by expected end

  // What happened since the last look; the planner resets them.
  bool freed = true;             // something may fit now that did not: capacity, nodes, partitions, order
  bool loaded = true;            // what is taken changed
  std::vector<JobId> fresh;      // newly queued
  std::uint64_t generation = 1;  // of nodes and partitions
  std::uint64_t partition_generation = 1;
  std::vector<PlanNote> withdrawn;  // jobs that wait no longer but had a note

 private:
  void put_job(const Ref<Job>& job, bool removed);
  void put_node(const Ref<Node>& node, bool removed);
  void enqueue(JobSlot& slot);
  void dequeue(JobSlot& slot);
  void hold_all(const std::vector<Grant>& grants);
  void release_all(const std::vector<Grant>& grants);
  void relist(NodeId node);
  NodeSlot& node_slot(NodeId node);
  void reorder();
  OrderKey key_of(const Job& job) const;
  std::uint32_t shape_of(const Ref<JobSpec>& spec);

  std::vector<NodeSlot> nodes_;
  std::set<FreeKey> free_;
  std::uint64_t free_devices_ = 0;
  std::map<std::string, Ref<Partition>, std::less<>> partitions_;
  std::map<std::string, std::pair<std::uint64_t, std::vector<bool>>> members_;
  std::map<JobId, JobSlot> jobs_;  // not ended
  std::set<std::pair<Instant, JobId>> ends_, later_;
  std::vector<Shape> shapes_;
  std::unordered_multimap<std::size_t, std::uint32_t> shape_index_;
  std::vector<std::uint32_t> free_shapes_;

  struct ProposalKey {
    JobId job;
    bool is_element = false;
    std::uint32_t index = 0;
    friend auto operator<=>(const ProposalKey&, const ProposalKey&) = default;
  };
  struct Proposal {
    std::vector<Grant> grants;
    Instant end;
    JobId array;  // whose throttle it counts against
  };
  void forget_proposal(const ProposalKey& key);
  std::map<ProposalKey, Proposal> proposals_;
  Instant now_;
};

// The time limit the job would run under in the partition.
Duration limit_in(const JobSpec& spec, const Partition& partition);

}  // namespace lockstep
