// StoredRoom: how much all users together may store with the controller: a fixed most, and never more than a third of
// what the disk under the log would have free without it: a snapshot of all of it fits beside the log, and so do
// accounting and everybody else's files.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

struct StoredRoom {
  std::uint64_t stored = 0;     // bytes, of all users
  std::uint64_t most = 0;       // bytes
  std::uint64_t disk_free = 0;  // bytes

  // An eighth is kept for steps of what runs.
  enum class For : unsigned char { kNewWork, kWhatRuns };

  std::uint64_t bound() const { return std::min(most, stored / 3 + disk_free / 3); }
  std::uint64_t left(For what) const {
    const std::uint64_t up_to = what == For::kWhatRuns ? bound() : bound() - bound() / 8;
    return up_to - std::min(up_to, stored);
  }
  // Worth telling an administrator: less than a quarter is left.
  bool is_short() const { return stored > bound() - bound() / 4; }
};

}  // namespace lockstep
