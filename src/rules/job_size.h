// How large a job is beside the whole cluster, in the unit in which its width counts for the order (rules/order.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/records.h"
#include "rules/tres.h"

namespace lockstep {

struct JobSize {
  bool devices = false;  // GPUs; else cores
  std::int64_t count = 1;
};

inline JobSize size_of(const JobSpec& spec) {
  const Tres tres = least_tres(spec);
  if (tres.gpus > 0)
    return {true, tres.gpus};
  return {false, std::max<std::int64_t>(1, tres.cpu)};
}

// Of the whole cluster in that unit, at least 1.
inline std::int64_t capacity_for(const JobSize& size, const Tres& cluster) {
  return std::max<std::int64_t>(1, size.devices ? cluster.gpus : cluster.cpu);
}

}  // namespace lockstep
