// Nodes that were up when the controller ended and have not answered the one that began since, or whose agent's
// connection broke. Nothing starts there before they say hello, and nobody plans as if they were gone: their agents are
// at the door.
#pragma once

#include "model/records.h"

namespace lockstep {

// Up as far as anybody knows, and to say hello.
inline bool node_awaited(const Node& node) { return node.link == NodeLink::kUnknown || node.link == NodeLink::kAway; }

// It takes work, or will when it has answered.
inline bool node_expected(const Node& node) { return node.link != NodeLink::kLost && !node_drained(node); }

// Planned for like this: free again, as far as it is, that long after the controller began or the connection broke. Who
// has not answered by then is about to be declared lost.
inline constexpr Duration kAwaitedFor = seconds(30);

// While nodes are about to answer, nobody is preempted, moved or given more for what has room in a moment. So long
// after the first of them broke: agents dial every five seconds at the latest, and one that does not come must not stop
// all that.
inline constexpr Duration kAwaitedBeforeOthersGo = seconds(7);

}  // namespace lockstep
