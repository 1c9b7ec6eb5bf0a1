// What a record of packing may hold: bounds that the planner keeps and the core checks.
#pragma once

#include "base/result.h"
#include "model/records.h"

namespace lockstep {

inline constexpr std::size_t kPackClassesMax = 512;
inline constexpr std::size_t kPackModelsMax = 64;                // device models told apart
inline constexpr std::uint8_t kPackedDevicesMax = 16;            // of one node
inline constexpr std::int64_t kPackOne = std::int64_t{1} << 20;  // the unit of weights and prices
inline constexpr std::int64_t kPackWeightMax = std::int64_t{1} << 44;
inline constexpr std::int64_t kPackPriceMax = std::int64_t{1} << 40;

// Whether `next` may follow `last` (null: there was none) when the last job has the id `newest`.
Result<void> check_packing(const Packing& next, const Packing* last, JobId newest);

}  // namespace lockstep
