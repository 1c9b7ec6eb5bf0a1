// What a job waits for before it may start.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "model/ids.h"

namespace lockstep {

struct Dependency {
  enum class Type : unsigned char {
    kAfter,
    kAfterAny,
    kAfterOk,
    kAfterNotOk,
    kAfterCorr,
    kSingleton
  } type = Type::kAfterAny;
  JobId job;                             // 0 for kSingleton
  Duration delay;                        // kAfter: this long after the start
  std::optional<std::uint32_t> element;  // of the array `job`; unset = all of it
  bool failed = false;  // accounting says how `job`, which is listed no more, ended: this can never hold
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

}  // namespace lockstep
