// Trackable resources: the amounts that limits, quotas, billing and past use are counted in.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct NamedCount {
  std::string name;
  std::int64_t count = 0;
  friend auto operator<=>(const NamedCount&, const NamedCount&) = default;
};

// Amounts of each. What has no field of its own goes by name in `others`, sorted, without zeros: "gres/gpu:h100",
// "gres/nic", "license/matlab".
struct Tres {
  std::int64_t cpu = 0;
  std::int64_t memory_mb = 0;
  std::int64_t nodes = 0;
  std::int64_t gpus = 0;     // of any type
  std::int64_t billing = 0;  // by the partition's billing weights
  std::vector<NamedCount> others;
  friend bool operator==(const Tres&, const Tres&) = default;
};

inline constexpr std::int64_t kNoLimit = -1;

// A bound on each amount; kNoLimit, or absent from `others`, bounds nothing. `others` is sorted by name.
struct TresLimit {
  std::int64_t cpu = kNoLimit;
  std::int64_t memory_mb = kNoLimit;
  std::int64_t nodes = kNoLimit;
  std::int64_t gpus = kNoLimit;
  std::int64_t billing = kNoLimit;
  std::vector<NamedCount> others;
  friend bool operator==(const TresLimit&, const TresLimit&) = default;
};

// How much one unit counts, in thousandths: {"cpu",1000}, {"gres/gpu",2500}, {"mem",250} (per GB).
struct TresWeight {
  std::string name;
  std::int64_t milli = 0;
  friend auto operator<=>(const TresWeight&, const TresWeight&) = default;
};

}  // namespace lockstep
