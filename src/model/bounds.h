// Bounds of what the cluster takes in, stated once: the doors refuse what is beyond them, and the core refuses it
// again.
#pragma once

#include <cstddef>

namespace lockstep {

inline constexpr std::size_t kRecordBytesMax = 4 << 20;  // one record as it is stored; may span log entries

}  // namespace lockstep
