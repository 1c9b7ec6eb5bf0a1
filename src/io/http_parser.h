// HTTP/1.1 requests out of bytes, one after the other. Beast does the parsing proper; this fills our request type and
// holds the limits. No sockets: the fuzzer drives it directly.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "ports/http.h"

namespace lockstep {

class HttpParser {
 public:
  explicit HttpParser(std::size_t header_bytes);
  ~HttpParser();

  // kHead: the head is complete and a body follows: say with allow_body() how much of it, then feed on.
  enum class Progress : unsigned char { kNeedMore, kHead, kMessage, kBad };
  struct Fed {
    Progress progress = Progress::kNeedMore;
    std::size_t consumed = 0;  // the caller feeds the rest again, with more behind it
  };
  // After kBad the connection is beyond repair: answer bad_status() and close.
  Fed feed(std::string_view bytes);

  // After kMessage; the next feed() begins a new one.
  HttpRequest take();
  // After kHead, until the message ends.
  const HttpRequest& head() const;
  std::optional<std::uint64_t> announced_bytes() const;  // nothing: chunked, as long as it comes
  void allow_body(std::size_t bytes);                    // a longer one is kBad with 413

  std::size_t body_bytes() const;  // of the body, so far
  bool keep_alive() const;
  bool takes_chunks() const;  // HTTP/1.1: a body may come in chunks
  bool wants_upgrade() const;

  bool mid_message() const;       // some of a request has been consumed
  bool mid_body() const;          // its header is complete
  bool expects_continue() const;  // and the client waits for "100 Continue" before it sends the body
  int bad_status() const;
  const std::string& bad_reason() const;

 private:
  struct Inner;
  std::unique_ptr<Inner> inner_;
};

// "/a%20b?x=1" -> path and query. False when an escape is malformed or hides a NUL.
bool split_target(std::string_view target, HttpRequest& request);

}  // namespace lockstep
