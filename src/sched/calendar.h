// Calendar: what will be free when, over pools of alike nodes, and the earliest column in which a gang fits.
//
// Time is a grid of about a thousand columns, fine near now and coarse far away; ends are rounded up to a column, so a
// booking never reaches less far than the job may. Columns hold counts, not nodes: nodes of a pool are alike and are
// chosen when a job starts, so if at every moment the counts suffice for jobs that take whole nodes, nodes can be found
// for each of them at its start without moving any (interval graphs are perfect: Golumbic, Algorithmic Graph Theory,
// 1980, ch. 8). Jobs that take part of a node are counted by what is free on partly used nodes first; the rest of them
// break a free node each. How parts lie on nodes is not known ahead, so for those the calendar is an estimate.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "sched/shape.h"

namespace lockstep {

using Column = std::uint32_t;
inline constexpr Column kNoColumn = UINT32_MAX;  // beyond the grid: never, as far as is foreseen
constexpr Column kBlock = 32;                    // columns that are looked at together

// Column c begins at start(c) and ends where the next one begins; column 0 begins at the minute now lies in.
class TimeGrid {
 public:
  explicit TimeGrid(Instant now);
  static Column columns();
  std::uint32_t start_min(Column c) const;  // minute of cluster time
  Instant start(Column c) const { return Instant{std::int64_t{start_min(c)} * 60'000'000}; }
  // The first column that begins at or after the minute; columns() if there is none.
  Column at_or_after(std::uint32_t minute) const;
  Column at_or_before(std::uint32_t minute) const;  // the column the minute lies in
  // The first column that begins when a job that starts in that minute is certain to be over.
  Column end_after(std::uint32_t minute, std::uint32_t minutes) const;
  // Where a job that starts with column c and may run so many minutes is certain to be over.
  Column end_of(Column c, std::uint32_t minutes) const;

 private:
  std::uint32_t base_;  // minute in which column 0 begins
};

class Calendar {
 public:
  // From what the classes have now and what their running jobs will give back.
  void begin(Instant now, const std::deque<AlikeNodes>& classes);

  const TimeGrid& grid() const { return grid_; }
  // The first column at or after `from` in which the demand fits for so many minutes; kNoColumn: not within the grid.
  Column earliest(const Demand& demand, Column from, std::uint32_t minutes) const;
  bool fits(const Demand& demand, Column from, Column to) const;
  void book(const Demand& demand, Column from, Column to);
  // How many members with these amounts fit at once over [from, to).
  std::int32_t most(const Demand& demand, Column from, Column to) const;

  // For tests: what column c of a pool still has.
  Room room(ClassNo pool, Column c) const;

 private:
  struct Pool {
    std::int32_t devices = 0, cores = 0, memory = 0;                   // of a whole node
    std::vector<std::int32_t> nodes, devices_at, cores_at, memory_at;  // wholly free nodes; rest on partly used ones
  };
  Column last_misfit(const Pool& pool, const Demand& demand, Column from, Column to) const;  // kNoColumn: none

  TimeGrid grid_{Instant{}};
  std::vector<Pool> pools_;
};

}  // namespace lockstep
