// Nodes: what they say of themselves, when they are lost, and what proves that they stopped.
#pragma once

#include "core/txn.h"

namespace lockstep {

Result<Answer> node_hello(Txn& txn, const NodeHello& ask);
Result<void> node_lost(Txn& txn, const NodeLost& ask);
Result<void> node_fenced(Txn& txn, const NodeFenced& ask);
Result<Answer> update_node(Txn& txn, const UpdateNode& ask);
Result<void> remove_node(Txn& txn, const RemoveNode& ask);

}  // namespace lockstep
