// TryGuard: how many tries one may have in a minute before it must wait: strangers of one address that fail to join, a
// node that renews its certificate. Bounded in memory, too: while more try than it can tell apart, those it does not
// know wait as well.
#pragma once

#include <map>
#include <string>

#include "base/time.h"

namespace lockstep {

class TryGuard {
 public:
  static constexpr std::uint32_t kTries = 10;  // in one span
  static constexpr Duration kSpan = minutes(1);
  static constexpr std::size_t kKnownMax = 4096;

  bool may_try(const std::string& who, Instant now) {
    const auto it = tries_.find(who);
    if (it != tries_.end())
      return it->second.since + kSpan <= now || it->second.count < kTries;
    if (tries_.size() >= kKnownMax)
      std::erase_if(tries_, [now](const auto& one) { return one.second.since + kSpan <= now; });
    return tries_.size() < kKnownMax;
  }
  void count(const std::string& who, Instant now) {
    Tries& tries = tries_[who];
    if (tries.since + kSpan <= now)
      tries = {now, 0};
    ++tries.count;
  }

 private:
  struct Tries {
    Instant since;
    std::uint32_t count = 0;
  };
  std::map<std::string, Tries> tries_;
};

}  // namespace lockstep
