// Nodes: what they say of themselves, when they are lost, and what proves that they stopped.
#pragma once

#include <string>

#include "core/txn.h"

namespace lockstep {

// Whether a connection under this certificate (its serial) may speak for the node: a node's record names the one that
// counts, and its successor where that was handed out. A record from before there were any takes the first it sees.
Result<void> check_certificate(const Node& known, const std::string& certificate);
// Why a node that is not lost is not taken for one, and what to do about it.
std::string not_lost_yet(const Txn& txn, const Node& node);
// A node's agent has been handed a successor of its certificate. Both count until the new one says hello: whatever
// breaks in between, the node still has one that does.
Result<Answer> renew_certificate(Txn& txn, const RenewCertificate& ask);
Result<Answer> node_hello(Txn& txn, const NodeHello& ask);
Result<void> node_away(Txn& txn, const NodeAway& ask);
Result<void> node_lost(Txn& txn, const NodeLost& ask);
Result<void> give_up_member(Txn& txn, const GiveUpMember& ask);
Result<void> node_fenced(Txn& txn, const NodeFenced& ask);
Result<Answer> update_node(Txn& txn, const UpdateNode& ask);
Result<void> remove_node(Txn& txn, const RemoveNode& ask);

}  // namespace lockstep
