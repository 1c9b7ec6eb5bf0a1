// A log that was put back from a backup knows less than the nodes and accounting have seen. Ids of jobs, attempts and
// steps that they have seen were given out, so new ones go on above them.
#pragma once

#include <vector>

#include "core/txn.h"

namespace lockstep {

// The event of a node that has seen more than the log tells of.
inline constexpr const char* kLogIsOlder = "LogIsOlder";

// Learns from a node's first hello in an epoch. Later ones are not asked, because whoever is root there can say
// anything. Both are false where the list was long: the next part of the command goes on with it.
bool learn_from(Txn& txn, const Node& node, const NodeHello& ask);
bool learn_attempts(Txn& txn, const std::vector<AttemptSeen>& seen);
// Whether this part of a hello has nothing to do but to go on with that.
bool goes_on_learning(const Txn& txn);

// The highest attempt of the job that nodes know of and the log does not; 0 = none.
AttemptNo attempt_seen(const Txn& txn, JobId job);

}  // namespace lockstep
