// Tally of records of the directory that bound or weigh jobs, by what they do: kept from change to change, so that a
// change costs its own record, not the directory (100,000 associations come one by one when a controller starts).
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/accounting.h"
#include "model/change.h"

namespace lockstep {

class Bounding {
 public:
  // A change of a record: null where there was, or is, none.
  void note(const Account* before, const Account* after) { move(before, after); }
  void note(const Association* before, const Association* after) { move(before, after); }
  void note(const Qos* before, const Qos* after) { move(before, after); }

  bool counts() const { return counting_ > 0; }         // something is counted against limits or quotas
  bool limits_minutes() const { return minutes_ > 0; }  // that were spent
  bool prefers() const { return preferring_ > 0; }      // some QOS has a priority

  std::uint64_t looks() const { return looks_; }  // at records, so far

 private:
  template <class T>
  void move(const T* before, const T* after) {
    if (before)
      add(*before, -1);
    if (after)
      add(*after, 1);
  }
  template <class T>
  void add(const T& record, std::ptrdiff_t times);

  std::ptrdiff_t counting_ = 0, minutes_ = 0, preferring_ = 0;
  std::uint64_t looks_ = 0;
};

}  // namespace lockstep
