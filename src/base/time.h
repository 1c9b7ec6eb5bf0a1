// Time as integers. Instant is cluster time: microseconds that never go back, Unix-epoch based when the cluster was
// made. WallTime is what calendars show; a jump of the wall clock moves only what is written in WallTime.
#pragma once

#include <compare>
#include <cstdint>

namespace lockstep {

struct Duration {
  std::int64_t us = 0;

  friend constexpr auto operator<=>(const Duration&, const Duration&) = default;
  constexpr Duration operator+(Duration o) const { return {us + o.us}; }
  constexpr Duration operator-(Duration o) const { return {us - o.us}; }
  constexpr Duration operator*(std::int64_t k) const { return {us * k}; }
  constexpr Duration operator/(std::int64_t k) const { return {us / k}; }
  constexpr std::int64_t seconds() const { return us / 1'000'000; }
  constexpr std::int64_t millis() const { return us / 1'000; }
};

constexpr Duration micros(std::int64_t n) { return {n}; }
constexpr Duration millis(std::int64_t n) { return {n * 1'000}; }
constexpr Duration seconds(std::int64_t n) { return {n * 1'000'000}; }
constexpr Duration minutes(std::int64_t n) { return seconds(n * 60); }
constexpr Duration hours(std::int64_t n) { return seconds(n * 3600); }
inline constexpr Duration kForever{INT64_MAX / 4};  // without end; compared with >=, as spans may be added to it

struct Instant {
  std::int64_t us = 0;  // 0 = never / not yet

  friend constexpr auto operator<=>(const Instant&, const Instant&) = default;
  constexpr Instant operator+(Duration d) const { return {us + d.us}; }
  constexpr Instant operator-(Duration d) const { return {us - d.us}; }
  constexpr Duration operator-(Instant o) const { return {us - o.us}; }
  constexpr explicit operator bool() const { return us != 0; }
};
inline constexpr Instant kNever{INT64_MAX / 2};  // no time that comes; compared with >=, as spans may be added to it

struct WallTime {
  std::int64_t us = 0;  // since the Unix epoch; 0 = not set

  friend constexpr auto operator<=>(const WallTime&, const WallTime&) = default;
  constexpr explicit operator bool() const { return us != 0; }
  constexpr std::int64_t seconds() const { return us / 1'000'000; }
};

}  // namespace lockstep
