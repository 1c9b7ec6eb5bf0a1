// Shadows: what is kept for the head of each partition, the highest job that waits there. It gets a time and exact
// cores and devices on exact nodes; whoever would outlast that time must leave them alone (EASY backfill: Lifka, "The
// ANL/IBM SP scheduling system", 1995, with one reservation per partition, on parts of nodes).
#pragma once

#include <map>
#include <vector>

#include "sched/view.h"

namespace lockstep {

struct Shadow {
  OrderKey key;
  PartitionNo partition = 0;
  Instant at;                                  // kNever: behind jobs without a limit
  Instant made;                                // when this was worked out
  std::vector<Grant> grants;                   // what it will take
  std::vector<NodeLoad> loads;                 // per grant: what is held on that node then, the grant included
  bool overdue() const { return at <= made; }  // what it waits for should be gone already
  Instant binds_at;                            // before, `at` is a forecast: predictions are enough to go ahead of it
  bool binds() const { return binds_at <= made; }
  Instant over;  // of a suspended job, which goes on at `at`: when it will have ended
};

// Which shadows a job must leave alone, by position.
using Avoid = std::vector<bool>;

class Shadows {
 public:
  void clear(PlannerView& view);
  void add(PlannerView& view, Shadow shadow);
  const std::vector<Shadow>& all() const { return shadows_; }
  const Shadow* of(PartitionNo partition) const;  // null: none
  const Shadow* of_job(JobId job) const;

  // When those that go on ahead of it will have left the place of the head.
  Instant after_suspended(const Shadow& head) const;
  // What a suspended job must leave alone. Not the place of a head that nobody can say when it starts: it may wait for
  // memory that suspended jobs have kept, which would wait for it.
  Avoid avoid_for_resume(const OrderKey& key) const;
  // Kept for suspended jobs that go on ahead of this key.
  std::vector<NodeId> nodes_of_suspended(const OrderKey& key) const;
  // For a job with this key that must end then (kNever: need not at all), and probably will.
  Avoid avoid_for(const OrderKey& key, Instant limit_end, Instant probable_end) const;
  // What is held on a shaded node in the eyes of a job that must avoid some: the most of now and then.
  NodeLoad seen(NodeId node, const NodeLoad& now, const Avoid& avoid) const;
  // A start on shaded nodes that lasts longer than a head waits is there when the head comes.
  void started(PlannerView& view, const std::vector<Grant>& grants, Instant end);

 private:
  void shade(PlannerView& view, NodeId node);
  struct Part {
    std::uint32_t shadow = 0, grant = 0;
  };
  std::vector<Shadow> shadows_;
  std::map<NodeId, std::vector<Part>> parts_;
};

}  // namespace lockstep
