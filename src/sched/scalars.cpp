#include "sched/scalars.h"

#include <algorithm>

#include "sched/view.h"

namespace lockstep {

void ScalarCalendar::begin(Instant now) {
  grid_ = TimeGrid(now);
  names_.clear();
  free_.clear();
}

ScalarCalendar::Pool ScalarCalendar::pool(const std::string& name, std::int64_t capacity) {
  const auto [it, fresh] = names_.try_emplace(name, static_cast<Pool>(free_.size()));
  if (fresh)
    free_.emplace_back(TimeGrid::columns(), capacity);
  return it->second;
}

void ScalarCalendar::hold(Pool pool, std::int64_t amount, Instant until) {
  // What should be over already is expected at any moment, but is not there yet.
  const Column to = until == kNever ? TimeGrid::columns() : std::max<Column>(1, grid_.at_or_after(minute_after(until)));
  take(pool, amount, 0, to);
}

void ScalarCalendar::take(Pool pool, std::int64_t amount, Column from, Column to) {
  std::vector<std::int64_t>& free = free_[pool];
  for (Column c = from; c < std::min<Column>(to, TimeGrid::columns()); ++c) free[c] -= amount;
}

Column ScalarCalendar::earliest(std::span<const Part> parts, Column from, std::uint32_t minutes) const {
  for (Column known = from; from < TimeGrid::columns();) {
    const Column to = std::min(grid_.end_of(from, minutes), TimeGrid::columns());
    Column misfit = kNoColumn;
    for (const Part& part : parts)
      for (Column c = to; c > std::max(from, known) && (misfit == kNoColumn || c > misfit + 1); --c)
        if (free_[part.pool][c - 1] < part.amount) {
          misfit = c - 1;
          break;
        }
    if (misfit == kNoColumn)
      return from;
    known = std::max(known, to);
    from = misfit + 1;
  }
  return kNoColumn;
}

void ScalarCalendar::book(std::span<const Part> parts, Column from, Column to) {
  for (const Part& part : parts) take(part.pool, part.amount, from, to);
}

}  // namespace lockstep
