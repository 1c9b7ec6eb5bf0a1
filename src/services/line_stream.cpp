#include "services/line_stream.h"

#include "base/http_head.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kHeadMax = 64 << 10, kSizeLineMax = 64;
constexpr std::uint64_t kChunkMax = 64u << 20;

}  // namespace

Result<void> LineStream::read_head() {
  const HttpReplyHead head = TRY(parse_reply_head(std::string_view(pending_).substr(0, pending_.size() - 4)));
  status_ = head.status;
  state_ = head.framing.chunked() ? State::kSize : State::kPlain;
  pending_.clear();
  if (status_ == 200)
    return {};
  return Error{Errc::kUnavailable, format("the controller answers {}", status_), {}};
}

Result<void> LineStream::take(std::string_view body) {
  while (!body.empty()) {
    const auto end = body.find('\n');
    const std::string_view piece = body.substr(0, end);
    if (part_.size() + piece.size() > line_max_)
      return invalid(format("a line of more than {} bytes", line_max_));
    part_ += piece;
    if (end == body.npos)
      return {};
    line_(part_);
    part_.clear();
    body.remove_prefix(end + 1);
  }
  return {};
}

Result<bool> LineStream::feed(std::string_view bytes) {
  while (!bytes.empty() && state_ != State::kEnd) {
    if (state_ == State::kPlain) {
      TRY(take(bytes));
      return false;
    }
    if (state_ == State::kChunk) {
      const std::string_view piece = bytes.substr(0, left_);
      TRY(take(piece));
      left_ -= piece.size();
      bytes.remove_prefix(piece.size());
      if (left_ == 0)
        state_ = State::kBehindChunk;
      continue;
    }
    pending_ += bytes.front();
    bytes.remove_prefix(1);
    if (pending_.size() > (state_ == State::kHead ? kHeadMax : kSizeLineMax))
      return invalid("no HTTP answer");
    if (state_ == State::kHead) {
      if (pending_.ends_with("\r\n\r\n"))
        TRY(read_head());
    } else if (pending_.ends_with("\r\n")) {
      if (state_ == State::kSize) {
        const auto size = parse_chunk_line(std::string_view(pending_).substr(0, pending_.size() - 2));
        left_ = size.value_or(0);
        if (!size || left_ > kChunkMax)
          return invalid("no chunk of an HTTP answer");
      }
      state_ = state_ == State::kBehindChunk ? State::kSize : left_ == 0 ? State::kEnd : State::kChunk;
      pending_.clear();
    }
  }
  return state_ == State::kEnd;
}

}  // namespace lockstep
