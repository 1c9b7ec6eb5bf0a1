// The frames of a stream to a container (model/container_ask.h): a byte for the channel, four for the length, the
// highest first, and the bytes.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "model/container_ask.h"

namespace lockstep {

inline constexpr std::size_t kContainerFrameMax = 1 << 20;  // a longer one ends the stream

inline void append_container_frame(std::string& out, ContainerChannel channel, std::string_view bytes) {
  const auto size = static_cast<std::uint32_t>(bytes.size());
  out.push_back(static_cast<char>(channel));
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<char>(size >> shift & 0xff));
  out.append(bytes);
}

class ContainerFrameReader {
 public:
  // Calls take(channel, bytes) for every frame that is whole. False: what came is no frame.
  template <class Take>
  bool feed(std::string_view bytes, Take take) {
    held_.append(bytes);
    std::size_t at = 0;
    while (held_.size() - at >= kHead) {
      std::uint32_t size = 0;
      for (std::size_t i = 1; i < kHead; ++i) size = size << 8 | static_cast<unsigned char>(held_[at + i]);
      if (size > kContainerFrameMax)
        return false;
      if (held_.size() - at - kHead < size)
        break;
      take(static_cast<ContainerChannel>(held_[at]), std::string_view(held_).substr(at + kHead, size));
      at += kHead + size;
    }
    held_.erase(0, at);
    return true;
  }

 private:
  static constexpr std::size_t kHead = 5;
  std::string held_;
};

}  // namespace lockstep
