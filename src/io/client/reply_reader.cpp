#include "io/client/reply_reader.h"

#include "base/http_head.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kHeaderMax = 64 << 10;
constexpr std::size_t kReplyMax = std::size_t{4} << 30;  // a broken peer must not fill our memory

Error broken(std::string_view what) { return {Errc::kCorrupt, format("the answer is not valid HTTP: {}", what), {}}; }

}  // namespace

Result<bool> ReplyReader::line(std::string_view& out) {
  const std::size_t end = pending_.find("\r\n", at_);
  if (end == std::string::npos) {
    if (pending_.size() - at_ > kHeaderMax)
      return broken("a line without an end");
    return false;
  }
  out = std::string_view(pending_).substr(at_, end - at_);
  at_ = end + 2;
  return true;
}

Result<void> ReplyReader::header(std::string_view text) {
  auto head = parse_reply_head(text);
  if (!head.ok())
    return broken(head.error().message);
  reply_ = {};
  reply_.status = head->status;
  keep_alive_ = head->minor_version >= 1;
  for (auto& [name, value] : head->fields) {
    if (name == "content-type")
      reply_.content_type = std::move(value);
    else if (name == "connection")
      keep_alive_ = lower(value) != "close";
  }
  const auto length = head->framing.length();
  if (length.value_or(0) > kReplyMax)
    return broken("its body is too long");
  left_ = length.value_or(0);
  if (reply_.status == 101 || reply_.status == 204 || reply_.status == 304 || length == 0) {
    state_ = State::kDone;
  } else if (head->framing.chunked()) {
    state_ = State::kChunkSize;
  } else if (length) {
    reply_.body.reserve(std::min<std::uint64_t>(left_, 16 << 20));
    state_ = State::kLength;
  } else {
    state_ = State::kUntilClose;
    keep_alive_ = false;
  }
  return {};
}

Result<bool> ReplyReader::feed(std::string_view bytes) {
  if (state_ == State::kLength && pending_.empty()) {  // the body of a long answer is not copied twice
    const std::size_t n = std::min<std::uint64_t>(left_, bytes.size());
    reply_.body.append(bytes.substr(0, n));
    left_ -= n;
    bytes.remove_prefix(n);
    if (left_ == 0)
      state_ = State::kDone;
  }
  pending_.append(bytes);
  bool more = true;
  while (more && state_ != State::kDone) {
    const std::string_view here = std::string_view(pending_).substr(at_);
    switch (state_) {
      case State::kHeader: {
        const std::size_t end = here.find("\r\n\r\n");
        if (end == std::string_view::npos) {
          if (here.size() > kHeaderMax)
            return broken("a header without an end");
          more = false;
          break;
        }
        TRY(header(here.substr(0, end + 2)));
        at_ += end + 4;
        if (reply_.status < 200 && reply_.status != 101)
          state_ = State::kHeader;
        break;
      }
      case State::kLength:
      case State::kChunk: {
        const std::size_t n = std::min<std::uint64_t>(left_, here.size());
        reply_.body.append(here.substr(0, n));
        at_ += n;
        left_ -= n;
        more = left_ == 0;
        if (left_ == 0)
          state_ = state_ == State::kLength ? State::kDone : State::kTrailer;
        break;
      }
      case State::kChunkSize: {
        std::string_view text;
        more = TRY(line(text));
        if (!more)
          break;
        const auto size = parse_chunk_line(text);
        if (!size || reply_.body.size() + *size > kReplyMax)
          return broken("a chunk's size");
        left_ = *size;
        state_ = left_ > 0 ? State::kChunk : State::kTrailer;
        last_chunk_ = left_ == 0;
        break;
      }
      case State::kTrailer: {
        std::string_view text;
        more = TRY(line(text));
        if (!more)
          break;
        if (!last_chunk_) {
          if (!text.empty())
            return broken("a chunk without an end");
          state_ = State::kChunkSize;
        } else if (text.empty()) {
          state_ = State::kDone;
        }
        break;
      }
      case State::kUntilClose:
        if (reply_.body.size() + here.size() > kReplyMax)
          return broken("too long");
        reply_.body.append(here);
        at_ = pending_.size();
        more = false;
        break;
      case State::kDone: break;
    }
  }
  pending_.erase(0, at_);
  at_ = 0;
  return state_ == State::kDone;
}

Result<void> ReplyReader::end() {
  if (state_ == State::kUntilClose) {
    state_ = State::kDone;
    return {};
  }
  return Error{Errc::kUnavailable, "the connection was closed in the middle of an answer", {}};
}

ApiClient::Reply ReplyReader::take() {
  state_ = State::kHeader;
  return std::move(reply_);
}

}  // namespace lockstep
