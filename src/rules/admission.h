// Everything in the rules that may bar a start, in one question: partition, limits, quotas, licences, reservations. The
// core asks it before it commits a planned start; the planner asks it before it looks for a place (with the least the
// job could take, no nodes) and again with the place it found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/plan.h"
#include "rules/limits.h"
#include "rules/reservation.h"

namespace lockstep {

struct StartAsk {
  LimitAsk limits;                 // partition set
  std::vector<std::string> nodes;  // names; empty = not known yet
};

struct Bar {
  Wait wait = Wait::kLimit;  // kLimit, kLicenses, kReservation or kNodesUnavailable
  std::string detail;        // "QOSMaxGRESPerUser: QOS gold allows …", "Reserved for class"
  bool lasting = false;      // neither the end of other jobs nor time changes it
  WallTime until;            // not before this, where that is known; 0 = not known
};

// now: cluster time; wall: what the calendar shows then. Without places the bar may be missing one that depends on
// nodes, and never names one that would not be there with them.
std::optional<Bar> first_bar(const Directory& directory, const Ledger& ledger, const StartAsk& ask, Instant now,
                             WallTime wall, const AskSpendings& spendings);

// A place, as StartAsk wants it. nodes: one per grant.
StartAsk start_ask(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
                   const std::vector<const Node*>& nodes, Duration limit);
// The same before a place is known.
StartAsk start_ask(const JobSpec& spec, const Partition& partition, Duration limit);

}  // namespace lockstep
