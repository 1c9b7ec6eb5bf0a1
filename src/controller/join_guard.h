// JoinGuard: how often strangers of one address may fail to join before they must wait. Bounded in memory, too: while
// more addresses fail than it can tell apart, those it does not know wait as well.
#pragma once

#include <map>
#include <string>

#include "base/time.h"

namespace lockstep {

class JoinGuard {
 public:
  static constexpr std::uint32_t kTries = 10;  // that fail, in one span
  static constexpr Duration kSpan = minutes(1);
  static constexpr std::size_t kAddressesMax = 4096;

  bool may_try(const std::string& address, Instant now) {
    const auto it = failures_.find(address);
    if (it != failures_.end())
      return it->second.since + kSpan <= now || it->second.count < kTries;
    if (failures_.size() >= kAddressesMax)
      std::erase_if(failures_, [now](const auto& one) { return one.second.since + kSpan <= now; });
    return failures_.size() < kAddressesMax;
  }
  void failed(const std::string& address, Instant now) {
    Failures& failures = failures_[address];
    if (failures.since + kSpan <= now)
      failures = {now, 0};
    ++failures.count;
  }

 private:
  struct Failures {
    Instant since;
    std::uint32_t count = 0;
  };
  std::map<std::string, Failures> failures_;
};

}  // namespace lockstep
