// Seats: where the members of a job's allocation are, and the parts of its steps. A report of one node must not look at
// all the others, or starting and ending a job costs the square of its nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/allocation.h"
#include "model/job_state.h"
#include "model/records.h"

namespace lockstep {

struct Job;

class Seats {
 public:
  // Of a job that has an allocation. before: the version that was counted last; null = none was.
  void count(const Job* before, const Job& now);

  // The node's grants, by their index in the allocation, ascending.
  struct Seat {
    NodeId node;
    std::uint32_t grant = 0;
    friend auto operator<=>(const Seat&, const Seat&) = default;
  };
  std::span<const Seat> on(NodeId node) const;
  // The part there of a step of this attempt, by its index among the step's places.
  std::optional<std::size_t> place_on(NodeId node, const Step& step) const;

  std::uint32_t assigned() const { return assigned_; }  // members that have not been reported as started
  std::uint32_t live() const { return live_; }          // members that are not stopped
  bool are_of(const Job& job) const;
  std::uint64_t looked_at() const { return looked_at_; }  // members, since the allocation: what tests of costs count

  friend bool operator==(const Seats& a, const Seats& b) {
    return a.allocation_ == b.allocation_ && a.by_node_ == b.by_node_ && a.assigned_ == b.assigned_ &&
           a.live_ == b.live_;
  }

 private:
  void add(MemberState member, std::uint32_t times);
  void count_all(const Job& job);

  Ref<Allocation> allocation_;
  std::vector<Seat> by_node_;  // ascending
  std::uint32_t assigned_ = 0, live_ = 0;
  std::uint64_t looked_at_ = 0;
};

// As quick as looking at bytes.
bool any_is(const std::vector<MemberState>& members, MemberState state);

}  // namespace lockstep
