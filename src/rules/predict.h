// RunPredictor: how long a job will really run, learned from those that ended. Limits are given with a wide margin, and
// jobs of one user, size and limit resemble each other; so what is learned is the ratio of run time to limit, for ever
// narrower kinds of jobs, each shrunk toward the wider one (a hierarchical Bayes mean, cf. Tsafrir, Etsion, Feitelson,
// "Backfilling using system-generated predictions", TPDS 2007). Predictions order and estimate: they never end a job,
// and promises are made from limits alone. Integers only, so that every machine predicts the same.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/time.h"

namespace lockstep {

// What is known of a job when it is submitted. An empty word is not known and teaches nothing.
struct RunFacts {
  std::string_view user;
  std::string_view name;
  std::int64_t size = 1;  // devices, or cores where a job has none
  Duration limit;         // > 0; kForever or more: nothing is predicted
};

// The kinds one job belongs to, widest first, as hashes; 0: it has none on that level. Kept with the job.
inline constexpr std::size_t kRunLevels = 7;
using RunKinds = std::array<std::uint64_t, kRunLevels>;
RunKinds run_kinds(const RunFacts& facts);

// The narrowest kind a job belongs to. The end of one job changes most what is predicted for its kin, so those that
// wait are worth another prediction then, and only those.
std::uint64_t run_kin(const RunKinds& kinds);

class RunPredictor {
 public:
  // A job ended by itself or by its limit after `run`. Do not tell of those that were cancelled, preempted or lost.
  void observe(const RunKinds& kinds, Duration limit, Duration run);

  // At least a second, at most the limit; the limit while nothing is known.
  Duration predict(const RunKinds& kinds, Duration limit) const;

  // All that was learned, sorted: a predictor restored from it predicts the same.
  struct Memory {
    std::uint64_t kind = 0;
    std::uint32_t weight = 0;     // of what was seen, recent ends counting more, in 1/65536
    std::uint32_t ratio_sum = 0;  // weighted, in 1/65536
    std::uint64_t used = 0;       // the observation that last touched it
    friend auto operator<=>(const Memory&, const Memory&) = default;
  };
  std::vector<Memory> saved() const;
  static RunPredictor restored(std::span<const Memory> memories);

 private:
  void forget_the_oldest();

  std::uint64_t observations_ = 0;
  std::unordered_map<std::uint64_t, Memory> memories_;  // by kind; at most kKindsMax
};

}  // namespace lockstep
