// The cost of a place, and when prices move.
#include "sched/packing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {

Packer::Packer(const PackSettings& settings, PackMixSource source, PackMix mix, std::size_t kinds,
               std::int64_t gpu_milli, std::int64_t cpu_milli)
    : settings_(settings),
      source_(source),
      mix_(std::move(mix)),
      prices_(settings.prices, kinds, gpu_milli, cpu_milli) {}

// A told mix settles at once. A learnt one is followed closely while it is still vague, then as often as a told one.
int Packer::steps_due() const {
  const auto n = static_cast<double>(arrivals_);
  const double settle = source_ == PackMixSource::kTold ? 1 : 1 - std::exp(-n / 200);
  const double wanted = settle * settings_.settle_steps + n / settings_.arrivals_per_step;
  return static_cast<int>(wanted - static_cast<double>(prices_.steps()));
}

bool Packer::arrives(const PackShape& shape, std::span<const PackRoom> rooms) {
  if (source_ == PackMixSource::kLearnt)
    mix_.add(shape);
  ++arrivals_;
  const int due = steps_due();
  for (int i = 0; i < due; ++i) prices_.step(mix_, rooms);
  return due > 0;
}

PackCost Packer::cost(const PackRoom& room, float value, const PackShape& shape) const {
  float least = std::numeric_limits<float>::max();
  int device = -1;
  const auto look = [&](int d) {
    PackRoom after = room;
    take(after, shape, d);
    const float cost = value - prices_.value(after);
    if (cost < least) {
      least = cost;
      device = d;
    }
  };
  if (shape.devices != 1) {
    look(-1);
  } else {
    for (int d = 0; d < room.devices; ++d) {
      const auto end = room.free_milli.begin() + d;
      if (room.free_milli[d] >= shape.milli && std::find(room.free_milli.begin(), end, room.free_milli[d]) == end)
        look(d);
    }
  }
  return {std::llround(least), static_cast<std::int8_t>(device)};
}

}  // namespace lockstep
