#include "core/seats.h"

#include <algorithm>
#include <cstring>

#include "model/job.h"

namespace lockstep {

static_assert(sizeof(MemberState) == 1, "members are compared as bytes");

// times: 1, or its negative to take a member back; sums of unsigned numbers come out right all the same.
void Seats::add(MemberState member, std::uint32_t times) {
  assigned_ += member == MemberState::kAssigned ? times : 0;
  live_ += member != MemberState::kStopped ? times : 0;
  ++looked_at_;
}

void Seats::count_all(const Job& job) {
  allocation_ = job.allocation;
  by_node_.clear();
  by_node_.reserve(job.allocation->grants.size());
  for (const Grant& grant : job.allocation->grants)
    by_node_.push_back({grant.node, static_cast<std::uint32_t>(by_node_.size())});
  std::sort(by_node_.begin(), by_node_.end());
  assigned_ = live_ = 0;
  for (const MemberState member : job.members) add(member, 1);
}

bool Seats::are_of(const Job& job) const { return job.allocation == allocation_; }

void Seats::count(const Job* before, const Job& now) {
  if (!before || !are_of(now) || before->allocation != now.allocation || before->members.size() != now.members.size()) {
    count_all(now);
    return;
  }
  // Nearly all are as they were; whole blocks are passed over at once.
  constexpr std::size_t kBlock = 256;
  const std::vector<MemberState>& was = before->members;
  const std::vector<MemberState>& is = now.members;
  for (std::size_t from = 0; from < is.size(); from += kBlock) {
    const std::size_t to = std::min(is.size(), from + kBlock);
    if (std::memcmp(&was[from], &is[from], to - from) == 0)
      continue;
    for (std::size_t i = from; i < to; ++i)
      if (was[i] != is[i]) {
        add(was[i], UINT32_MAX);
        add(is[i], 1);
      }
  }
}

std::span<const Seats::Seat> Seats::on(NodeId node) const {
  const auto first = std::lower_bound(by_node_.begin(), by_node_.end(), Seat{node, 0});
  auto last = first;
  while (last != by_node_.end() && last->node == node) ++last;
  return {first, last};
}

std::optional<std::size_t> Seats::place_on(NodeId node, const Step& step) const {
  const std::vector<StepPlace>& places = step.places;
  for (const Seat& seat : on(node)) {
    const auto at = std::lower_bound(places.begin(), places.end(), seat.grant,
                                     [](const StepPlace& place, std::uint32_t grant) { return place.grant < grant; });
    if (at != places.end() && at->grant == seat.grant)
      return static_cast<std::size_t>(at - places.begin());
  }
  return std::nullopt;
}

bool any_is(const std::vector<MemberState>& members, MemberState state) {
  return !members.empty() && std::memchr(members.data(), static_cast<int>(state), members.size());
}

}  // namespace lockstep
