// Finding room for gangs.
#include "sim/gang_pool.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::sim {

GangPool::GangPool(std::int32_t nodes, std::int32_t devices_per_node)
    : nodes_(nodes),
      devices_per_node_(devices_per_node),
      free_(std::int64_t{nodes} * devices_per_node),
      free_by_node_(static_cast<std::size_t>(nodes), devices_per_node),
      nodes_with_(static_cast<std::size_t>(devices_per_node) + 1, 0) {
  CHECK(nodes > 0 && devices_per_node > 0);
  nodes_with_.back() = nodes;
}

void GangPool::set(std::int32_t node, std::int32_t devices) {
  CHECK(devices >= 0 && devices <= devices_per_node_);
  std::int32_t& now = free_by_node_[static_cast<std::size_t>(node)];
  --nodes_with_[static_cast<std::size_t>(now)];
  ++nodes_with_[static_cast<std::size_t>(devices)];
  free_ += devices - now;
  now = devices;
}

bool GangPool::could_ever_fit(std::int64_t size) const { return size > 0 && size <= capacity(); }

bool GangPool::fits(std::int64_t size) const {
  if (size > free_)
    return false;
  if (nodes_ == 1)
    return true;
  const std::int64_t whole = size / devices_per_node_, rest = size % devices_per_node_;
  const std::int32_t idle = nodes_with_.back();
  if (idle < whole)
    return false;
  if (rest == 0 || idle > whole)
    return true;
  return std::any_of(nodes_with_.begin() + rest, nodes_with_.end() - 1, [](std::int32_t n) { return n > 0; });
}

GangPool::Place GangPool::find(std::int64_t size) const {
  Place place;
  if (!fits(size))
    return place;
  std::int64_t whole = size / devices_per_node_;
  const auto rest = static_cast<std::int32_t>(size % devices_per_node_);
  std::int32_t best = -1;
  for (std::int32_t node = 0; node < nodes_; ++node) {
    const std::int32_t free = free_on(node);
    if (whole > 0 && free == devices_per_node_) {
      place.push_back({node, free});
      --whole;
    } else if (rest > 0 && free >= rest && (best < 0 || free < free_on(best))) {
      best = node;
    }
  }
  if (rest > 0)
    place.push_back({best, rest});
  return place;
}

void GangPool::take(const Place& place) {
  for (const Part& part : place) set(part.node, free_on(part.node) - part.devices);
}

void GangPool::give(const Place& place) {
  for (const Part& part : place) set(part.node, free_on(part.node) + part.devices);
}

}  // namespace lockstep::sim
