// Timeline: simulated time. Things happen in the order of their instant; of two at one instant the earlier scheduled
// one goes first, so a run depends on nothing but its seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/time.h"

namespace lockstep::sim {

class Timeline {
 public:
  explicit Timeline(Instant start) : now_(start) {}

  Instant now() const { return now_; }
  void at(Instant when, std::function<void()> task) { at(when, next_number(), std::move(task)); }
  // As if it had been scheduled when the number was drawn.
  void at(Instant when, std::uint64_t number, std::function<void()> task) {
    queue_.push_back({when < now_ ? now_ : when, number, std::move(task)});
    std::push_heap(queue_.begin(), queue_.end(), later);
  }
  std::uint64_t next_number() { return next_++; }
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
  std::uint64_t next_ = 1;
  std::vector<Entry> queue_;  // heap
};

// What waits while somebody stands still goes on in the order in which it came, also where it is put off once more, and
// before whatever comes then. One for each life of who stands still: with it goes what waits.
class Standstill {
 public:
  // Whether what comes now waits, while its owner stands still until then.
  bool waits(Instant now, Instant until) const { return now <= until || (lives_->redone == 0 && lives_->waiting > 0); }
  // Runs the task just after `until`. It is put off again, if at all, by the first thing it does.
  void put_off(Timeline& timeline, Instant until, std::function<void()> task) {
    const std::uint64_t number = lives_->redone != 0 ? std::exchange(lives_->redone, 0) : timeline.next_number();
    ++lives_->waiting;
    const Instant when = std::max(until, timeline.now()) + micros(1);
    timeline.at(when, number, [of = std::weak_ptr<State>(lives_), number, task = std::move(task)] {
      const auto state = of.lock();
      if (!state)
        return;
      --state->waiting;
      state->redone = number;
      task();
      state->redone = 0;
    });
  }
  void end_life() { lives_ = std::make_shared<State>(); }

 private:
  struct State {
    std::uint64_t redone = 0;  // number of the task that runs now; 0: none that was put off
    std::size_t waiting = 0;
  };
  std::shared_ptr<State> lives_ = std::make_shared<State>();
};

}  // namespace lockstep::sim
