#include "base/http_head.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kShownBytes = 40, kChunkDigits = 15;

bool is_token(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_plain(std::string_view text) {
  return std::ranges::none_of(text,
                              [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; });
}

Result<void> parse_status_line(std::string_view line, HttpReplyHead& out) {
  const bool known = line.size() >= 12 && (line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ")) &&
                     (line.size() == 12 || line[12] == ' ') && is_plain(line);
  const auto status = known ? parse_uint(line.substr(9, 3)) : std::nullopt;
  if (!status || *status < 100 || *status > 599)
    return invalid("it begins with no status");
  out.status = static_cast<int>(*status);
  out.minor_version = line[7] - '0';
  return {};
}

}  // namespace

Result<void> BodyFraming::take(std::string_view name, std::string_view value) {
  if (name == "transfer-encoding") {
    if (chunked_)
      return Error{Errc::kUnsupported, "two transfer codings: \"chunked\" alone is read", {}};
    if (lower(value) != "chunked")
      return Error{
          Errc::kUnsupported,
          format("the transfer coding \"{}\" is not known: \"chunked\" alone is read", value.substr(0, kShownBytes)),
          {}};
    chunked_ = true;
  } else if (name == "content-length") {
    const auto number = parse_uint(value);
    if (!number || (length_ && *length_ != *number))
      return invalid(number ? "its body has two lengths" : "the length of its body is no number");
    length_ = number;
  }
  return {};
}

Result<void> BodyFraming::settle(int minor_version) const {
  if (chunked_ && length_)
    return invalid("its body has a length and comes in chunks");
  if (chunked_ && minor_version < 1)
    return invalid("its body comes in chunks, which HTTP/1.0 does not know");
  return {};
}

Result<HttpReplyHead> parse_reply_head(std::string_view text) {
  HttpReplyHead out;
  const auto next_line = [&text] {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    return line;
  };
  TRY(parse_status_line(next_line(), out));
  while (!text.empty()) {
    const std::string_view line = next_line();
    const std::size_t colon = line.find(':');
    // A blank at its beginning would continue the line before; one before the colon hides the field from others.
    if (colon == line.npos || !is_token(line.substr(0, colon)))
      return invalid("one of its headers has no name");
    if (!is_plain(line.substr(colon + 1)))
      return invalid("one of its headers has control characters");
    std::string name = lower(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    TRY(out.framing.take(name, value));
    out.fields.emplace_back(std::move(name), std::string(value));
  }
  TRY(out.framing.settle(out.minor_version));
  return out;
}

std::optional<std::uint64_t> parse_chunk_line(std::string_view line) {
  const std::size_t end = std::min(line.find(';'), line.size());
  const std::string_view digits = trim(line.substr(0, end));
  if (digits.empty() || digits.size() > kChunkDigits || !is_plain(line) ||
      digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos)
    return std::nullopt;
  std::uint64_t size = 0;
  for (const char c : digits) size = size * 16 + static_cast<std::uint64_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  return size;
}

}  // namespace lockstep
