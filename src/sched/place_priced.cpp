// Placing by price: where the request costs the others least (sched/packing.h).
#include <algorithm>
#include <deque>

#include "sched/pack_view.h"
#include "sched/place_inner.h"

namespace lockstep {

namespace {

// A device that the part may be of, with so much free; nothing: there is none any more.
std::optional<std::uint32_t> device_with(const AlikeNodes& cls, const NodeLoad& load, std::uint16_t free_milli) {
  std::optional<std::uint32_t> found;
  cls.healthy.minus(load.devices).for_each([&](std::uint32_t i) {
    std::int64_t free = kWholeDevice;
    for (const DevicePart& part : load.parts)
      if (part.device == i)
        free -= part.milli;
    if (!found && free == free_milli)
      found = i;
  });
  return found;
}

// As if nothing but this device were there.
NodeLoad only_device(const NodeLoad& load, const Node& node, std::uint32_t device) {
  NodeLoad out = load;
  out.devices = DeviceSet::first_n(static_cast<std::uint32_t>(node.devices.size()));
  out.devices.clear(device);
  std::erase_if(out.parts, [&](const DevicePart& part) { return part.device != device; });
  return out;
}

}  // namespace

// What ends is placed so that nodes fall idle together (sched/idle_together.h), which needs no prices; shares and what
// stays for good are placed by price. Whether a job fits must not hang on prices, so it is one group: what fits
// somewhere is found then.
bool by_price(Board& board, const GroupTask& task) {
  const GroupWay& way = task.way;
  if (!task.listed || !board.alone || !way.even || !task.group.only_nodes.empty() || way.needs.empty())
    return false;
  const bool share = way.needs[0].pack.devices == 1 && way.needs[0].pack.milli < kPackDeviceMilli;
  if (!share && !board.endless)
    return false;
  PackView& pack = board.view.packing();
  return pack.ready(board.view) &&
         std::all_of(way.needs.begin(), way.needs.end(), [&](const ClassNeed& need) { return pack.priced(need); });
}

namespace {

// Nodes that a search by price found, sorted into those that are taken and those whose whole islands would break.
struct PricedPlaces {
  Board& board;
  const GroupTask& task;
  std::vector<Candidate> chosen, breaking;
  std::deque<NodeLoad> masked;  // loads that leave nothing but one device free

  // A share goes to the device that it was priced on; false: it does not fit there.
  bool take_share(const AlikeNodes& cls, const Candidate& candidate, std::uint16_t from) {
    const auto device = device_with(cls, *candidate.load, from);
    if (!device)
      return false;
    masked.push_back(only_device(*candidate.load, *candidate.node, *device));
    if (tasks_that_fit(*candidate.node, masked.back(), task.group) < task.way.tasks_each)
      return false;
    chosen.push_back({candidate.node, &masked.back()});
    return true;
  }

  void take(const Candidate& candidate, const PackSearch::Found& found) {
    const AlikeNodes& cls = board.view.classes()[found.need->cls];
    const bool share = found.need->pack.devices == 1 && found.need->pack.milli < kPackDeviceMilli;
    if (share && take_share(cls, candidate, found.from))
      return;
    if (!task.way.exact && tasks_that_fit(*candidate.node, *candidate.load, task.group) < task.way.tasks_each)
      return;
    const std::uint32_t devices = found.need->amounts.devices;
    const bool breaks =
        task.way.nodes == 1 && devices > 0 && cls.islands.size() > 1 && breaks_island(cls, *candidate.load, devices);
    (breaks ? breaking : chosen).push_back(candidate);
  }
};

}  // namespace

Grants place_by_price(Board& board, const GroupTask& task) {
  const GroupWay& way = task.way;
  PricedPlaces places{board, task, {}, {}, {}};
  PackSearch search(board.view, way.needs);
  while (places.chosen.size() < way.nodes && places.breaking.size() < kIslandsLook) {
    const auto found = search.next();
    if (!found)
      break;
    if (const auto choice = choice_of(board, task.group, way, task.partition, *found->need, found->node))
      places.take(choice->candidate, *found);
  }
  for (const Candidate& candidate : places.breaking)
    if (places.chosen.size() < way.nodes)
      places.chosen.push_back(candidate);
  return places.chosen.size() < way.nodes ? std::nullopt : place_group(places.chosen, task.group, task.number);
}

}  // namespace lockstep
