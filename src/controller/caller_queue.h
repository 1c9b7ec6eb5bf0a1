// CallerQueue and CallerCounts: what waits for a thread that answers one question after the other. Callers take turns,
// and each may have only so many waiting.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "base/text.h"

namespace lockstep {

// Of one thread.
template <class T>
class CallerQueue {
 public:
  void push(const std::string& caller, T item) {
    auto& items = by_caller_[caller];
    if (items.empty())
      order_.push_back(caller);
    items.push_back(std::move(item));
  }
  bool empty() const { return order_.empty(); }
  // The next caller's oldest. CHECKs non-empty.
  std::pair<std::string, T> pop() {
    CHECK(!order_.empty());
    std::string caller = std::move(order_.front());
    order_.pop_front();
    const auto at = by_caller_.find(caller);
    T item = std::move(at->second.front());
    at->second.pop_front();
    if (at->second.empty())
      by_caller_.erase(at);
    else
      order_.push_back(caller);
    return {std::move(caller), std::move(item)};
  }

 private:
  std::map<std::string, std::deque<T>> by_caller_;  // Invariant: no deque is empty
  std::deque<std::string> order_;                   // each caller once
};

// How many each caller has waiting; any thread may ask.
class CallerCounts {
 public:
  // each: of one caller. all: of everybody together. reserved: what administrators may have beyond that.
  struct Most {
    std::uint32_t each = 0, all = 0, reserved = 0;
  };
  explicit CallerCounts(Most most) : most_(most) {}

  // kExhausted, field "pending": too many wait. `what` is what they are ("questions").
  Result<void> enter(const std::string& caller, bool reserved, std::string_view what) {
    const std::lock_guard lock(mutex_);
    std::uint32_t& own = by_caller_[caller];
    const std::uint32_t all_max = most_.all + (reserved ? most_.reserved : 0);
    if (all_ < all_max && (reserved || own < most_.each)) {
      ++own;
      ++all_;
      return {};
    }
    const bool is_own = !reserved && own >= most_.each;
    if (own == 0)
      by_caller_.erase(caller);
    return Error{Errc::kExhausted,
                 is_own ? format("{} has {} {} that are being answered already: ask again when one of them is", caller,
                                 most_.each, what)
                        : format("{} {} are being answered already: ask again in a moment", all_, what),
                 "pending"};
  }
  void leave(const std::string& caller) {
    const std::lock_guard lock(mutex_);
    const auto at = by_caller_.find(caller);
    CHECK(at != by_caller_.end() && at->second > 0);
    --all_;
    if (--at->second == 0)
      by_caller_.erase(at);
  }

 private:
  std::mutex mutex_;
  Most most_;
  std::map<std::string, std::uint32_t> by_caller_;
  std::uint32_t all_ = 0;
};

}  // namespace lockstep
