// Turns in integers, so that every machine orders alike.
#include "sched/order.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"

namespace lockstep {

namespace {

constexpr int kFractionBits = 10;
constexpr std::int64_t kLogOne = 1 << kFractionBits;
constexpr std::int64_t kYear = std::int64_t{365} * 86400 * 1'000'000;

// Binary logarithm of x > 0 in 1/1024, rounded down: a bit of the fraction by each squaring.
std::int64_t log2_of(std::int64_t x) {
  CHECK(x > 0);
  const auto bits = static_cast<std::uint64_t>(x);
  const int whole = std::bit_width(bits) - 1;
  std::uint64_t mantissa = whole >= 31 ? bits >> (whole - 31) : bits << (31 - whole);  // in [2^31, 2^32)
  std::int64_t log = whole;
  for (int bit = 0; bit < kFractionBits; ++bit) {
    mantissa = mantissa * mantissa >> 31;
    const std::uint64_t carry = mantissa >> 32;
    mantissa >>= carry;
    log = 2 * log + static_cast<std::int64_t>(carry);
  }
  return log;
}

// Its inverse, at most `max`.
std::int64_t exp2_of(std::int64_t log, std::int64_t max) {
  constexpr std::array<std::uint64_t, kFractionBits> kRoots{3037000500, 2553802834, 2341847524, 2242560872, 2194507417,
                                                            2170868212, 2159144272, 2153306067, 2150392887, 2148937775};
  if (log < 0)
    return 0;
  const std::int64_t whole = log >> kFractionBits;
  if (whole >= 62)
    return max;
  std::uint64_t mantissa = std::uint64_t{1} << 31;
  for (int bit = 0; bit < kFractionBits; ++bit)
    if (log & (kLogOne >> (bit + 1)))
      mantissa = mantissa * kRoots[static_cast<std::size_t>(bit)] >> 31;
  const auto value = whole >= 31 ? static_cast<std::int64_t>(mantissa) << (whole - 31)
                                 : static_cast<std::int64_t>(mantissa >> (31 - whole));
  return std::min(value, max);
}

Error out_of(const char* field, const char* range) {
  return invalid(std::string(field) + " must be from " + range, field);
}

}  // namespace

Result<void> OrderPolicy::validate() const {
  if (spread_min < seconds(1) || spread_max < spread_min || spread_max.us > kYear)
    return out_of("spread_max", "spread_min (at least a second) to a year");
  if (backlog_permille < 0 || backlog_permille > 100'000)
    return out_of("backlog_permille", "0 to 100000");
  if (weight_permille < 1 || weight_permille > 1'000'000)
    return out_of("weight_permille", "1 to 1000000");
  if (size_permille < 0 || size_permille > 2000)
    return out_of("size_permille", "0 to 2000");
  if (doubling_permille < 0 || doubling_permille > 10'000)
    return out_of("doubling_permille", "0 to 10000");
  if (work_unit < seconds(1) || work_unit.us > kYear)
    return out_of("work_unit", "a second to a year");
  if (wide_permille < -1000 || wide_permille > 1000)
    return out_of("wide_permille", "-1000 to 1000");
  if (predicted_min < seconds(1) || predicted_min.us > kYear)
    return out_of("predicted_min", "a second to a year");
  if (filler_permille < 1 || filler_permille > 100'000)
    return out_of("filler_permille", "1 to 100000");
  if (overdue_permille < 0 || overdue_permille > 100'000)
    return out_of("overdue_permille", "0 to 100000");
  return {};
}

void Backlog::add(std::int64_t size, Duration predicted) { size_us_ += static_cast<__int128>(size) * predicted.us; }

void Backlog::remove(std::int64_t size, Duration predicted) {
  size_us_ -= static_cast<__int128>(size) * predicted.us;
  CHECK(size_us_ >= 0);
}

Duration Backlog::drain_time(std::int64_t capacity) const {
  CHECK(capacity > 0);
  return {static_cast<std::int64_t>(std::min<__int128>(size_us_ / capacity, kForever.us))};
}

Turn turn_of(const OrderPolicy& policy, const OrderFacts& facts) {
  CHECK(facts.size > 0 && facts.capacity > 0);
  const std::int64_t size = std::min(facts.size, facts.capacity);
  const std::int64_t predicted_us = std::clamp(facts.predicted.us, policy.predicted_min.us, kYear);
  const std::int64_t relative_log = log2_of(size) + log2_of(100) - log2_of(facts.capacity);
  const std::int64_t work_log = log2_of(predicted_us) + log2_of(policy.weight_permille) - log2_of(1000) +
                                relative_log * policy.size_permille / 1000;
  const std::int64_t work_us = exp2_of(work_log, 1000 * kYear);
  const auto share = static_cast<__int128>(facts.backlog.us) * policy.backlog_permille / 1000;
  const auto spread_us =
      static_cast<std::int64_t>(std::min<__int128>(policy.spread_min.us + share, policy.spread_max.us));

  const std::int64_t doublings = (work_log - log2_of(policy.work_unit.us)) * policy.doubling_permille;  // in 1/1024000
  const auto ahead = static_cast<std::int64_t>(static_cast<__int128>(spread_us) * doublings / (kLogOne * 1000));
  const auto saturated = static_cast<std::int64_t>(static_cast<__int128>(spread_us) * work_us / (work_us + spread_us));
  const std::int64_t narrowness =
      1'000'000 - static_cast<std::int64_t>(static_cast<__int128>(size) * 1000 * policy.wide_permille / facts.capacity);
  const auto put_back = static_cast<std::int64_t>(static_cast<__int128>(saturated) * narrowness / 1'000'000);
  const Instant at = facts.submitted + Duration{ahead} + Duration{put_back};
  return {at, at + Duration{spread_us / 1000 * policy.overdue_permille}};
}

Duration filler_time(const OrderPolicy& policy, Duration limit, Duration predicted, bool first_is_overdue) {
  if (first_is_overdue)
    return limit;
  return std::min(limit, Duration{std::min(predicted.us, kYear) / 1000 * policy.filler_permille});
}

}  // namespace lockstep
