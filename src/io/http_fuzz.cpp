// libFuzzer entry over HTTP requests that come in pieces: the parser takes no more than it is given, and knows the
// status of what it refuses.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "io/http_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  if (size == 0)
    return 0;
  const std::size_t piece = 1 + data[0];
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  HttpParser parser(1 << 10, 1 << 10);
  std::string pending;
  while (true) {
    const auto fed = parser.feed(pending);
    CHECK(fed.consumed <= pending.size());
    pending.erase(0, fed.consumed);
    switch (fed.progress) {
      case HttpParser::Progress::kBad: CHECK(parser.bad_status() >= 400); return 0;
      case HttpParser::Progress::kMessage:
        (void)parser.wants_upgrade();
        (void)parser.take();
        continue;
      case HttpParser::Progress::kNeedMore: break;
    }
    if (bytes.empty())
      return 0;
    const std::size_t n = std::min(piece, bytes.size());
    pending.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
  }
}
