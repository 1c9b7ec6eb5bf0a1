// A small seeded generator: xoshiro256** by Blackman and Vigna (https://prng.di.unimi.it), seeded through SplitMix64.
// Every random choice of the core, the scheduler and the simulator draws from one of these, so a seed replays a run.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

class Rng {
 public:
  explicit Rng(std::uint64_t seed);

  std::uint64_t next();
  std::uint64_t below(std::uint64_t bound);                         // uniform in [0, bound); bound > 0
  std::int64_t between(std::int64_t low, std::int64_t high);        // uniform in [low, high]
  double unit();                                                    // uniform in [0, 1)
  bool chance(double probability) { return unit() < probability; }  // true with that probability
  Rng fork() { return Rng(next()); }                                // an independent stream

 private:
  std::array<std::uint64_t, 4> s_;
};

}  // namespace lockstep
