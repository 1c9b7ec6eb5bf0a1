#include "rules/admission.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace lockstep {

namespace {

bool has_limits(const Directory& directory) {
  return !directory.qos.empty() || !directory.accounts.empty() || !directory.associations.empty();
}

std::optional<Bar> reservation_bar(const Directory& directory, const StartAsk& ask, WallTime from, WallTime to) {
  const auto no = reservation_denial(directory, *ask.limits.spec, ask.nodes, from, to);
  if (!no)
    return std::nullopt;
  if (!no->node.empty() && no->reason != "Reservation")
    return Bar{Wait::kNodesUnavailable, reserved_words(*directory.reservation(no->reservation)), false, no->until};
  return Bar{Wait::kReservation, no->reason + ": " + no->reservation, no->reason == "ReservationDeleted", no->until};
}

}  // namespace

std::optional<Bar> first_bar(const Directory& directory, const Ledger& ledger, const StartAsk& ask, Instant now,
                             WallTime wall, const AskSpendings& spendings) {
  const JobSpec& spec = *ask.limits.spec;
  if (const auto word = partition_refuses(*ask.limits.partition, spec.account, spec.qos))
    return Bar{Wait::kLimit, *word, true, {}};
  if (has_limits(directory))
    if (const auto no = first_denial_to_start(directory, ledger, ask.limits, now, spendings))
      return Bar{Wait::kLimit, no->message(), no->lasting, {}};
  const WallTime to{wall.us + std::min(ask.limits.limit, kForever).us};
  if (!spec.licenses.empty()) {
    const Reservation* own = reservation_of(directory, spec, wall, to);
    if (const auto no =
            licence_denial(directory, ledger, ask.limits.tres, reserved_licences(directory, ledger, own, wall, to)))
      return Bar{Wait::kLicenses, no->message(), no->lasting, {}};
  }
  if (directory.reservations.empty() && spec.reservation.empty())
    return std::nullopt;
  return reservation_bar(directory, ask, wall, to);
}

StartAsk start_ask(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
                   const std::vector<const Node*>& nodes, Duration limit) {
  StartAsk out;
  PlaceTres tres = place_tres(spec, partition, grants, nodes);
  out.limits = {&spec, &partition, std::move(tres.all), std::move(tres.largest_node), limit, {}};
  for (const Node* node : nodes) {
    out.nodes.push_back(node->meta.name);
    out.limits.nodes.push_back(node->id);
  }
  std::vector<NodeId>& ids = out.limits.nodes;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return out;
}

StartAsk start_ask(const JobSpec& spec, const Partition& partition, Duration limit) {
  StartAsk out;
  out.limits = {&spec, &partition, least_tres(spec), std::nullopt, limit, {}};
  return out;
}

}  // namespace lockstep
