// Room for an answer that is written piece by piece. A text that doubles whenever it is full is copied as a whole each
// time: 32 MiB of a long list held the I/O thread, and everybody, for 25 ms. What becomes long gets all its room once;
// pages of it that nobody writes to cost nothing.
#pragma once

#include <string>

namespace lockstep {

inline constexpr std::size_t kLongReply = 1 << 20;

// Before each piece of at most piece_bytes. most: how long the answer may become.
inline void make_room(std::string& body, std::size_t piece_bytes, std::size_t most) {
  if (body.size() + piece_bytes > kLongReply && body.capacity() < most)
    body.reserve(most + piece_bytes);
}

}  // namespace lockstep
