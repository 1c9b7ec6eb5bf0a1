// Mailbox: how the controller's threads talk. Anyone may post; one thread takes everything there is, or sleeps until
// something comes or a moment passes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "base/time.h"

namespace lockstep {

template <class T>
class Mailbox {
 public:
  void post(T item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
      if (!sleeping_)
        return;
    }
    wake_.notify_one();
  }
  void post_all(std::vector<T> items) {
    {
      const std::lock_guard lock(mutex_);
      items_.insert(items_.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
      if (!sleeping_)
        return;
    }
    wake_.notify_one();
  }

  // Everything posted so far; sleeps up to `patience` while there is nothing.
  std::vector<T> take(Duration patience) {
    std::unique_lock lock(mutex_);
    if (items_.empty() && patience > Duration{}) {
      sleeping_ = true;
      const auto some = [this] { return !items_.empty(); };
      if (patience >= kForever)
        wake_.wait(lock, some);
      else
        wake_.wait_for(lock, std::chrono::microseconds(patience.us), some);
      sleeping_ = false;
    }
    return std::exchange(items_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<T> items_;
  bool sleeping_ = false;
};

}  // namespace lockstep
