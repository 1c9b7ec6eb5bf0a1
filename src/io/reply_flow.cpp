#include "io/reply_flow.h"

#include <algorithm>

#include "base/http_head.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kLineMax = 8 << 10;  // of a chunk's size with its extensions, and of a trailer

Error broken(std::string why) { return {Errc::kUnavailable, "malformed HTTP response: " + std::move(why), {}}; }

}  // namespace

Result<bool> ReplyFlow::line(std::string_view& bytes, std::string& out) {
  const auto end = bytes.find('\n');
  held_.append(bytes.substr(0, end));
  if (held_.size() > kLineMax)
    return broken("a line is too long");
  bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
  if (end == std::string_view::npos)
    return false;
  if (!held_.ends_with('\r'))
    return broken("a line of its body ends without a carriage return");
  held_.pop_back();
  out = std::exchange(held_, {});
  return true;
}

Result<bool> ReplyFlow::feed(std::string_view bytes) {
  std::string text;
  while (state_ != State::kDone && (!bytes.empty() || state_ == State::kHead)) {
    switch (state_) {
      case State::kHead: {
        const std::size_t had = held_.size();
        held_.append(bytes);
        const auto end = held_.find("\r\n\r\n", had > 3 ? had - 3 : 0);
        if (std::min(end, held_.size()) > kHeadMax)
          return broken("its head is too long");
        if (end == held_.npos)
          return false;
        bytes.remove_prefix(end + 4 - had);
        const std::string head = std::exchange(held_, {}).substr(0, end);
        TRY(read_head(head));
        if (state_ == State::kHead && bytes.empty())  // an interim one
          return false;
        break;
      }
      case State::kLength:
      case State::kChunk: {
        const std::string_view piece =
            bytes.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size())));
        bytes.remove_prefix(piece.size());
        left_ -= piece.size();
        on_body_(piece);
        if (left_ == 0)
          state_ = state_ == State::kLength ? State::kDone : State::kChunkEnd;
        break;
      }
      case State::kChunkSize:
        if (TRY(line(bytes, text)))
          TRY(read_chunk_size(text));
        break;
      case State::kChunkEnd:
        if (TRY(line(bytes, text))) {
          if (!text.empty())
            return broken("a chunk is longer than it says");
          state_ = State::kChunkSize;
        }
        break;
      case State::kTrailer:
        if (TRY(line(bytes, text)) && text.empty())
          state_ = State::kDone;
        break;
      case State::kUntilClose:
        on_body_(bytes);
        bytes = {};
        break;
      case State::kDone: break;
    }
  }
  return state_ == State::kDone;
}

Result<void> ReplyFlow::read_chunk_size(std::string_view line) {
  const auto size = parse_chunk_line(line);
  if (!size)
    return broken("a chunk has no size");
  left_ = *size;
  state_ = left_ == 0 ? State::kTrailer : State::kChunk;
  return {};
}

Result<void> ReplyFlow::read_head(std::string_view text) {
  auto head = parse_reply_head(text);
  if (!head.ok())
    return broken(head.error().message);
  const int status = head->status;
  if (status < 200 && status != 101)
    return {};
  const auto length = head->framing.length();
  left_ = length.value_or(0);
  if (!has_body_ || status == 101 || status == 204 || status == 304 || length == 0)
    state_ = State::kDone;
  else if (head->framing.chunked())
    state_ = State::kChunkSize;
  else
    state_ = length ? State::kLength : State::kUntilClose;
  on_head_({status, std::move(head->fields)});
  return {};
}

Result<void> ReplyFlow::end() const {
  if (state_ == State::kDone || state_ == State::kUntilClose)
    return {};
  return Error{Errc::kUnavailable, state_ == State::kHead && held_.empty() ? "EOF" : "unexpected EOF", {}};
}

}  // namespace lockstep
