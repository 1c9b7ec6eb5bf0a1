// LineStream: the lines of a streamed HTTP/1.1 answer, as its bytes come.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

class LineStream {
 public:
  // line_max: bytes of a line.
  LineStream(std::size_t line_max, std::function<void(std::string_view)> line)
      : line_max_(line_max), line_(std::move(line)) {}

  // True: that was all. An error: it is no answer of ours, or says that there is none (`Error::message`).
  Result<bool> feed(std::string_view bytes);

 private:
  enum class State : unsigned char { kHead, kSize, kChunk, kBehindChunk, kPlain, kEnd };
  Result<void> read_head();
  Result<void> take(std::string_view body);

  std::size_t line_max_;
  std::function<void(std::string_view)> line_;
  State state_ = State::kHead;
  int status_ = 0;
  std::uint64_t left_ = 0;  // of a chunk
  std::string pending_;     // head, or a chunk's own line
  std::string part_;        // of a line
};

}  // namespace lockstep
