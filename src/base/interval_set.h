// A set of integers kept as sorted, disjoint, non-adjacent closed intervals: a 10-million-task array is one interval.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct Interval {
  std::uint32_t low = 0;
  std::uint32_t high = 0;  // included
  friend bool operator==(const Interval&, const Interval&) = default;
};

class IntervalSet {
 public:
  IntervalSet() = default;
  IntervalSet(std::uint32_t low, std::uint32_t high) { insert(low, high); }

  // "0-7", "1,3,5-9", "0-20:4" (every fourth). Refuses empty, descending and unparsable text.
  static Result<IntervalSet> parse(std::string_view text);

  void insert(std::uint32_t low, std::uint32_t high);
  void insert(std::uint32_t value) { insert(value, value); }
  void erase(std::uint32_t low, std::uint32_t high);
  void erase(std::uint32_t value) { erase(value, value); }
  bool contains(std::uint32_t value) const;
  bool empty() const { return parts_.empty(); }
  std::uint64_t size() const;   // how many integers
  std::uint32_t front() const;  // smallest; CHECKs non-empty
  std::uint32_t back() const;   // largest; CHECKs non-empty
  const std::vector<Interval>& intervals() const { return parts_; }
  std::string text() const;  // "1,3,5-9"
  friend bool operator==(const IntervalSet&, const IntervalSet&) = default;

 private:
  std::vector<Interval> parts_;
};

}  // namespace lockstep
