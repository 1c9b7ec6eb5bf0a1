// libFuzzer entry over HTTP requests that come in pieces, pipelined, with bodies and upgrades: the parser takes no more
// than it is given, lets no body past its bound, keeps no line that does not end, and knows the status of what it
// refuses.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "io/http_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  constexpr std::size_t kHeaderBytes = 1 << 10;
  if (size < 3)
    return 0;
  const std::size_t piece = 1 + data[0] % 64, growth = data[1] % 8, bound = std::size_t{data[2]} * 4;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 3, size - 3);
  HttpParser parser(kHeaderBytes);
  std::string pending;
  std::size_t next = piece;
  bool has_head = false;
  while (true) {
    const auto fed = parser.feed(pending);
    CHECK(fed.consumed <= pending.size());
    pending.erase(0, fed.consumed);
    CHECK(parser.body_bytes() <= bound);
    switch (fed.progress) {
      case HttpParser::Progress::kBad: CHECK(parser.bad_status() >= 400); return 0;
      case HttpParser::Progress::kHead:
        CHECK(!has_head, "a head is told once");
        has_head = true;
        (void)parser.announced_bytes();
        parser.allow_body(bound);
        continue;
      case HttpParser::Progress::kMessage: {
        const bool upgrade = parser.wants_upgrade();
        const HttpRequest request = parser.take();
        CHECK(!upgrade || request.headers.contains("upgrade"));
        CHECK(request.body.empty() || has_head, "no body without its bound");
        CHECK(request.body.size() <= bound);
        has_head = false;
        continue;
      }
      case HttpParser::Progress::kNeedMore: break;
    }
    CHECK(pending.size() <= kHeaderBytes + 64, "what is kept is bounded");
    if (bytes.empty())
      return 0;
    const std::size_t n = std::min(next, bytes.size());
    next += growth;
    pending.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
  }
}
