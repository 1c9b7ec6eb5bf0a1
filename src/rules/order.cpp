// Turns in integers, so that every machine orders alike.
#include "rules/order.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace lockstep {

namespace {

constexpr int kFractionBits = 10;
constexpr std::int64_t kLogOne = 1 << kFractionBits;
constexpr std::int64_t kMillion = 1'000'000;
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

// What a job of this size keeps of a delay, in millionths: all when it is tiny, least when it is the whole cluster.
std::int64_t kept_by(const OrderPolicy& policy, std::int64_t size, std::int64_t capacity) {
  CHECK(size > 0 && capacity > 0);
  const auto share = static_cast<std::int64_t>(static_cast<__int128>(std::min(size, capacity)) * kMillion / capacity);
  return kMillion - share * policy.spare_permille / 1000;
}

}  // namespace

Result<void> OrderPolicy::validate() const {
  struct Range {
    const char* field;
    const char* words;
    std::int64_t value, least, most;
  };
  constexpr const char* kSpread = "spread_min (at least a second) to a year";
  const std::int64_t second = seconds(1).us;
  const Range ranges[] = {
      {"spread_max", kSpread, spread_min.us, second, INT64_MAX},
      {"spread_max", kSpread, spread_max.us, spread_min.us, kYear},
      {"backlog_permille", "0 to 100000", backlog_permille, 0, 100'000},
      {"doubling_permille", "0 to 10000", doubling_permille, 0, 10'000},
      {"short_run", "a second to a year", short_run.us, second, kYear},
      {"steep", "0 to 10000", steep, 0, 10'000},
      {"spare_permille", "0 to 1000", spare_permille, 0, 1000},
      {"predicted_min", "a second to a year", predicted_min.us, second, kYear},
      {"filler_permille", "1 to 100000", filler_permille, 1, 100'000},
      {"overdue_after", "0 to a year", overdue_after.us, 0, kForever.us},
  };
  for (const Range& range : ranges)
    if (range.value < range.least || range.value > range.most)
      return invalid(format("{} must be from {}", range.field, range.words), range.field);
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

Duration spread_of(const OrderPolicy& policy, Duration backlog) {
  const auto share = static_cast<__int128>(backlog.us) * policy.backlog_permille / 1000;
  return {static_cast<std::int64_t>(std::min<__int128>(policy.spread_min.us + share, policy.spread_max.us))};
}

Turn turn_of(const OrderPolicy& policy, const OrderFacts& facts) {
  CHECK(facts.spread >= seconds(1));
  const std::int64_t predicted_us = std::clamp(facts.predicted.us, policy.predicted_min.us, kYear);
  const auto spread = static_cast<__int128>(facts.spread.us);

  const std::int64_t doublings = log2_of(predicted_us) - log2_of(policy.short_run.us);  // in 1/1024
  const __int128 by_doublings = spread * doublings * policy.doubling_permille / (kLogOne * 1000);

  const __int128 steep_us = static_cast<__int128>(predicted_us) * policy.steep;
  const __int128 by_length = spread * steep_us / (steep_us + spread);
  const std::int64_t kept = kept_by(policy, facts.size, facts.capacity);

  const Instant at = facts.submitted + Duration{static_cast<std::int64_t>(by_doublings + by_length * kept / kMillion)};
  return {at, at + overdue_after(policy, facts.size, facts.capacity)};
}

Duration overdue_after(const OrderPolicy& policy, std::int64_t size, std::int64_t capacity) {
  const __int128 kept = kept_by(policy, size, capacity);
  return {static_cast<std::int64_t>(policy.overdue_after.us * kept / kMillion)};
}

Duration filler_time(const OrderPolicy& policy, Duration limit, Duration predicted, bool first_is_overdue) {
  if (first_is_overdue)
    return limit;
  return std::min(limit, Duration{std::min(predicted.us, kYear) / 1000 * policy.filler_permille});
}

}  // namespace lockstep
