// One HTTP/1.1 reply out of bytes as they come. No I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ports/http.h"

namespace lockstep {

class ReplyReader {
 public:
  // True when the reply is complete. Interim replies (1xx except 101) are skipped.
  Result<bool> feed(std::string_view bytes);
  // The peer closed: completes a reply without a length, else it is an error.
  Result<void> end();

  ApiClient::Reply take();
  bool keep_alive() const { return keep_alive_; }
  bool started() const { return !pending_.empty() || state_ != State::kHeader; }

 private:
  enum class State : unsigned char { kHeader, kLength, kChunkSize, kChunk, kTrailer, kUntilClose, kDone };
  Result<void> header(std::string_view text);
  Result<bool> line(std::string_view& out);

  State state_ = State::kHeader;
  std::string pending_;
  std::size_t at_ = 0;  // of pending_, consumed
  std::uint64_t left_ = 0;
  bool keep_alive_ = true, last_chunk_ = false;
  ApiClient::Reply reply_;
};

}  // namespace lockstep
