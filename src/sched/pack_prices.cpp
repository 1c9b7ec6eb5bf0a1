// Tables of values by dynamic programming, and the step of the prices.
#include "sched/pack_prices.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace lockstep {
namespace {

// Core prices from 1/60 to 6 times the cluster's GPU share per core.
constexpr double kCorePriceLow = 1.0 / 60, kCorePriceRatio = 1.3;
constexpr float kNoValue = -1e9f;     // of what cannot be offered: less than any value that can
constexpr float kNegligible = 1e-7f;  // a weight below this is not passed on

int units_of(std::int64_t milli, int unit) { return static_cast<int>(milli / unit); }

}  // namespace

PackPrices::PackPrices(const PackPriceSettings& settings, std::size_t kinds, std::int64_t gpu_milli,
                       std::int64_t cpu_milli, std::span<const PackClass> classes, std::uint64_t steps)
    : settings_(settings), kinds_(kinds), steps_(steps) {
  CHECK(kinds <= kPackKindsMax);
  double price =
      cpu_milli > 0 ? kCorePriceLow * static_cast<double>(gpu_milli) / (static_cast<double>(cpu_milli) / 1000) : 1;
  for (int j = 1; j < kGrid; ++j, price *= kCorePriceRatio) core_price_[j] = static_cast<float>(price);
  devices_.resize(kinds * (kUnits + 1));
  idle_.resize(kinds * (kPackDevicesMax + 1));
  double total = 0;
  for (const PackClass& c : classes) total += c.weight;
  for (std::uint32_t i = 0; i < classes.size(); ++i) {
    const PackShape& shape = classes[i].shape;
    CHECK(shape.devices > 0);
    classes_.push_back({.shape = shape,
                        .share = classes[i].weight / total,
                        .price = classes[i].price > 0 ? classes[i].price : static_cast<double>(shape.gpu_milli()),
                        .cores = static_cast<float>(shape.cpu_milli) / 1000});
    if (shape.devices > 1) {
      gangs_.push_back(i);
      continue;
    }
    // Rounded to the nearest unit, so that three thirds still make a whole.
    const int units = std::max(1, units_of(shape.milli + kUnit / 2, kUnit));
    auto size = std::find_if(sizes_.begin(), sizes_.end(), [&](const Size& s) { return s.units == units; });
    if (size == sizes_.end())
      size = sizes_.insert(sizes_.end(), Size{units, {}});
    size->classes.push_back(i);
  }
  best_.resize(kinds_ * sizes_.size());
  build_tables();
}

void PackPrices::build_tables() {
  for (std::size_t kind = 0; kind < kinds_; ++kind) {
    build_devices(kind);
    build_gangs(kind);
  }
}

void PackPrices::build_devices(std::size_t kind) {
  Row* const best = best_.data() + kind * sizes_.size();
  for (std::size_t z = 0; z < sizes_.size(); ++z) {
    best[z].fill(kNoValue);
    for (const std::uint32_t i : sizes_[z].classes) {
      const Priced& c = classes_[i];
      if (!c.shape.allows(static_cast<std::uint16_t>(kind)))
        continue;
      const float price = static_cast<float>(c.price);
      for (int j = 0; j < kGrid; ++j) best[z][j] = std::max(best[z][j], price - core_price_[j] * c.cores);
    }
  }
  Row* const rows = devices_.data() + kind * (kUnits + 1);
  rows[0].fill(0);
  for (int units = 1; units <= kUnits; ++units) {
    Row row = rows[units - 1];
    for (std::size_t z = 0; z < sizes_.size(); ++z) {
      if (sizes_[z].units > units)
        continue;
      const Row& rest = rows[units - sizes_[z].units];
      for (int j = 0; j < kGrid; ++j) row[j] = std::max(row[j], rest[j] + best[z][j]);
    }
    rows[units] = row;
  }
}

void PackPrices::build_gangs(std::size_t kind) {
  const Row& single = device_row(kind, kUnits);
  Row* const rows = idle_.data() + kind * (kPackDevicesMax + 1);
  rows[0].fill(0);
  for (int idle = 1; idle <= kPackDevicesMax; ++idle) {
    for (int j = 0; j < kGrid; ++j) rows[idle][j] = rows[idle - 1][j] + single[j];
    for (const std::uint32_t i : gangs_) {
      const Priced& c = classes_[i];
      if (!offers(c, kind, idle))
        continue;
      const Row& rest = rows[idle - c.shape.devices];
      for (int j = 0; j < kGrid; ++j) rows[idle][j] = std::max(rows[idle][j], rest[j] + worth(c, j));
    }
  }
}

PackPrices::Row PackPrices::sum_of(const PackRoom& room) const {
  Row sum{};
  if (room.devices == 0)
    return sum;
  CHECK(room.kind < kinds_);
  const float cores = static_cast<float>(room.cpu_milli) / 1000;
  for (int j = 0; j < kGrid; ++j) sum[j] = core_price_[j] * cores;
  int idle = 0;
  for (int d = 0; d < room.devices; ++d) {
    if (room.free_milli[d] == kPackDeviceMilli) {
      ++idle;
    } else if (room.free_milli[d] >= kUnit) {
      const Row& row = device_row(room.kind, units_of(room.free_milli[d], kUnit));
      for (int j = 0; j < kGrid; ++j) sum[j] += row[j];
    }
  }
  if (idle > 0) {
    const Row& row = idle_row(room.kind, idle);
    for (int j = 0; j < kGrid; ++j) sum[j] += row[j];
  }
  return sum;
}

PackCost PackPrices::cost(const Row& sum, float value, const PackRoom& room, const PackShape& shape) const {
  if (room.devices == 0)
    return {};
  const float cores = static_cast<float>(shape.cpu_milli) / 1000;
  Row base;
  for (int j = 0; j < kGrid; ++j) base[j] = sum[j] - core_price_[j] * cores;
  const auto idle = static_cast<int>(
      std::count(room.free_milli.begin(), room.free_milli.begin() + room.devices, std::uint16_t{kPackDeviceMilli}));
  if (shape.devices == 0)
    return {std::llround(value - least(base)), 0};
  if (shape.devices > 1 || shape.milli == kPackDeviceMilli) {
    const Row &before = idle_row(room.kind, idle), &after = idle_row(room.kind, idle - shape.devices);
    for (int j = 0; j < kGrid; ++j) base[j] += after[j] - before[j];
    return {std::llround(value - least(base)), kPackDeviceMilli};
  }
  // A share: on each device that differs from the others, the tightest first.
  float best = 0;
  std::uint16_t from = 0;
  for (int d = room.devices - 1; d >= 0; --d) {
    const std::uint16_t free = room.free_milli[d];
    if (free < shape.milli || free == from || (d + 1 < room.devices && room.free_milli[d + 1] == free))
      continue;
    const Row& left = device_row(room.kind, units_of(free - shape.milli, kUnit));
    Row then;
    if (free == kPackDeviceMilli) {
      const Row &before = idle_row(room.kind, idle), &after = idle_row(room.kind, idle - 1);
      for (int j = 0; j < kGrid; ++j) then[j] = base[j] + (after[j] - before[j] + left[j]);
    } else {
      const Row& before = device_row(room.kind, units_of(free, kUnit));
      for (int j = 0; j < kGrid; ++j) then[j] = base[j] + (left[j] - before[j]);
    }
    if (const float after = least(then); from == 0 || after > best) {
      best = after;
      from = free;
    }
  }
  return {std::llround(value - best), from};
}

float PackPrices::least(const Row& sum) {
  std::array<float, 4> lanes;
  std::copy_n(sum.begin(), 4, lanes.begin());
  for (int j = 4; j < kGrid; j += 4)
    for (int l = 0; l < 4; ++l) lanes[l] = sum[j + l] < lanes[l] ? sum[j + l] : lanes[l];
  return std::min(std::min(lanes[0], lanes[1]), std::min(lanes[2], lanes[3]));
}

// Works out how much of each request the cluster would take at these prices: the weight of every room goes down through
// what is left when requests take their part of it.
void PackPrices::answer(std::span<const PackStock> rooms) {
  device_weight_.assign(devices_.size(), Row{});
  idle_weight_.assign(idle_.size(), Row{});
  for (const PackStock& stock : rooms) {
    const PackRoom& room = stock.room;
    if (room.devices == 0)
      continue;
    const Row sum = sum_of(room);
    const auto count = static_cast<float>(stock.count);
    const int at = static_cast<int>(std::min_element(sum.begin(), sum.end()) - sum.begin());
    // The filling at the best grid price may ask for more or fewer cores than there are: mix it with its neighbour's so
    // that it comes out even. The slope of the devices' part between two prices is the cores used there.
    int low = at, high = at;
    float high_part = 0;
    const float cores = static_cast<float>(room.cpu_milli) / 1000;
    if (at > 0 && at < kGrid - 1) {
      const auto used = [&](int j) { return cores - (sum[j + 1] - sum[j]) / (core_price_[j + 1] - core_price_[j]); };
      const float before = used(at - 1), after = used(at);
      if (before > after) {
        const float part = std::clamp((before - cores) / (before - after), 0.0f, 1.0f);
        low = part < 0.5f ? at - 1 : at;
        high = low + 1;
        high_part = part < 0.5f ? part + 0.5f : part - 0.5f;
      }
    }
    const auto add = [&](Row& row) {
      row[low] += count * (1 - high_part);
      row[high] += count * high_part;
    };
    int idle = 0;
    for (int d = 0; d < room.devices; ++d) {
      if (room.free_milli[d] == kPackDeviceMilli)
        ++idle;
      else if (room.free_milli[d] >= kUnit)
        add(device_weight_[room.kind * (kUnits + 1) + units_of(room.free_milli[d], kUnit)]);
    }
    if (idle > 0)
      add(idle_weight_[room.kind * (kPackDevicesMax + 1) + idle]);
  }
  for (Priced& c : classes_) c.used = 0;
  for (std::size_t kind = 0; kind < kinds_; ++kind)
    for (int j = 0; j < kGrid; ++j) {
      answer_gangs(kind, j);
      answer_devices(kind, j);
    }
}

void PackPrices::answer_gangs(std::size_t kind, int j) {
  Row* const weights = idle_weight_.data() + kind * (kPackDevicesMax + 1);
  float& singles = device_weight_[kind * (kUnits + 1) + kUnits][j];
  for (int idle = kPackDevicesMax; idle > 0; --idle) {
    const float weight = weights[idle][j];
    if (weight <= kNegligible)
      continue;
    // The smoothing is for one device: a price of a gang of eight that is off by 1 % is off by eight times as much.
    const float scale = 1 / static_cast<float>(settings_.smoothing_milli * idle), value = idle_row(kind, idle)[j];
    const auto odds = [&](const Priced& c) {
      return offers(c, kind, idle) ? std::exp(scale * (idle_row(kind, idle - c.shape.devices)[j] + worth(c, j) - value))
                                   : 0.0f;
    };
    const float single = std::exp(scale * (idle_row(kind, idle - 1)[j] + device_row(kind, kUnits)[j] - value));
    float sum = single;
    for (const std::uint32_t i : gangs_) sum += odds(classes_[i]);
    singles += weight * single / sum;
    weights[idle - 1][j] += weight * single / sum;
    for (const std::uint32_t i : gangs_) {
      const float part = weight * odds(classes_[i]) / sum;
      if (part > 0) {
        classes_[i].used += part;
        weights[idle - classes_[i].shape.devices][j] += part;
      }
    }
  }
}

// Passes the weight of partly free devices of a kind, at one price of cores, on to the sizes of shares.
void PackPrices::answer_devices(std::size_t kind, int j) {
  const float scale = 1 / static_cast<float>(settings_.smoothing_milli);
  Row* const weights = device_weight_.data() + kind * (kUnits + 1);
  const Row* const best = best_.data() + kind * sizes_.size();
  std::array<float, kUnits + 1> odds;  // of the sizes
  std::vector<float> chosen(sizes_.size(), 0.0f);
  bool any = false;
  for (int units = kUnits; units > 0; --units) {
    const float weight = weights[units][j];
    if (weight <= kNegligible)
      continue;
    any = true;
    const float value = device_row(kind, units)[j];
    const float leave = std::exp(scale * (device_row(kind, units - 1)[j] - value));
    float sum = leave;
    for (std::size_t z = 0; z < sizes_.size(); ++z) {
      odds[z] = 0;
      if (sizes_[z].units <= units) {
        const float less = scale * (device_row(kind, units - sizes_[z].units)[j] + best[z][j] - value);
        if (less > -15)
          odds[z] = std::exp(less);
      }
      sum += odds[z];
    }
    weights[units - 1][j] += weight * leave / sum;
    for (std::size_t z = 0; z < sizes_.size(); ++z)
      if (odds[z] > 0) {
        const float part = weight * odds[z] / sum;
        chosen[z] += part;
        weights[units - sizes_[z].units][j] += part;
      }
  }
  if (!any)
    return;
  for (std::size_t z = 0; z < sizes_.size(); ++z) {
    if (chosen[z] <= kNegligible)
      continue;
    const auto odds_of = [&](const Priced& c) {
      if (!c.shape.allows(static_cast<std::uint16_t>(kind)))
        return 0.0f;
      return std::exp(scale * (worth(c, j) - best[z][j]));
    };
    float sum = 0;
    for (const std::uint32_t i : sizes_[z].classes) sum += odds_of(classes_[i]);
    for (const std::uint32_t i : sizes_[z].classes) classes_[i].used += chosen[z] * odds_of(classes_[i]) / sum;
  }
}

void PackPrices::move_prices(double step) {
  double used = 0, asked = 0;
  for (const Priced& c : classes_) {
    used += c.used * static_cast<double>(c.shape.gpu_milli());
    asked += c.share * static_cast<double>(c.shape.gpu_milli());
  }
  if (used <= 0 || asked <= 0)
    return;
  served_ = used / asked;
  double sum = 0;
  for (Priced& c : classes_) {
    const double excess = std::min(c.used / (served_ * c.share) - 1, settings_.excess_max);
    c.price *= std::exp(-step * excess);
    sum += c.share * c.price;
  }
  for (Priced& c : classes_) {
    const auto own = static_cast<double>(c.shape.gpu_milli());
    c.price = std::clamp(c.price * asked / sum, 0.001 * own, settings_.price_max * own);
  }
}

void PackPrices::step(std::span<const PackStock> rooms, int steps) {
  if (classes_.empty())
    return;
  for (int i = 0; i < steps; ++i) {
    answer(rooms);
    move_prices(
        std::max(settings_.step_last, settings_.step_first / (1 + static_cast<double>(steps_) / settings_.step_decay)));
    ++steps_;
    build_tables();
  }
}

}  // namespace lockstep
