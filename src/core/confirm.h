// Orders that a node does not confirm, though it is heard all the time: root there delays them, or a task waits for a
// disk that does not answer. The node is not silent, so no fence ever passes. Therefore an order has a time of its own
// in which it must be confirmed. After it the node takes nothing new and says why (Node::unconfirmed), nobody waits for
// its place any more, and what it does not start is given up.
#pragma once

#include "core/txn.h"

namespace lockstep {

// A node confirms that it has started its part of an attempt; else it is told once more, and has unkillable_after.
inline constexpr Duration kStartWithin = minutes(5);

// Job::confirm_by of one whose nodes are told now to stop it, or to pause it.
Instant confirm_stop_by(const Txn& txn, const Job& job);
Instant confirm_pause_by(const Txn& txn);

// Job::confirm_by has come. Nodes that are away are left out: they are asked anew when they are back.
void see_unconfirmed(Txn& txn, JobId job);
// The node has said hello: it has its time from now.
void ask_anew(Txn& txn, NodeId node);

// Nodes that were closed for the job alone take work again, unless they still owe it.
void see_confirmed(Txn& txn, const Closer& closer);
// The node has said that the job goes on there.
void see_resumed(Txn& txn, JobId job, NodeId node);
// What the node names the job for is still so.
bool keeps_closed(const ClusterState::Inner& inner, const Node& node, JobId job);

// An administrator opens the node all the same. What hangs stays where it is, and nobody counts on its place.
void forgive(Txn& txn, Node& node);

}  // namespace lockstep
