#include "frontends/kube/server/http_reply.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kHeadMax = 64 << 10, kChunkLineMax = 1 << 10, kTrailersMax = 64;
constexpr int kSwitching = 101, kNoContent = 204, kNotModified = 304;

bool is_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_value(std::string_view value) {
  return std::ranges::none_of(value,
                              [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; });
}

Result<HttpReplyReader::Head> parse_head(std::string_view text) {
  HttpReplyReader::Head out;
  bool first = true;
  for (std::string line : split(text, '\n')) {
    if (line.ends_with('\r'))
      line.pop_back();
    if (std::exchange(first, false)) {
      const auto code = line.size() >= 12 && line.starts_with("HTTP/1.") ? parse_uint(line.substr(9, 3)) : std::nullopt;
      if (!code || *code < 100 || *code > 599 || (line.size() > 12 && line[12] != ' '))
        return invalid("its first line is none of HTTP/1.1");
      out.status = static_cast<int>(*code);
      continue;
    }
    if (line.empty())
      continue;
    const std::size_t colon = line.find(':');
    const std::string_view name = std::string_view(line).substr(0, colon);
    const std::string_view value =
        colon == line.npos ? std::string_view() : trim(std::string_view(line).substr(colon + 1));
    if (colon == line.npos || !is_name(name) || !is_value(value))
      return invalid("one of its headers is none");
    out.headers.emplace_back(lower(name), value);
  }
  return out;
}

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
  const Head head = TRY(parse_head(std::string_view(in_).substr(0, end)));
  in_.erase(0, end + size);
  if (head.status < 200 && head.status != kSwitching)
    return true;
  const std::string length = head.value("content-length"), coding = lower(head.value("transfer-encoding"));
  const auto number = parse_uint(length);
  if (!length.empty() && !number)
    return invalid("the length of its body is no number");
  const bool none = without_body_ || head.status == kNoContent || head.status == kNotModified;
  if (head.status == kSwitching)
    stage_ = Stage::kUntilClose;
  else if (none || (coding.empty() && number && *number == 0))
    stage_ = Stage::kOver;
  else if (coding.ends_with("chunked"))
    stage_ = Stage::kChunkSize;
  else if (number && coding.empty())
    stage_ = Stage::kLength;
  else
    stage_ = Stage::kUntilClose;
  left_ = number.value_or(0);
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
  if (line.ends_with('\r'))
    line.pop_back();
  return true;
}

Result<bool> HttpReplyReader::read_chunk_size() {
  std::string line;
  if (!TRY(take_line(line, kChunkLineMax)))
    return false;
  const std::string_view digits = trim(std::string_view(line).substr(0, line.find(';')));
  if (digits.empty() || digits.size() > 15 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos)
    return invalid("the size of a chunk is no number");
  left_ = 0;
  for (const char c : digits)
    left_ = left_ * 16 + static_cast<std::uint64_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
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
