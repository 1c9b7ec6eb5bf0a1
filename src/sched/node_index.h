// NodeIndex: the nodes of one class by what is free on them, so that "how many have at least this much" is a look at a
// small table and the tightest of them are found without looking at the others.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "model/ids.h"

namespace lockstep {

struct FreeAmounts {
  std::uint32_t devices = 0, milli = 0;  // thousandths of cores
  std::int64_t memory_mb = 0;
  friend bool operator==(const FreeAmounts&, const FreeAmounts&) = default;
  bool covers(const FreeAmounts& need) const {
    return devices >= need.devices && milli >= need.milli && memory_mb >= need.memory_mb;
  }
};

// Where a node stands among those that are alike: neighbours by number are neighbours here, in whatever order they
// joined the cluster. Nodes with other names around their number stand elsewhere.
std::uint64_t place_of_name(std::string_view name);

class NodeIndex {
 public:
  // most: what a whole node of the class has.
  explicit NodeIndex(const FreeAmounts& most = {});

  // place: see place_of_name(); of equal ones the lower id comes first.
  void insert(NodeId id, const FreeAmounts& free, std::uint64_t place = 0);
  // CHECKs that it was there with these amounts.
  void erase(NodeId id, const FreeAmounts& free, std::uint64_t place = 0);
  std::size_t size() const { return keys_.size(); }

  // Never less than the number of nodes with at least `need` free; exact in devices alone.
  std::uint32_t at_least(const FreeAmounts& need) const;

  // The same, but at least `enough` only if so many nodes have it, or there are too many to look at. What was counted
  // is kept up to date from then on, so that whoever needs as much or more is answered by it.
  std::uint32_t count(const FreeAmounts& need, std::uint32_t enough) const;

  // f(NodeId) for every node with enough devices and cores, those with the least left first, equal ones by
  // place; until f returns false.
  template <class F>
  void each(const FreeAmounts& need, F&& f) const {
    each_entry(need, [&](NodeId id, std::int64_t) { return f(id); });
  }

  // f(NodeId) for nodes with enough devices and cores, those with the most cores first, of each number of free devices
  // until f has taken `most` of them, which it says.
  template <class F>
  void each_of_the_freest(const FreeAmounts& need, std::size_t most, F&& f) const {
    for (std::uint32_t devices = need.devices; devices <= most_.devices; ++devices) {
      if (by_devices_[devices] == 0)
        continue;
      auto it = keys_.upper_bound({devices, UINT32_MAX, UINT64_MAX, NodeId{UINT32_MAX}});
      for (std::size_t taken = 0; taken < most && it != keys_.begin();) {
        --it;
        if (it->first.devices != devices || it->first.milli < need.milli)
          break;
        taken += f(it->first.id) ? 1 : 0;
      }
    }
  }

 private:
  static constexpr std::uint32_t kLevels = 16;  // cores and memory are counted in sixteenths of a node
  static constexpr std::size_t kCountsMost = 32;
  static constexpr std::uint32_t kLookMost = 4096;  // nodes, to count those with enough memory
  struct Count {
    FreeAmounts need;
    std::uint32_t nodes = 0;
  };
  struct Key {
    std::uint32_t devices = 0, milli = 0;
    std::uint64_t place = 0;
    NodeId id;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  // As each(), f(NodeId, free memory).
  template <class F>
  void each_entry(const FreeAmounts& need, F&& f) const {
    for (std::uint32_t devices = need.devices; devices <= most_.devices; ++devices) {
      if (by_devices_[devices] == 0)
        continue;
      for (auto it = keys_.lower_bound({devices, need.milli, 0, NodeId{}}); it != keys_.end(); ++it) {
        if (it->first.devices != devices)
          break;
        if (!f(it->first.id, it->second))
          return;
      }
    }
  }
  std::uint32_t core_level(std::uint32_t milli) const;
  std::uint32_t memory_level(std::int64_t memory_mb) const;
  void add(const FreeAmounts& free, int by);
  std::uint32_t counted(const FreeAmounts& need) const;
  void keep(const Count& count) const;

  FreeAmounts most_;
  std::map<Key, std::int64_t> keys_;  // free memory
  std::vector<std::uint32_t> by_devices_;
  std::vector<std::uint32_t> table_;  // [devices][core level]
  std::vector<std::uint32_t> by_memory_;
  // Suffix sums of the two above, made when asked for.
  mutable std::vector<std::uint32_t> table_sums_, memory_sums_;
  mutable bool stale_ = true;
  mutable std::vector<Count> counts_;  // exact; those that answer often drift to the front
};

}  // namespace lockstep
