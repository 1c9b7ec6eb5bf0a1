#include "sched/calendar.h"

#include <algorithm>
#include <array>

#include "sched/wide.h"

namespace lockstep {

namespace {

// Steps of the grid: so many columns of so many minutes. 4 hours by the minute, then to a day, a week, a month and
// four months.
struct Region {
  std::uint32_t columns, minutes;
};
constexpr std::array<Region, 5> kRegions{{{240, 1}, {240, 5}, {288, 30}, {184, 180}, {90, 1440}}};

constexpr Column kColumns = [] {
  Column sum = 0;
  for (const Region& region : kRegions) sum += region.columns;
  return sum;
}();

// Whether any of kBlock values is below the least.
LOCKSTEP_WIDE bool any_below(const std::int32_t* values, std::int32_t least) {
  std::int32_t bad = 0;
  for (Column i = 0; i < kBlock; ++i) bad |= values[i] < least ? 1 : 0;
  return bad != 0;
}

LOCKSTEP_WIDE void subtract(std::int32_t* values, Column count, std::int32_t amount) {
  for (Column i = 0; i < count; ++i) values[i] -= amount;
}

// Whether in any of kBlock columns members that share nodes do not fit: those that do not go beside others need a free
// node each.
LOCKSTEP_WIDE bool any_short(const std::int32_t* nodes, const std::int32_t* devices, const std::int32_t* cores,
                             const std::int32_t* memory, Demand demand) {
  std::int32_t bad = 0;
  for (Column i = 0; i < kBlock; ++i) {
    const std::int32_t beside = demand.nodes - nodes[i];  // members that find no free node
    const bool is_short = (beside > 0) & ((devices[i] < beside * demand.devices) | (cores[i] < beside * demand.cores) |
                                          (memory[i] < beside * demand.memory));
    bad |= is_short ? 1 : 0;
  }
  return bad != 0;
}

// Whether in all of kBlock columns every member goes beside others.
LOCKSTEP_WIDE bool all_beside(const std::int32_t* devices, const std::int32_t* cores, const std::int32_t* memory,
                              Demand all) {
  std::int32_t bad = 0;
  for (Column i = 0; i < kBlock; ++i)
    bad |= ((devices[i] < all.devices) | (cores[i] < all.cores) | (memory[i] < all.memory)) ? 1 : 0;
  return bad == 0;
}

}  // namespace

TimeGrid::TimeGrid(Instant now) : base_(static_cast<std::uint32_t>(std::max<std::int64_t>(0, now.us / 60'000'000))) {}

Column TimeGrid::columns() { return kColumns; }

std::uint32_t TimeGrid::start_min(Column c) const {
  std::uint32_t minute = base_;
  for (const Region& region : kRegions) {
    if (c <= region.columns)
      return minute + c * region.minutes;
    c -= region.columns;
    minute += region.columns * region.minutes;
  }
  return minute;
}

Column TimeGrid::at_or_after(std::uint32_t minute) const {
  if (minute <= base_)
    return 0;
  std::uint32_t left = minute - base_;
  Column c = 0;
  for (const Region& region : kRegions) {
    const std::uint32_t span = region.columns * region.minutes;
    if (left <= span)
      return c + (left + region.minutes - 1) / region.minutes;
    left -= span;
    c += region.columns;
  }
  return kColumns;
}

Column TimeGrid::at_or_before(std::uint32_t minute) const {
  const Column c = at_or_after(minute);
  return c > 0 && (c == kColumns || start_min(c) > minute) ? c - 1 : c;
}

Column TimeGrid::end_after(std::uint32_t minute, std::uint32_t minutes) const {
  return minutes >= UINT32_MAX - minute ? kColumns : at_or_after(minute + minutes);
}

Column TimeGrid::end_of(Column c, std::uint32_t minutes) const {
  return std::max(c + 1, end_after(start_min(c), minutes));
}

void Calendar::begin(Instant now, const std::deque<AlikeNodes>& classes) {
  grid_ = TimeGrid(now);
  pools_.resize(classes.size());
  for (ClassNo c = 0; c < classes.size(); ++c) {
    const AlikeNodes& cls = classes[c];
    Pool& pool = pools_[c];
    pool.devices = static_cast<std::int32_t>(cls.whole.devices);
    pool.cores = static_cast<std::int32_t>(cls.whole.milli / 1000);
    pool.memory = static_cast<std::int32_t>(cls.memory_least_mb / cls.memory_unit_mb);
    Room room = cls.now;
    Column at = 0;
    for (auto* values : {&pool.nodes, &pool.devices_at, &pool.cores_at, &pool.memory_at}) values->resize(kColumns);
    const auto fill = [&](Column to) {
      for (; at < to; ++at) {
        pool.nodes[at] = room.nodes;
        pool.devices_at[at] = room.devices;
        pool.cores_at[at] = room.cores;
        pool.memory_at[at] = room.memory;
      }
    };
    for (const auto& [minute, more] : cls.later) {
      // What should be over already is expected at any moment, but is not there yet.
      fill(std::max<Column>(1, grid_.at_or_after(minute)));
      room += more;
    }
    fill(kColumns);
  }
}

Column Calendar::last_misfit(const Pool& pool, const Demand& demand, Column from, Column to) const {
  const auto misfit = [&](Column c) {
    const std::int32_t beside = demand.nodes - pool.nodes[c];
    if (beside <= 0)
      return false;
    return demand.takes_node || pool.devices_at[c] < beside * demand.devices ||
           pool.cores_at[c] < beside * demand.cores || pool.memory_at[c] < beside * demand.memory;
  };
  Column c = to;
  while (c > from) {
    if (c - from >= kBlock) {
      const Column b = c - kBlock;
      const bool bad = demand.takes_node ? any_below(&pool.nodes[b], demand.nodes)
                                         : any_short(&pool.nodes[b], &pool.devices_at[b], &pool.cores_at[b],
                                                     &pool.memory_at[b], demand);
      if (!bad) {
        c = b;
        continue;
      }
    }
    const Column stop = c - std::min<Column>(kBlock, c - from);
    for (; c > stop; --c)
      if (misfit(c - 1))
        return c - 1;
  }
  return kNoColumn;
}

bool Calendar::fits(const Demand& demand, Column from, Column to) const {
  return last_misfit(pools_[demand.pool], demand, from, to) == kNoColumn;
}

Column Calendar::earliest(const Demand& demand, Column from, std::uint32_t minutes) const {
  const Pool& pool = pools_[demand.pool];
  // A column once passed by a window without misfit is not looked at again: the next window begins behind the last
  // misfit and only its new end is unknown.
  Column known = from;  // no misfit in [from, known)
  while (from < kColumns) {
    const Column to = grid_.end_of(from, minutes);
    const Column misfit = last_misfit(pool, demand, std::max(from, known), to);
    if (misfit == kNoColumn)
      return from;
    known = std::max(known, to);
    from = misfit + 1;
  }
  return kNoColumn;
}

void Calendar::book(const Demand& demand, Column from, Column to) {
  Pool& pool = pools_[demand.pool];
  if (demand.takes_node) {
    subtract(&pool.nodes[from], to - from, demand.nodes);
    return;
  }
  const Demand all{.devices = demand.devices * demand.nodes,
                   .cores = demand.cores * demand.nodes,
                   .memory = demand.memory * demand.nodes};
  for (Column c = from; c < to;) {
    if (to - c >= kBlock && all_beside(&pool.devices_at[c], &pool.cores_at[c], &pool.memory_at[c], all)) {
      subtract(&pool.devices_at[c], kBlock, all.devices);
      subtract(&pool.cores_at[c], kBlock, all.cores);
      subtract(&pool.memory_at[c], kBlock, all.memory);
      c += kBlock;
      continue;
    }
    const Column stop = std::min(to, c + kBlock);
    for (; c < stop; ++c) {
      std::int32_t beside = demand.nodes;
      const auto bound = [&](std::int32_t free, std::int32_t each) {
        if (each > 0 && free < beside * each)
          beside = std::max(0, free) / each;
      };
      bound(pool.devices_at[c], demand.devices);
      bound(pool.cores_at[c], demand.cores);
      bound(pool.memory_at[c], demand.memory);
      const std::int32_t broken = demand.nodes - beside;
      pool.nodes[c] -= broken;
      pool.devices_at[c] += broken * pool.devices - all.devices;
      pool.cores_at[c] += broken * pool.cores - all.cores;
      pool.memory_at[c] += broken * pool.memory - all.memory;
    }
  }
}

std::int32_t Calendar::most(const Demand& demand, Column from, Column to) const {
  const Pool& pool = pools_[demand.pool];
  std::int32_t least = INT32_MAX;
  for (Column c = from; c < to; ++c) {
    std::int32_t beside = demand.takes_node ? 0 : INT32_MAX / 2;
    if (!demand.takes_node) {
      if (demand.devices > 0)
        beside = std::min(beside, pool.devices_at[c] / demand.devices);
      if (demand.cores > 0)
        beside = std::min(beside, pool.cores_at[c] / demand.cores);
      if (demand.memory > 0)
        beside = std::min(beside, pool.memory_at[c] / demand.memory);
    }
    least = std::min(least, std::max(0, pool.nodes[c]) + std::max(0, beside));
    if (least == 0)
      break;
  }
  return least;
}

Room Calendar::room(ClassNo pool, Column c) const {
  const Pool& p = pools_[pool];
  return {p.nodes[c], p.devices_at[c], p.cores_at[c], p.memory_at[c]};
}

}  // namespace lockstep
