// How records are named that have no name or id of their own.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "model/ids.h"

namespace lockstep {

using StepKey = std::pair<JobId, StepNo>;
using ObjectKey = std::tuple<std::string, std::string, std::string>;  // type, ns, name

struct TaskKey {
  JobId job;
  std::uint16_t group = 0;
  std::uint32_t index = 0;
  friend auto operator<=>(const TaskKey&, const TaskKey&) = default;
};

}  // namespace lockstep
