// The head of an HTTP/1.1 message as every reader here understands it: its fields, and where the body behind it ends
// (RFC 9112, sections 5 to 7). Two readers who see the end of a body in different places take a part of it for the next
// message, so a head that could be understood in two ways is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep {

class BodyFraming {
 public:
  // A field of the head, its name in lower case. kUnsupported: a transfer coding that nobody here reads.
  Result<void> take(std::string_view name, std::string_view value);
  // After the last field. minor_version: 1 of HTTP/1.1.
  Result<void> settle(int minor_version) const;

  bool chunked() const { return chunked_; }
  std::optional<std::uint64_t> length() const { return length_; }

 private:
  bool chunked_ = false;
  std::optional<std::uint64_t> length_;
};

struct HttpReplyHead {
  int status = 0, minor_version = 1;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case, as often and in the order they came
  BodyFraming framing;
};

// text: up to the empty line. Lines may end without a carriage return; one that goes on in the next is an error.
Result<HttpReplyHead> parse_reply_head(std::string_view text);

// The line in front of a chunk, which had ended in CR LF: its size, of at most 15 hexadecimal digits. Extensions are
// dropped.
std::optional<std::uint64_t> parse_chunk_line(std::string_view line);

}  // namespace lockstep
