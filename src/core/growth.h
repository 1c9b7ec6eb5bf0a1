// Elastic groups while they run: more for them when there is room, less when a node is lost (rules/growth.h).
#pragma once

#include "core/accounting.h"
#include "core/refusal.h"
#include "core/txn.h"

namespace lockstep {

// Applied whole, or refused.
Refusal apply_growth(Txn& txn, const PlannedGrowth& planned, StartRules& rules);

// The job has these grants from now on. What it had until now is charged, so that nothing counts as used for longer or
// shorter than it was.
Ref<Job> regrant(Txn& txn, const Job& before, std::vector<Grant> grants, std::vector<MemberState> members);
// Why limits and reservations bar the running job with all these grants for the time that it has left.
Refusal objection_of_rules(const Txn& txn, const Job& job, const Partition& partition, const std::vector<Grant>& all,
                           const std::vector<const Node*>& nodes, StartRules& rules);

// Whether the running job can do without what it has on the node, which is lost. Other nodes that cannot be reached
// count as lost too.
bool may_shrink(const Txn& txn, const Job& job, NodeId node);
// The running job could make room on these nodes for another one and stay.
bool may_give_up(const Txn& txn, const Job& job, const std::vector<NodeId>& nodes);
// Nothing of the attempt lives on the node any more: the job gives back what it had there, and its tasks there have
// ended. Only if may_shrink().
void shrink(Txn& txn, const Job& job, NodeId node);

// Tells it to leave the node, if may_shrink().
void leave_node(Txn& txn, const Job& job, NodeId node);

// It is proven that nothing from before now lives on the node, not even what remembers an attempt, or the node is
// removed: attempts that have left the node may come back to it.
void let_return(Txn& txn, NodeId node);

}  // namespace lockstep
