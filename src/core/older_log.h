// A log that was put back from a backup: what nodes and accounting have seen was given out all the same. Ids of jobs,
// attempts and steps go on above it.
#pragma once

#include <vector>

#include "core/txn.h"

namespace lockstep {

// The event of a node that has seen more than the log tells of.
inline constexpr const char* kLogIsOlder = "LogIsOlder";

// A node's first hello in an epoch; later ones are not asked, because who is root there can say anything.
void learn_from(Txn& txn, const Node& node, const NodeHello& ask);
void learn_attempts(Txn& txn, const std::vector<AttemptSeen>& seen);

}  // namespace lockstep
