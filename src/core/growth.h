// Elastic groups while they run: more for them when there is room, less when a node is lost (rules/growth.h).
#pragma once

#include "core/accounting.h"
#include "core/refusal.h"
#include "core/txn.h"

namespace lockstep {

// Applied whole, or refused.
Refusal apply_growth(Txn& txn, const PlannedGrowth& planned, StartRules& rules);

// The running job can do without what it has on the node, which is lost; other nodes that cannot be reached do not
// count as there.
bool may_shrink(const Txn& txn, const Job& job, NodeId node);
// The running job could make room on these nodes for another one and stay.
bool may_give_up(const Txn& txn, const Job& job, const std::vector<NodeId>& nodes);
// Nothing of the attempt lives there any more: what it had there is given back, its tasks have ended. may_shrink().
void shrink(Txn& txn, const Job& job, NodeId node);

// Tells it to leave the node, if may_shrink().
void leave_node(Txn& txn, const Job& job, NodeId node);

// Whatever was started on the node before now is gone with everything that knew of it: attempts that have left it may
// come back.
void let_return(Txn& txn, NodeId node);

}  // namespace lockstep
