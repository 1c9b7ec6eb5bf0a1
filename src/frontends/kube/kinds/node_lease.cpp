#include "frontends/kube/kinds/node_lease.h"

#include <algorithm>

#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube {

namespace {

constexpr Duration kBeat = seconds(10);

}  // namespace

Instant heard_at(const Node& node, Instant now, Duration wall_offset) {
  if (node.link != NodeLink::kUp)
    return node.seen_at;
  const std::int64_t wall = (now + wall_offset).us;
  const Instant beat = Instant{wall - wall % kBeat.us} - wall_offset;
  return std::max(node.seen_at, beat);
}

bool is_node_lease(const Object& object) { return object.type == kLeases && object.meta.ns == kNodeLeases; }

void show_lease(json::object& tree, const Node& node, Instant now, Duration wall_offset) {
  json::value& spec = tree["spec"];
  if (!spec.is_object())
    spec.emplace_object();
  const Instant heard = heard_at(node, now, wall_offset);
  spec.get_object()["renewTime"] = micro_timestamp_text(WallTime{(heard + wall_offset).us});
}

}  // namespace lockstep::kube
