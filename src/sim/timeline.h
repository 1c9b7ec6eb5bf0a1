// Timeline: simulated time. Things happen in the order of their instant; of two at one instant the earlier scheduled
// one goes first, so a run depends on nothing but its seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/time.h"

namespace lockstep::sim {

class Timeline {
 public:
  explicit Timeline(Instant start) : now_(start) {}

  Instant now() const { return now_; }
  void at(Instant when, std::function<void()> task) {
    queue_.push_back({when < now_ ? now_ : when, next_++, std::move(task)});
    std::push_heap(queue_.begin(), queue_.end(), later);
  }
  void after(Duration delay, std::function<void()> task) { at(now_ + delay, std::move(task)); }

  // Runs the next thing if it is due by `until`; otherwise moves there and says false.
  bool step(Instant until) {
    if (queue_.empty() || queue_.front().when > until) {
      now_ = until > now_ ? until : now_;
      return false;
    }
    std::pop_heap(queue_.begin(), queue_.end(), later);
    Entry entry = std::move(queue_.back());
    queue_.pop_back();
    now_ = entry.when;
    entry.task();
    return true;
  }

 private:
  struct Entry {
    Instant when;
    std::uint64_t number = 0;
    std::function<void()> task;
  };
  static bool later(const Entry& a, const Entry& b) { return a.when != b.when ? a.when > b.when : a.number > b.number; }
  Instant now_;
  std::uint64_t next_ = 0;
  std::vector<Entry> queue_;  // heap
};

}  // namespace lockstep::sim
