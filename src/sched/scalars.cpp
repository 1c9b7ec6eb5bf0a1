#include "sched/scalars.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "sched/view.h"

namespace lockstep {

void ScalarCalendar::begin(Instant now) {
  grid_ = TimeGrid(now);
  ++begins_;
}

void ScalarCalendar::forget() {
  names_.clear();
  pools_.clear();
}

ScalarCalendar::Pool ScalarCalendar::pool(const std::string& name, std::int64_t capacity) {
  const auto [it, fresh] = names_.try_emplace(name, static_cast<Pool>(pools_.size()));
  if (fresh)
    pools_.emplace_back().capacity = capacity;
  return it->second;
}

ScalarCalendar::Amounts& ScalarCalendar::begun(Pool pool) {
  Amounts& amounts = pools_[pool];
  if (amounts.begun != begins_) {
    amounts.begun = begins_;
    amounts.summed = false;
    amounts.free.assign(TimeGrid::columns(), 0);
    amounts.free[0] = amounts.capacity;
  }
  return amounts;
}

void ScalarCalendar::use(Pool pool) {
  Amounts& amounts = begun(pool);
  if (!std::exchange(amounts.summed, true))
    std::partial_sum(amounts.free.begin(), amounts.free.end(), amounts.free.begin());
}

void ScalarCalendar::hold(Pool pool, std::int64_t amount, Instant until) {
  Amounts& amounts = begun(pool);
  CHECK(!amounts.summed);
  // What should be over already is expected at any moment, but is not there yet.
  const Column to = until == kNever ? TimeGrid::columns() : std::max<Column>(1, grid_.at_or_after(minute_after(until)));
  amounts.free[0] -= amount;
  if (to < TimeGrid::columns())
    amounts.free[to] += amount;
}

void ScalarCalendar::take(Pool pool, std::int64_t amount, Column from, Column to) {
  std::vector<std::int64_t>& free = pools_[pool].free;
  for (Column c = from; c < std::min<Column>(to, TimeGrid::columns()); ++c) free[c] -= amount;
}

Column ScalarCalendar::earliest(std::span<const Part> parts, Column from, std::uint32_t minutes) const {
  for (Column known = from; from < TimeGrid::columns();) {
    const Column to = std::min(grid_.end_of(from, minutes), TimeGrid::columns());
    Column misfit = kNoColumn;
    for (const Part& part : parts)
      for (Column c = to; c > std::max(from, known) && (misfit == kNoColumn || c > misfit + 1); --c)
        if (pools_[part.pool].free[c - 1] < part.amount) {
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
