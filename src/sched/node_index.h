// NodeIndex: the nodes of one class by what is free on them, so that "how many have at least this much" is a look at a
// small table and the tightest of them are found without looking at the others.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "model/ids.h"

namespace lockstep {

struct FreeAmounts {
  std::uint32_t devices = 0, cores = 0;
  std::int64_t memory_mb = 0;
  friend bool operator==(const FreeAmounts&, const FreeAmounts&) = default;
  bool covers(const FreeAmounts& need) const {
    return devices >= need.devices && cores >= need.cores && memory_mb >= need.memory_mb;
  }
};

class NodeIndex {
 public:
  // most: what a whole node of the class has.
  explicit NodeIndex(const FreeAmounts& most = {});

  void insert(NodeId id, const FreeAmounts& free);
  void erase(NodeId id, const FreeAmounts& free);  // CHECKs that it was there with these amounts
  std::size_t size() const { return keys_.size(); }

  // Never less than the number of nodes with at least `need` free; exact in devices alone.
  std::uint32_t at_least(const FreeAmounts& need) const;

  // The same, but at least `enough` only if so many nodes have it, or there are too many to look at. What was counted
  // is kept up to date from then on, so that whoever needs as much or more is answered by it.
  std::uint32_t count(const FreeAmounts& need, std::uint32_t enough) const;

  // f(NodeId) for every node with enough devices and cores, those with the least left first; until f returns false.
  template <class F>
  void each(const FreeAmounts& need, F&& f) const {
    each_entry(need, [&](NodeId id, std::int64_t) { return f(id); });
  }

 private:
  static constexpr std::uint32_t kLevels = 16;  // cores and memory are counted in sixteenths of a node
  static constexpr std::size_t kCountsMost = 32;
  static constexpr std::uint32_t kLookMost = 4096;  // nodes, to count those with enough memory
  struct Count {
    FreeAmounts need;
    std::uint32_t nodes = 0;
  };
  static std::uint64_t key(NodeId id, std::uint32_t devices, std::uint32_t cores) {
    return std::uint64_t{devices} << 48 | std::uint64_t{cores} << 32 | id.value;
  }
  // As each(), f(NodeId, free memory).
  template <class F>
  void each_entry(const FreeAmounts& need, F&& f) const {
    for (std::uint32_t devices = need.devices; devices <= most_.devices; ++devices) {
      if (by_devices_[devices] == 0)
        continue;
      for (auto it = keys_.lower_bound(key(NodeId{}, devices, need.cores)); it != keys_.end(); ++it) {
        if (it->first >> 48 != devices)
          break;
        if (!f(NodeId{static_cast<std::uint32_t>(it->first)}, it->second))
          return;
      }
    }
  }
  std::uint32_t core_level(std::uint32_t cores) const;
  std::uint32_t memory_level(std::int64_t memory_mb) const;
  void add(const FreeAmounts& free, int by);
  std::uint32_t counted(const FreeAmounts& need) const;
  void keep(const Count& count) const;

  FreeAmounts most_;
  std::map<std::uint64_t, std::int64_t> keys_;  // devices, cores, node; free memory
  std::vector<std::uint32_t> by_devices_;
  std::vector<std::uint32_t> table_;  // [devices][core level]
  std::vector<std::uint32_t> by_memory_;
  // Suffix sums of the two above, made when asked for.
  mutable std::vector<std::uint32_t> table_sums_, memory_sums_;
  mutable bool stale_ = true;
  mutable std::vector<Count> counts_;  // exact; those that answer often drift to the front
};

}  // namespace lockstep
