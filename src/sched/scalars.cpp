#include "sched/scalars.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "sched/view.h"
#include "sched/wide.h"

namespace lockstep {

namespace {

LOCKSTEP_WIDE bool any_below(const std::int64_t* values, std::int64_t least) {
  std::int64_t bad = 0;
  for (Column i = 0; i < kBlock; ++i) bad |= values[i] < least ? 1 : 0;
  return bad != 0;
}

LOCKSTEP_WIDE void subtract(std::int64_t* values, Column count, std::int64_t amount) {
  for (Column i = 0; i < count; ++i) values[i] -= amount;
}

// The last column of [from, to) with less than that; kNoColumn: none.
Column last_below(const std::vector<std::int64_t>& values, std::int64_t least, Column from, Column to) {
  for (Column c = to; c > from;) {
    if (c - from >= kBlock && !any_below(&values[c - kBlock], least)) {
      c -= kBlock;
      continue;
    }
    for (const Column stop = c - std::min<Column>(kBlock, c - from); c > stop; --c)
      if (values[c - 1] < least)
        return c - 1;
  }
  return kNoColumn;
}

}  // namespace

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
  if (to = std::min<Column>(to, TimeGrid::columns()); from < to)
    subtract(&pools_[pool].free[from], to - from, amount);
}

Column ScalarCalendar::earliest(std::span<const Part> parts, Column from, std::uint32_t minutes) const {
  for (Column known = from; from < TimeGrid::columns();) {
    const Column to = std::min(grid_.end_of(from, minutes), TimeGrid::columns());
    Column misfit = kNoColumn;
    for (const Part& part : parts) {
      const Column begin = std::max({from, known, misfit == kNoColumn ? 0 : misfit + 1});
      if (const Column c = last_below(pools_[part.pool].free, part.amount, begin, to); c != kNoColumn)
        misfit = c;
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
