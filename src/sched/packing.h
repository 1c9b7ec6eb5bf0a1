// The packing score: where a request costs the others least. See pack_prices.h for what cost means; here is what a
// scheduler calls. It looks at the requests that came so far (or at a mix it is told) and at what is free now, never at
// what is to come.
#pragma once

#include <span>

#include "sched/pack_prices.h"

namespace lockstep {

struct PackSettings {
  PackPriceSettings prices;
  double half_life = 0;  // arrivals after which an arrival counts half in the learnt mix; 0: all count alike
  std::size_t classes_max = 512;
  int settle_steps = 1000;     // price steps before the first placement
  int arrivals_per_step = 16;  // and then
};

enum class PackMixSource : unsigned char { kTold, kLearnt };

struct PackCost {
  std::int64_t milli = 0;   // of GPU, in terms of average demand: less is better
  std::int8_t device = -1;  // the one to take, for shapes of one device
};

class Packer {
 public:
  // The totals are those of the whole cluster. A told mix stays as it is; a learnt one begins with `mix`.
  Packer(const PackSettings& settings, PackMixSource source, PackMix mix, std::size_t kinds, std::int64_t gpu_milli,
         std::int64_t cpu_milli);

  // Call for every arrival, before it is placed. True when prices moved, so that values and costs got earlier no longer
  // hold.
  bool arrives(const PackShape& shape, std::span<const PackRoom> rooms);

  float value(const PackRoom& room) const { return prices_.value(room); }
  // The shape must fit; `value` is that of the room.
  PackCost cost(const PackRoom& room, float value, const PackShape& shape) const;

  const PackPrices& prices() const { return prices_; }

 private:
  int steps_due() const;

  PackSettings settings_;
  PackMixSource source_;
  PackMix mix_;
  PackPrices prices_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace lockstep
