// ScalarCalendar: amounts that jobs share wherever they run, over the columns of a calendar: licences, and what limits
// of QOS, accounts and users still allow.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "sched/calendar.h"

namespace lockstep {

class ScalarCalendar {
 public:
  using Pool = std::uint32_t;
  struct Part {
    Pool pool = 0;
    std::int64_t amount = 0;
  };

  void begin(Instant now);
  // The pool of that name; a new one has so much in every column.
  Pool pool(const std::string& name, std::int64_t capacity);
  // Taken until then (kNever: for ever), whether it is there or not.
  void hold(Pool pool, std::int64_t amount, Instant until);
  // Taken in [from, to).
  void take(Pool pool, std::int64_t amount, Column from, Column to);

  // The first column at or after `from` in which every part is there for so many minutes; kNoColumn: none.
  Column earliest(std::span<const Part> parts, Column from, std::uint32_t minutes) const;
  void book(std::span<const Part> parts, Column from, Column to);

 private:
  TimeGrid grid_{Instant{}};
  std::map<std::string, Pool> names_;
  std::vector<std::vector<std::int64_t>> free_;  // by pool and column
};

}  // namespace lockstep
