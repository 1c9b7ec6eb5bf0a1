// Rooms by node, prices by room, and when a new record is due.
#include "sched/pack_view.h"

#include <algorithm>

#include "model/job.h"
#include "rules/packing.h"
#include "sched/view.h"

namespace lockstep {

namespace {

constexpr std::uint32_t kElementsMost = 64;  // that an array or a gang counts for
constexpr std::size_t kCountedMost = 512;    // jobs looked at for one record; of more, some stand for all

bool asks_for_devices(const JobSpec& spec) {
  return std::any_of(spec.groups.begin(), spec.groups.end(), [](const GroupSpec& group) {
    return !group.per_node.devices.empty() || !group.per_task.devices.empty() || !group.per_job.empty();
  });
}

// What is left on a node's whole and shared devices.
PackRoom room_of(const AlikeNodes& cls, const NodeSlot& slot, std::int16_t kind) {
  PackRoom room{.cpu_milli = std::int64_t{slot.free.milli}};
  if (kind < 0)
    return room;
  room.kind = static_cast<std::uint16_t>(kind);
  cls.healthy.minus(slot.load.devices).for_each([&](std::uint32_t i) {
    std::int64_t free = kPackDeviceMilli;
    for (const DevicePart& part : slot.load.parts)
      if (part.device == i)
        free -= part.milli;
    if (free > 0)
      room.free_milli[room.devices++] = static_cast<std::uint16_t>(free);
  });
  std::sort(room.free_milli.begin(), room.free_milli.begin() + room.devices, std::greater<>{});
  return room;
}

bool fits_in(const PackRoom& room, const FreeAmounts& free, const PackShape& shape) {
  if (shape.cpu_milli > room.cpu_milli)
    return false;
  if (shape.devices != 1)
    return shape.devices <= free.devices;
  return room.devices > 0 && room.free_milli[0] >= shape.milli;
}

}  // namespace

// --- what came ---

void PackView::observe(const Change& change) {
  if (const auto* record = std::get_if<Ref<Packing>>(&change.record)) {
    record_ = change.removed ? nullptr : *record;
    if (record_)
      came_.erase(came_.begin(), came_.upper_bound(record_->through));
    prices_.reset();
    asked_ = false;
    return;
  }
  const auto* job = std::get_if<Ref<Job>>(&change.record);
  if (!job || (*job)->array_job || (record_ && (*job)->id <= record_->through))
    return;
  if (change.removed || !asks_for_devices(*(*job)->spec)) {
    came_.erase((*job)->id);
    return;
  }
  const auto [at, fresh] = came_.try_emplace((*job)->id);
  at->second.spec = (*job)->spec;
  if (const ArrayState* array = (*job)->array.get())
    at->second.elements = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        array->asked.size(), array->throttle != 0 ? std::min(array->throttle, kElementsMost) : kElementsMost));
  if (fresh)
    asked_ = false;
}

// What a member of the group asks for, where prices look at it; members 0: nowhere.
PackView::GroupAsk PackView::ask_of(PlannerView& view, const std::vector<std::vector<GroupWay>>& ways, std::size_t g,
                                    const GroupSpec& group) const {
  GroupAsk out;
  std::vector<bool> kinds(ground_.models.size());
  for (const auto& way : ways)
    for (const ClassNeed& need : way[g].needs) {
      if (!priced(need) || need.pack.devices == 0 || kinds_[need.cls] < 0 || view.classes()[need.cls].present == 0)
        continue;
      kinds[static_cast<std::size_t>(kinds_[need.cls])] = true;
      if (out.members == 0 || need.pack.cpu_milli < out.request.cpu_milli)
        out.request.cpu_milli = need.pack.cpu_milli;
      out.request.devices = need.pack.devices;
      out.request.milli = need.pack.milli;
      out.members = way[g].even ? way[g].nodes : std::max(1u, group.tasks.min);
    }
  // Without models: any of them will do.
  if (std::find(kinds.begin(), kinds.end(), false) != kinds.end())
    for (std::size_t k = 0; k < kinds.size(); ++k)
      if (kinds[k])
        out.request.models.push_back(ground_.models[k]);
  return out;
}

void PackView::count_job(PlannerView& view, const JobSpec& spec, std::int64_t elements, PackArrivals& out) {
  const std::vector<PartitionNo> partitions = view.partitions_of(spec);
  if (partitions.empty())
    return;
  std::vector<std::vector<GroupWay>> ways;
  for (const PartitionNo p : partitions) ways.push_back(groups_on(spec, *view.partitions()[p], p, view.classes()));
  for (std::size_t g = 0; g < spec.groups.size(); ++g)
    if (const GroupAsk ask = ask_of(view, ways, g, spec.groups[g]); ask.members > 0)
      out[ask.request] += elements * std::min(ask.members, kElementsMost);
}

PlannedPacking PackView::next(PlannerView& view) {
  asked_ = true;
  refresh(view);
  PackArrivals arrivals;
  const std::size_t every = (came_.size() + kCountedMost - 1) / kCountedMost;
  std::size_t n = 0;
  for (const auto& [id, came] : came_)
    if (n++ % every == 0)
      count_job(view, *came.spec, static_cast<std::int64_t>(came.elements * every), arrivals);
  std::map<PackRoom, double> count;  // in an order that does not depend on how the view came to be
  for (const Spot& spot : spots_)
    if (!spot.nodes.empty() && spot.room.devices > 0)
      count[spot.room] += static_cast<double>(spot.nodes.size());
  std::vector<PackStock> rooms;
  for (const auto& [room, nodes] : count) rooms.push_back({room, nodes});
  return {record_ ? record_->meta.seq : 0,
          std::make_shared<const Packing>(
              next_packing(settings_, record_.get(), came_.rbegin()->first, arrivals, ground_, rooms))};
}

// --- nodes by room ---

void PackView::touched(NodeId id) {
  if (all_touched_)
    return;
  touched_.push_back(id);
  if (touched_.size() > 1024 + spot_of_node_.size()) {
    touched_.clear();
    all_touched_ = true;
  }
}

namespace {

bool priceable(const AlikeNodes& cls) {
  const std::vector<Device>& devices = cls.like.devices;
  return devices.empty() || (cls.one_device_type && devices[0].kind == "gpu" && cls.whole.devices <= kPackDevicesMax);
}

// What all prices depend on.
PackGround ground_of(const std::deque<AlikeNodes>& classes) {
  PackGround ground;
  std::set<std::string> models;
  for (const AlikeNodes& cls : classes) {
    if (cls.present == 0 || cls.whole.devices == 0 || !priceable(cls))
      continue;
    models.insert(cls.like.devices[0].type);
    ground.gpu_milli += std::int64_t{cls.present} * cls.whole.devices * kPackDeviceMilli;
    ground.cpu_milli += std::int64_t{cls.present} * cls.whole.milli;
  }
  ground.models.assign(models.begin(), models.end());
  if (ground.models.size() > kPackModelsMax)
    ground.models.resize(kPackModelsMax);
  return ground;
}

}  // namespace

// Works out which classes can be priced, and forgets all prices when what they depend on is different.
void PackView::look_at_classes(PlannerView& view) {
  PackGround ground = ground_of(view.classes());
  if (ground != ground_) {
    ground_ = std::move(ground);
    prices_.reset();
    all_touched_ = true;
  }
  kinds_.clear();
  for (const AlikeNodes& cls : view.classes()) {
    std::int16_t kind = priceable(cls) ? kNoDevices : kUnpriced;
    if (kind == kNoDevices && cls.whole.devices > 0) {
      const auto at = std::lower_bound(ground_.models.begin(), ground_.models.end(), cls.like.devices[0].type);
      kind = at != ground_.models.end() && *at == cls.like.devices[0].type
                 ? static_cast<std::int16_t>(at - ground_.models.begin())
                 : kUnpriced;
    }
    kinds_.push_back(kind);
  }
}

void PackView::refresh(PlannerView& view) {
  if (generation_ != view.generation || layout_ != view.layout) {
    all_touched_ = all_touched_ || laid_out_ != view.laid_out();
    generation_ = view.generation;
    layout_ = view.layout;
    laid_out_ = view.laid_out();
    look_at_classes(view);
  }
  spot_of_node_.resize(view.nodes().size(), kNoSpot);
  if (all_touched_) {
    all_touched_ = false;
    touched_.clear();
    spot_of_node_.assign(view.nodes().size(), kNoSpot);
    by_class_.assign(view.classes().size(), {});
    spot_at_.clear();
    spots_.clear();
    free_spots_.clear();
    for (std::uint32_t n = 0; n < spot_of_node_.size(); ++n) look_at(view, n);
    return;
  }
  by_class_.resize(view.classes().size());
  for (const NodeId id : touched_) look_at(view, id.value);
  touched_.clear();
}

void PackView::look_at(PlannerView& view, std::uint32_t node) {
  const NodeSlot& slot = view.nodes()[node];
  if (!slot.node || !slot.listed || kinds_[slot.cls] == kUnpriced) {
    leave(node);
    return;
  }
  const PackRoom room = room_of(view.classes()[slot.cls], slot, kinds_[slot.cls]);
  if (const std::uint32_t at = spot_of_node_[node];
      at != kNoSpot && spots_[at].cls == slot.cls && spots_[at].room == room)
    return;
  leave(node);
  join({slot.place, node}, slot.cls, room);
}

void PackView::leave(std::uint32_t node) {
  const std::uint32_t at = spot_of_node_[node];
  if (at == kNoSpot)
    return;
  spot_of_node_[node] = kNoSpot;
  Spot& spot = spots_[at];
  spot.nodes.erase({place_of_node_[node], node});
  if (!spot.nodes.empty())
    return;
  spot_at_.erase({spot.cls, spot.room});
  std::erase(by_class_[spot.cls], at);
  free_spots_.push_back(at);
}

void PackView::join(Member member, ClassNo cls, const PackRoom& room) {
  const auto [it, fresh] = spot_at_.try_emplace({cls, room});
  if (fresh) {
    if (free_spots_.empty()) {
      it->second = static_cast<std::uint32_t>(spots_.size());
      spots_.emplace_back();
    } else {
      it->second = free_spots_.back();
      free_spots_.pop_back();
    }
    Spot& spot = spots_[it->second];
    spot.cls = cls;
    spot.room = room;
    spot.stamp = 0;
    spot.free.devices = static_cast<std::uint32_t>(
        std::count(room.free_milli.begin(), room.free_milli.begin() + room.devices, std::uint16_t{kPackDeviceMilli}));
    spot.free.milli = static_cast<std::uint32_t>(room.cpu_milli);
    by_class_[cls].push_back(it->second);
  }
  spots_[it->second].nodes.insert(member);
  spot_of_node_[member.node] = it->second;
  if (place_of_node_.size() <= member.node)
    place_of_node_.resize(spot_of_node_.size());
  place_of_node_[member.node] = member.place;
}

// --- prices ---

bool PackView::ready(PlannerView& view) {
  // One class alone is packed as well without.
  if (!record_ || record_->classes.size() < 2)
    return false;
  refresh(view);
  if (prices_)
    return !ground_.models.empty();
  prices_ = make_prices(settings_, *record_, ground_);
  known_.clear();
  for (Spot& spot : spots_) spot.stamp = 0;
  return !ground_.models.empty();
}

bool PackView::priced(const ClassNeed& need) const { return need.priced && kinds_[need.cls] != kUnpriced; }

bool PackView::may_have_room(PlannerView& view, const Way& way) {
  refresh(view);
  return std::all_of(way.groups.begin(), way.groups.end(), [&](const GroupWay& group) {
    return std::any_of(group.needs.begin(), group.needs.end(), [&](const ClassNeed& need) {
      return !priced(need) || std::any_of(by_class_[need.cls].begin(), by_class_[need.cls].end(), [&](std::uint32_t s) {
        return fits_in(spots_[s].room, spots_[s].free, need.pack);
      });
    });
  });
}

const PackCost& PackView::cost(std::uint32_t number, const PackShape& shape, std::vector<Known>& known) {
  Spot& spot = spots_[number];
  if (spot.stamp == 0) {
    spot.stamp = ++stamp_;
    spot.sum = prices_->sum_of(spot.room);
    spot.value = PackPrices::least(spot.sum);
  }
  if (number >= known.size())
    known.resize(spots_.size());
  Known& entry = known[number];
  if (entry.stamp != spot.stamp)
    entry = {spot.stamp, prices_->cost(spot.sum, spot.value, spot.room, shape)};
  return entry.cost;
}

PackSearch::PackSearch(PlannerView& view, std::span<const ClassNeed> needs) {
  PackView& pack = view.packing();
  for (const ClassNeed& need : needs) {
    const AlikeNodes& cls = view.classes()[need.cls];
    std::vector<PackView::Known>& known = pack.known_of(need.pack);
    for (const std::uint32_t number : pack.by_class_[need.cls]) {
      const PackView::Spot& spot = pack.spots_[number];
      if (!fits_in(spot.room, spot.free, need.pack))
        continue;
      const PackCost& cost = pack.cost(number, need.pack, known);
      heap_.push_back({.weight = cls.like.weight,
                       .cost = cost.milli,
                       .at = spot.nodes.begin(),
                       .end = spot.nodes.end(),
                       .need = &need,
                       .from = cost.from});
    }
  }
  std::make_heap(heap_.begin(), heap_.end(), later);
}

std::optional<PackSearch::Found> PackSearch::next() {
  if (heap_.empty())
    return std::nullopt;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  Entry& entry = heap_.back();
  const Found found{NodeId{entry.at->node}, entry.need, entry.from};
  if (++entry.at == entry.end)
    heap_.pop_back();
  else
    std::push_heap(heap_.begin(), heap_.end(), later);
  return found;
}

}  // namespace lockstep
