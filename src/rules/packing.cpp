#include "rules/packing.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/text.h"
#include "model/resources.h"

namespace lockstep {

namespace {

using Key = std::tuple<std::int64_t, std::uint8_t, std::uint16_t, const std::vector<std::string>&>;

bool within(std::int64_t value, std::int64_t most) { return value >= 0 && value <= most; }

Result<void> check_class(const PackingClass& c) {
  if (c.devices == 0 || c.devices > kPackedDevicesMax)
    return invalid(format("a class of {} devices", int{c.devices}), "classes.devices");
  if (c.milli == 0 || c.milli > kWholeDevice || (c.devices > 1 && c.milli != kWholeDevice))
    return invalid(format("a class with {} thousandths of a device", c.milli), "classes.milli");
  if (!within(c.cpu_milli, std::int64_t{1000} * CoreSet::kCapacity))
    return invalid(format("a class of {} thousandths of a core", c.cpu_milli), "classes.cpu_milli");
  if (!within(c.weight, kPackWeightMax))
    return invalid(format("a class of weight {}", c.weight), "classes.weight");
  if (!within(c.price, kPackPriceMax))
    return invalid(format("a class at the price {}", c.price), "classes.price");
  if (c.models.size() > kPackModelsMax ||
      std::adjacent_find(c.models.begin(), c.models.end(), std::greater_equal<>{}) != c.models.end())
    return invalid("models are distinct and sorted", "classes.models");
  return {};
}

}  // namespace

Result<void> check_packing(const Packing& next, const Packing* last, JobId newest) {
  const Packing none;
  const Packing& before = last ? *last : none;
  if (next.through < before.through || next.through > newest)
    return invalid(format("counts jobs up to {}; the last one is {}", next.through.value, newest.value), "through");
  if (next.arrivals < before.arrivals || next.steps < before.steps)
    return invalid("arrivals and steps only grow", "arrivals");
  if (next.classes.size() > kPackClassesMax)
    return invalid(format("{} classes; at most {}", next.classes.size(), kPackClassesMax), "classes");
  std::set<Key> known;
  for (const PackingClass& c : next.classes) {
    TRY(check_class(c));
    if (!known.insert(Key(c.cpu_milli, c.devices, c.milli, c.models)).second)
      return invalid("two classes ask for the same", "classes");
  }
  return {};
}

}  // namespace lockstep
