// ResendLog: bytes that were sent, or will be, and that the other side has not confirmed yet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

class ResendLog {
 public:
  std::uint64_t base() const { return base_; }  // offset of the oldest byte still kept
  std::uint64_t end() const { return base_ + (bytes_.size() - head_); }
  std::size_t size() const { return bytes_.size() - head_; }
  void append(std::string_view bytes) { bytes_.append(bytes); }
  // Up to `most` bytes from offset on, which is within base() and end(). Lives until the next change.
  std::string_view read(std::uint64_t offset, std::size_t most) const {
    return std::string_view(bytes_).substr(head_ + (std::clamp(offset, base_, end()) - base_), most);
  }
  // All before it is safe elsewhere.
  void trim(std::uint64_t offset) {
    offset = std::clamp(offset, base_, end());
    head_ += offset - base_;
    base_ = offset;
    if (head_ < bytes_.size() && head_ <= kMoved)
      return;
    bytes_.erase(0, head_);
    head_ = 0;
  }

 private:
  static constexpr std::size_t kMoved = 1 << 20;

  std::string bytes_;
  std::size_t head_ = 0;
  std::uint64_t base_ = 0;
};

}  // namespace lockstep
