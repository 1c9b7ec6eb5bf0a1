#include "controller/turn_watch.h"

#include <cstdio>

#include "base/log_line.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr Duration kTellEvery = seconds(10);
constexpr std::size_t kKindsMost = 256;  // kinds come from our own code; a bound all the same

}  // namespace

const char* text_of(TurnWatch::Loop loop) { return loop == TurnWatch::Loop::kCore ? "core" : "io"; }

void TurnWatch::took(Loop loop, std::string_view what, std::string_view whose, Duration cpu, Instant now) {
  const std::lock_guard lock(mutex_);
  Duration& longest = longest_[static_cast<std::size_t>(loop)];
  longest = std::max(longest, cpu);
  if (cpu <= kSlowTurn)
    return;
  const auto key = std::pair(loop, std::string(what));
  if (slow_.size() < kKindsMost || slow_.contains(key)) {
    Slow& slow = slow_[key];
    slow.loop = loop;
    slow.what = key.second;
    ++slow.count;
    slow.longest = std::max(slow.longest, cpu);
  }
  if (told_ && now - told_ < kTellEvery) {
    ++untold_;
    return;
  }
  log_line(LogLevel::kWarning,
           format("lockstepd: the {} thread was held for {} ms by {} {} ({} more since it was said last)",
                  text_of(loop), cpu.millis(), key.second, whose, untold_));
  told_ = now;
  untold_ = 0;
}

TurnWatch::Snapshot TurnWatch::snapshot() const {
  const std::lock_guard lock(mutex_);
  Snapshot out;
  for (const auto& [key, slow] : slow_) out.slow.push_back(slow);
  out.longest[0] = longest_[0];
  out.longest[1] = longest_[1];
  return out;
}

std::string metrics_text(const TurnWatch::Snapshot& snapshot) {
  std::string out = "# TYPE lockstep_longest_turn_us gauge\n";
  for (const auto loop : {TurnWatch::Loop::kCore, TurnWatch::Loop::kIo})
    out += format("lockstep_longest_turn_us{{loop=\"{}\"}} {}\n", text_of(loop),
                  snapshot.longest[static_cast<std::size_t>(loop)].us);
  out += "# TYPE lockstep_slow_turns_total counter\n";
  for (const TurnWatch::Slow& slow : snapshot.slow)
    out +=
        format("lockstep_slow_turns_total{{loop=\"{}\",what=\"{}\"}} {}\n", text_of(slow.loop), slow.what, slow.count);
  out += "# TYPE lockstep_slow_turn_longest_us gauge\n";
  for (const TurnWatch::Slow& slow : snapshot.slow)
    out += format("lockstep_slow_turn_longest_us{{loop=\"{}\",what=\"{}\"}} {}\n", text_of(slow.loop), slow.what,
                  slow.longest.us);
  return out;
}

}  // namespace lockstep
