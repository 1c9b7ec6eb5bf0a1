// TurnWatch: how long loops hold their threads. Every turn of the core's and of the I/O thread's loop, and every
// command in the core, is measured by the CPU time of its thread, so neither the log's sync nor a busy machine counts.
// What takes longer than kSlowTurn is counted by loop and kind, and named on standard error at most every few seconds.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace lockstep {

inline constexpr Duration kSlowTurn = millis(20);

class TurnWatch {
 public:
  enum class Loop : unsigned char { kCore, kIo };

  // From any thread. what: a word for the metrics ("cancel"); whose: who and what exactly, for the log.
  void took(Loop loop, std::string_view what, std::string_view whose, Duration cpu, Instant now);

  struct Slow {
    Loop loop = Loop::kCore;
    std::string what;
    std::uint64_t count = 0;
    Duration longest;
  };
  struct Snapshot {
    std::vector<Slow> slow;  // by loop and what
    Duration longest[2];     // of any turn since the start, by loop
  };
  Snapshot snapshot() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<Loop, std::string>, Slow> slow_;
  Duration longest_[2];
  Instant told_;
  std::uint64_t untold_ = 0;  // slow turns that were not named since then
};

const char* text_of(TurnWatch::Loop loop);
// Prometheus text: lockstep_slow_turns_total{loop,what}, lockstep_slow_turn_longest_us{loop,what},
// lockstep_longest_turn_us{loop}.
std::string metrics_text(const TurnWatch::Snapshot& snapshot);

}  // namespace lockstep
