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

  // Everything is there again; pools keep their names and capacities.
  void begin(Instant now);
  void forget();  // pools too
  // The pool of that name; a new one has so much in every column.
  Pool pool(const std::string& name, std::int64_t capacity);
  // Taken until then (kNever: for ever), whether it is there or not. Before the first use().
  void hold(Pool pool, std::int64_t amount, Instant until);
  // To be called before take(), earliest() or book() since begin().
  void use(Pool pool);
  // Taken in [from, to).
  void take(Pool pool, std::int64_t amount, Column from, Column to);

  // The first column at or after `from` in which every part is there for so many minutes; kNoColumn: none.
  Column earliest(std::span<const Part> parts, Column from, std::uint32_t minutes) const;
  void book(std::span<const Part> parts, Column from, Column to);

 private:
  TimeGrid grid_{Instant{}};
  struct Amounts {
    std::int64_t capacity = 0;
    std::uint64_t begun = 0;         // begins_ for which the rest holds
    bool summed = false;             // else free has the differences from column to column
    std::vector<std::int64_t> free;  // by column
  };
  Amounts& begun(Pool pool);
  std::map<std::string, Pool> names_;
  std::vector<Amounts> pools_;
  std::uint64_t begins_ = 0;
};

}  // namespace lockstep
