// HTTP/1.1 answers as they come: a head, then pieces of a body, for who passes them on. No I/O; client/reply_reader.h
// keeps whole ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct ReplyHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case, as often as they came
};

class ReplyFlow {
 public:
  static constexpr std::size_t kHeadMax = 64 << 10;

  ReplyFlow(bool has_body, std::function<void(ReplyHead)> on_head, std::function<void(std::string_view)> on_body)
      : has_body_(has_body), on_head_(std::move(on_head)), on_body_(std::move(on_body)) {}

  // True when the answer is complete; what comes behind it is dropped. Heads of interim answers (1xx) are skipped.
  Result<bool> feed(std::string_view bytes);
  // The peer closed: completes an answer without a length, else it is an error.
  Result<void> end() const;

 private:
  enum class State : unsigned char { kHead, kLength, kChunkSize, kChunk, kChunkEnd, kTrailer, kUntilClose, kDone };
  Result<void> read_head(std::string_view text);
  Result<void> read_chunk_size(std::string_view line);
  // A line that is complete; false: there is none yet.
  Result<bool> line(std::string_view& bytes, std::string& out);

  bool has_body_;  // false: of HEAD
  std::function<void(ReplyHead)> on_head_;
  std::function<void(std::string_view)> on_body_;
  State state_ = State::kHead;
  std::string held_;  // of the head or a line that is not complete
  std::uint64_t left_ = 0;
};

}  // namespace lockstep
