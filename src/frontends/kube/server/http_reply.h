// The answer of a server behind us to one request, read from a stream: its head, then its body in pieces.
// Source: RFC 9112, sections 4 to 7.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep::kube {

class HttpReplyReader {
 public:
  struct Head {
    int status = 0;
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case, in their order
    std::string value(std::string_view lower_name) const;      // of several the first; "" = there is none
  };
  struct Sink {
    std::function<void(const Head&)> head;
    std::function<void(std::string_view)> body;
    std::function<void()> end;
  };
  // without_body: it answers a HEAD.
  explicit HttpReplyReader(Sink sink, bool without_body = false)
      : sink_(std::move(sink)), without_body_(without_body) {}

  // Error: it is no answer of HTTP/1.1, or its head is too long; nothing more is read then. Interim answers (1xx) are
  // left out, but for 101: what follows that is body until the stream ends.
  Result<void> feed(std::string_view bytes);
  // The stream has ended. Error: more was to come.
  Result<void> closed();
  bool has_head() const { return stage_ != Stage::kHead; }
  bool over() const { return stage_ == Stage::kOver; }

 private:
  enum class Stage : unsigned char { kHead, kLength, kChunkSize, kChunk, kChunkEnd, kTrailer, kUntilClose, kOver };
  Result<bool> read_head();  // false: there is not a whole one yet
  Result<bool> read_chunk_size();
  Result<bool> take_line(std::string& line, std::size_t most);
  void give(std::size_t most);
  void finish();

  Sink sink_;
  const bool without_body_;
  Stage stage_ = Stage::kHead;
  std::string in_;
  std::uint64_t left_ = 0;  // bytes of the body or of the chunk
  std::size_t trailers_ = 0;
};

}  // namespace lockstep::kube
