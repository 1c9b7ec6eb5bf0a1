#include "frontends/kube/server/http_reply.h"

#include <algorithm>

#include "base/http_head.h"
#include "base/text.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kHeadMax = 64 << 10, kChunkLineMax = 1 << 10, kTrailersMax = 64;
constexpr int kSwitching = 101, kNoContent = 204, kNotModified = 304;

}  // namespace

std::string HttpReplyReader::Head::value(std::string_view lower_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_name)
      return value;
  return {};
}

Result<bool> HttpReplyReader::read_head() {
  std::size_t end = in_.find("\r\n\r\n"), size = 4;
  if (const std::size_t bare = in_.find("\n\n"); bare < end) {
    end = bare;
    size = 2;
  }
  if (end == in_.npos)
    return in_.size() > kHeadMax ? Result<bool>(invalid("its head is too long")) : Result<bool>(false);
  if (end > kHeadMax)
    return invalid("its head is too long");
  HttpReplyHead read = TRY(parse_reply_head(std::string_view(in_).substr(0, end)));
  in_.erase(0, end + size);
  if (read.status < 200 && read.status != kSwitching)
    return true;
  const Head head{read.status, std::move(read.fields)};
  const auto length = read.framing.length();
  const bool none = without_body_ || head.status == kNoContent || head.status == kNotModified || length == 0;
  if (head.status == kSwitching)
    stage_ = Stage::kUntilClose;
  else if (none)
    stage_ = Stage::kOver;
  else if (read.framing.chunked())
    stage_ = Stage::kChunkSize;
  else
    stage_ = length ? Stage::kLength : Stage::kUntilClose;
  left_ = length.value_or(0);
  sink_.head(head);
  if (stage_ == Stage::kOver)
    sink_.end();
  return true;
}

Result<bool> HttpReplyReader::take_line(std::string& line, std::size_t most) {
  const std::size_t end = in_.find('\n');
  if (end == in_.npos)
    return in_.size() > most ? Result<bool>(invalid("a line of its body is too long")) : Result<bool>(false);
  line = in_.substr(0, end);
  in_.erase(0, end + 1);
  if (!line.ends_with('\r'))
    return invalid("a line of its body ends without a carriage return");
  line.pop_back();
  return true;
}

Result<bool> HttpReplyReader::read_chunk_size() {
  std::string line;
  if (!TRY(take_line(line, kChunkLineMax)))
    return false;
  const auto size = parse_chunk_line(line);
  if (!size)
    return invalid("the size of a chunk is no number");
  left_ = *size;
  stage_ = left_ == 0 ? Stage::kTrailer : Stage::kChunk;
  return true;
}

void HttpReplyReader::give(std::size_t most) {
  const std::string piece = in_.substr(0, most);
  in_.erase(0, most);
  sink_.body(piece);
}

void HttpReplyReader::finish() {
  stage_ = Stage::kOver;
  sink_.end();
}

Result<void> HttpReplyReader::feed(std::string_view bytes) {
  in_.append(bytes);
  for (;;) {
    switch (stage_) {
      case Stage::kHead:
        if (!TRY(read_head()))
          return {};
        break;
      case Stage::kChunkSize:
        if (!TRY(read_chunk_size()))
          return {};
        break;
      case Stage::kLength:
      case Stage::kChunk: {
        if (in_.empty())
          return {};
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(in_.size(), left_));
        left_ -= size;
        give(size);
        if (left_ == 0 && stage_ == Stage::kLength)
          finish();
        else if (left_ == 0)
          stage_ = Stage::kChunkEnd;
        break;
      }
      case Stage::kChunkEnd: {
        std::string line;
        if (!TRY(take_line(line, 2)))
          return {};
        if (!line.empty())
          return invalid("a chunk is longer than it says");
        stage_ = Stage::kChunkSize;
        break;
      }
      case Stage::kTrailer: {
        std::string line;
        if (!TRY(take_line(line, kHeadMax)))
          return {};
        if (line.empty())
          finish();
        else if (++trailers_ > kTrailersMax)
          return invalid("it has too many trailers");
        break;
      }
      case Stage::kUntilClose:
        if (!in_.empty())
          give(in_.size());
        return {};
      case Stage::kOver: return {};
    }
  }
}

Result<void> HttpReplyReader::closed() {
  if (stage_ == Stage::kUntilClose)
    finish();
  return stage_ == Stage::kOver ? Result<void>() : Result<void>(Error{Errc::kUnavailable, "the connection ended", {}});
}

}  // namespace lockstep::kube
