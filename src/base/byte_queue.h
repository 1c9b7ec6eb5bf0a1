// ByteQueue: bytes that wait to be sent, taken from the front in pieces without moving the rest each time.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace lockstep {

class ByteQueue {
 public:
  void append(std::string bytes) {
    if (empty())
      clear();
    if (bytes_.empty())
      bytes_ = std::move(bytes);
    else
      bytes_ += bytes;
  }
  std::string_view front(std::size_t most) const { return std::string_view(bytes_).substr(taken_, most); }
  void drop(std::size_t count) {
    taken_ += std::min(count, size());
    if (empty())
      clear();
    else if (taken_ > bytes_.size() / 2 && taken_ > kMoved)
      compact();
  }
  std::size_t size() const { return bytes_.size() - taken_; }
  bool empty() const { return size() == 0; }
  void clear() {
    bytes_ = {};
    taken_ = 0;
  }

 private:
  static constexpr std::size_t kMoved = 1 << 20;
  void compact() {
    bytes_.erase(0, taken_);
    taken_ = 0;
  }

  std::string bytes_;
  std::size_t taken_ = 0;  // from the front
};

}  // namespace lockstep
