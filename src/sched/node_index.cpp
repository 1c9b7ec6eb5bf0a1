#include "sched/node_index.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep {

std::uint64_t place_of_name(std::string_view name) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t to = name.size();
  while (to > 0 && !digit(name[to - 1])) --to;  // "n12", "n12-ib"
  std::size_t from = to;
  while (from > 0 && digit(name[from - 1])) --from;
  std::uint32_t around = 2166136261, number = 0;  // FNV-1a: in which order names come does not matter
  for (std::size_t i = 0; i < name.size(); ++i)
    if (i >= from && i < to)
      number = number * 10 + static_cast<std::uint32_t>(name[i] - '0');
    else
      around = (around ^ static_cast<unsigned char>(name[i])) * 16777619;
  return std::uint64_t{around} << 32 | number;
}

NodeIndex::NodeIndex(const FreeAmounts& most)
    : most_(most), by_devices_(most.devices + 1), table_((most.devices + 1) * (kLevels + 1)), by_memory_(kLevels + 1) {}

// The lowest level is of those without any, so that they are not counted for who needs some.
std::uint32_t NodeIndex::core_level(std::uint32_t milli) const {
  if (most_.milli == 0 || milli == 0)
    return 0;
  return std::min<std::uint32_t>(kLevels,
                                 1 + static_cast<std::uint32_t>(std::uint64_t{milli} * (kLevels - 1) / most_.milli));
}

std::uint32_t NodeIndex::memory_level(std::int64_t memory_mb) const {
  if (most_.memory_mb <= 0 || memory_mb >= most_.memory_mb)
    return kLevels;
  return static_cast<std::uint32_t>(std::max<std::int64_t>(0, memory_mb) * kLevels / most_.memory_mb);
}

void NodeIndex::add(const FreeAmounts& free, int by) {
  const auto change = static_cast<std::uint32_t>(by);
  by_devices_[free.devices] += change;
  table_[free.devices * (kLevels + 1) + core_level(free.milli)] += change;
  by_memory_[memory_level(free.memory_mb)] += change;
  stale_ = true;
  for (Count& c : counts_)
    if (free.covers(c.need))
      c.nodes += change;
}

void NodeIndex::insert(NodeId id, const FreeAmounts& free, std::uint64_t place) {
  CHECK(free.devices <= most_.devices);
  CHECK(keys_.emplace(Key{free.devices, free.milli, place, id}, free.memory_mb).second);
  add(free, 1);
}

void NodeIndex::erase(NodeId id, const FreeAmounts& free, std::uint64_t place) {
  const auto at = keys_.find({free.devices, free.milli, place, id});
  CHECK(at != keys_.end() && at->second == free.memory_mb);
  keys_.erase(at);
  add(free, -1);
}

std::uint32_t NodeIndex::at_least(const FreeAmounts& need) const {
  if (need.devices > most_.devices || need.milli > most_.milli || need.memory_mb > most_.memory_mb)
    return 0;
  if (stale_) {
    stale_ = false;
    table_sums_ = table_;
    memory_sums_ = by_memory_;
    const std::uint32_t width = kLevels + 1;
    for (std::uint32_t d = most_.devices + 1; d-- > 0;)
      for (std::uint32_t l = width; l-- > 0;) {
        std::uint32_t& sum = table_sums_[d * width + l];
        const bool up = d < most_.devices, right = l + 1 < width;
        if (up)
          sum += table_sums_[(d + 1) * width + l];
        if (right)
          sum += table_sums_[d * width + l + 1];
        if (up && right)
          sum -= table_sums_[(d + 1) * width + l + 1];
      }
    for (std::uint32_t l = kLevels; l-- > 0;) memory_sums_[l] += memory_sums_[l + 1];
  }
  return std::min(table_sums_[need.devices * (kLevels + 1) + core_level(need.milli)],
                  memory_sums_[memory_level(need.memory_mb)]);
}

// The least of the counts for needs that this one covers.
std::uint32_t NodeIndex::counted(const FreeAmounts& need) const {
  std::uint32_t least = UINT32_MAX;
  for (std::size_t i = 0; i < counts_.size() && least > 0; ++i) {
    if (counts_[i].nodes >= least || !need.covers(counts_[i].need))
      continue;
    least = counts_[i].nodes;
    if (i > 0)
      std::swap(counts_[i], counts_[i / 2]);
  }
  return least;
}

void NodeIndex::keep(const Count& count) const {
  std::erase_if(counts_, [&](const Count& c) { return c.need.covers(count.need) && c.nodes >= count.nodes; });
  if (counts_.size() == kCountsMost)
    counts_.pop_back();
  counts_.push_back(count);
}

std::uint32_t NodeIndex::count(const FreeAmounts& need, std::uint32_t enough) const {
  const std::uint32_t bound = std::min(at_least(need), counted(need));
  if (bound == 0 || bound < enough)
    return bound;
  std::uint32_t found = 0, looked = 0;
  bool all = true;
  each_entry(need, [&](NodeId, std::int64_t memory_mb) {
    found += memory_mb >= need.memory_mb;
    return all = found < enough && ++looked <= kLookMost;
  });
  if (!all)
    return bound;
  keep({need, found});
  return found;
}

}  // namespace lockstep
