#include "io/clock.h"

#include <ctime>

namespace lockstep {

namespace {

std::int64_t read_us(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1'000;
}

}  // namespace

Instant RealClock::boot() const { return {read_us(CLOCK_BOOTTIME)}; }
Duration RealClock::thread_cpu() const { return {read_us(CLOCK_THREAD_CPUTIME_ID)}; }
WallTime RealClock::wall() const { return {read_us(CLOCK_REALTIME)}; }

}  // namespace lockstep
