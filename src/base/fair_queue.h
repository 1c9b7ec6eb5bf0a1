// FairQueue: things that wait, in turn by whom they belong to: everyone's first before anybody's second. In the order
// of arrival within one owner.
#pragma once

#include <deque>
#include <map>
#include <optional>

namespace lockstep {

template <class Owner, class T>
class FairQueue {
 public:
  void push(const Owner& owner, T thing) {
    waiting_[owner].push_back(std::move(thing));
    ++size_;
  }

  // The next owner's oldest; nothing when nobody waits.
  std::optional<T> pop() {
    if (waiting_.empty())
      return std::nullopt;
    auto next = served_ ? waiting_.upper_bound(*served_) : waiting_.begin();
    if (next == waiting_.end())
      next = waiting_.begin();
    std::optional<T> thing(std::move(next->second.front()));
    next->second.pop_front();
    served_ = next->first;
    if (next->second.empty())
      waiting_.erase(next);
    --size_;
    return thing;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

 private:
  std::map<Owner, std::deque<T>> waiting_;
  std::optional<Owner> served_;  // whose turn was last
  std::size_t size_ = 0;
};

}  // namespace lockstep
