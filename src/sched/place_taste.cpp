// Placing one task where it would rather be: pods are spread over nodes, near or far from others, by what they prefer.
// What every node offers is brought to one scale, so that each kind of preference counts by its weight.
#include <algorithm>

#include "sched/place_inner.h"

namespace lockstep {

namespace {

constexpr std::size_t kFreestLook = 128;   // nodes of each class and number of free devices, where only room decides
constexpr std::size_t kTasteLook = 4096;   // where something else does
constexpr std::int64_t kFull = 100;        // the best of a kind
constexpr std::int64_t kDevicesIdle = 60;  // what a node with devices is worse for who needs none

struct Seat {
  Choice choice;
  Seating::Taste taste;
  std::int64_t room = 0;  // 0 to kFull: how much of it is left, with the task there
  bool devices_idle = false;
  std::int64_t score = 0;
};

std::int64_t share_left(std::int64_t left, std::int64_t all) {
  return all > 0 ? std::max<std::int64_t>(0, left) * kFull / all : 0;
}

std::int64_t room_with(const AlikeNodes& cls, const FreeAmounts& free, const FreeAmounts& need) {
  return (share_left(std::int64_t{free.milli} - need.milli, cls.whole.milli) +
          share_left(free.memory_mb - need.memory_mb, cls.whole.memory_mb)) /
         2;
}

std::vector<Seat> gather_seats(Board& board, const GroupTask& task) {
  const bool looks_far = board.seating && board.seating->prefers();
  std::vector<Seat> out;
  for (const ClassNeed& need : task.way.needs) {
    const AlikeNodes& cls = board.view.classes()[need.cls];
    for (const NodeIndex* index : {&cls.open, &cls.shaded})
      index->each_of_the_freest(need.amounts, looks_far ? kTasteLook : kFreestLook, [&](NodeId id) {
        const auto choice = choice_of(board, task.group, task.way, task.partition, need, id);
        if (!choice)
          return false;
        Seat seat{.choice = *choice, .room = room_with(cls, choice->free, need.amounts)};
        if (!task.group.spread)
          seat.room = kFull - seat.room;
        seat.devices_idle = cls.whole.devices > 0 && need.amounts.devices == 0;
        if (board.seating)
          seat.taste = board.seating->taste(*choice->candidate.node);
        out.push_back(std::move(seat));
        return true;
      });
  }
  return out;
}

// From the least to the most there is among them.
template <class Value>
std::pair<std::int64_t, std::int64_t> range_of(const std::vector<Seat>& seats, Value value) {
  std::pair<std::int64_t, std::int64_t> out{INT64_MAX, INT64_MIN};
  for (const Seat& seat : seats) {
    out.first = std::min(out.first, value(seat));
    out.second = std::max(out.second, value(seat));
  }
  return out;
}

template <class Value>
void add_scores(std::vector<Seat>& seats, std::int64_t weight, Value value) {
  const auto [least, most] = range_of(seats, value);
  if (least == most)
    return;
  for (Seat& seat : seats) seat.score += weight * ((value(seat) - least) * kFull / (most - least));
}

}  // namespace

bool by_taste(const Board& board, const GroupTask& task) {
  const bool prefers = board.seating && board.seating->prefers();
  return task.listed && board.alone && task.way.even && task.way.nodes == 1 && (task.group.spread || prefers);
}

Grants place_by_taste(Board& board, const GroupTask& task) {
  std::vector<Seat> seats = gather_seats(board, task);
  add_scores(seats, 2, [](const Seat& seat) { return seat.taste.company; });
  add_scores(seats, 2, [](const Seat& seat) { return -seat.taste.crowd; });
  add_scores(seats, 2, [](const Seat& seat) { return seat.taste.wishes; });
  add_scores(seats, 3, [](const Seat& seat) { return -seat.taste.put_off; });
  for (Seat& seat : seats) seat.score += seat.room - (seat.devices_idle ? kDevicesIdle : 0);
  std::sort(seats.begin(), seats.end(), [](const Seat& a, const Seat& b) {
    return std::tuple(a.choice.weight, -a.score, a.choice.place, a.choice.candidate.node->id) <
           std::tuple(b.choice.weight, -b.score, b.choice.place, b.choice.candidate.node->id);
  });
  for (const Seat& seat : seats)
    if (Grants grants = place_group({seat.choice.candidate}, task.group, task.number))
      return grants;
  return std::nullopt;
}

}  // namespace lockstep
