// Past use that fades: an amount halves every half-life (Slurm's PriorityDecayHalfLife). Records hold what was spent as
// it stood at one instant; what running jobs have spent follows from their start, so nothing is rewritten while time
// goes by, and charging a job at its end gives what was shown of it just before.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "model/allocation.h"
#include "model/directory.h"
#include "model/spec.h"
#include "model/tres.h"

namespace lockstep {

// Milliseconds × amount (of memory: seconds × MB), and wall time.
struct Spent {
  Tres tres;
  std::int64_t wall_ms = 0;
  friend bool operator==(const Spent&, const Spent&) = default;
};

// value after `elapsed`; half_life 0 = it does not fade. Rounded to the nearest whole.
std::int64_t decayed(std::int64_t value, Duration elapsed, Duration half_life);
Spent decayed(const Spent& spent, Duration elapsed, Duration half_life);
// What an amount in use for `span` up to now is worth now, in ms × amount: rate × ∫ 2^-(s/half_life) ds over the span.
std::int64_t accrued_ms(std::int64_t rate, Duration span, Duration half_life);
// The same for everything that an allocation takes up. factor_milli is the QOS' usage factor.
Spent accrued(const Tres& tres, Duration span, Duration half_life, std::uint32_t factor_milli);

// What was spent before this moment is forgotten (PriorityUsageResetPeriod, by the calendar of Greenwich; weeks begin
// on Sunday). 0 = nothing is.
WallTime usage_floor(const Policy& policy, WallTime now);

// The half-life of what is spent under a QOS: 0 with no_decay.
Duration half_life_of(const Directory& directory, std::string_view qos);
std::uint32_t usage_factor_of(const Directory& directory, std::string_view qos);

// An attempt that has an allocation, as far as use goes.
struct RunningUse {
  const JobSpec* spec = nullptr;
  const Allocation* allocation = nullptr;
};

// Name of the record that an attempt is charged to.
std::string usage_name_of(const Directory& directory, const RunningUse& use);
// The record `before` (null = there is none yet) with one attempt added that ended at `until`; meta is left as it was.
// floor: see usage_floor(), as cluster time.
Usage charged(const Directory& directory, const Usage* before, const RunningUse& ended, Instant now, Instant floor,
              Instant until);
// The record with that taken back which the attempt was charged for after `from`, up to `until`, and did not use.
Usage refunded(const Directory& directory, const Usage& before, const RunningUse& ended, Instant now, Instant floor,
               Instant from, Instant until);

// Everything that was spent, as of one instant. Costs a pass over the records and the running jobs.
class Spendings {
 public:
  Spendings(const Directory& directory, std::span<const RunningUse> running, Instant now, Instant floor);

  Spent of_account(std::string_view account) const;  // with everything below it
  Spent of_user(std::string_view account, UserId user) const;
  Spent of_association(const Directory& directory, const Association& association) const;
  Spent of_qos(std::string_view qos) const;

  // By account, user and partition: the leaves of the tree.
  using Key = std::tuple<std::string, UserId, std::string>;
  const std::map<Key, Spent>& leaves() const { return leaves_; }

 private:
  void add(const Directory& directory, const Key& key, const std::string& qos, const Spent& spent);
  std::map<Key, Spent> leaves_;
  std::map<std::string, Spent, std::less<>> accounts_, qos_;
};

}  // namespace lockstep
