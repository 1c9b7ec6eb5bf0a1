// Classes of nodes: what an administrator adds to what the agents tell. A node's record has both, the sum to go by and
// its own (Node::own_features), so that a class that goes takes with it what it brought.
#pragma once

#include "core/txn.h"

namespace lockstep {

Result<Answer> put_node_class(Txn& txn, const PutNodeClass& ask);
Result<void> remove_node_class(Txn& txn, const RemoveNodeClass& ask);

// The node as it is by itself, and back again: as the class that names it makes it, if one does.
void without_class(Node& node);
void with_class(const ClusterState::Inner& inner, Node& node);

}  // namespace lockstep
