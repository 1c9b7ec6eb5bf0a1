// libFuzzer entry over answers of HTTP servers that probes ask, and where they lead on: whatever a server writes, the
// next question goes to the same host, is one line, and has no header that is not ours.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "shim/http_look.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const HttpAsk asked{"10.0.0.1", "/a/b?c", "", 8080, nullptr};
  const auto answer = read_http_answer(bytes);
  if (!answer)
    return 0;
  if (const auto next = led_on(asked, *answer)) {
    CHECK(next->ask.host == asked.host && next->ask.port != 0 && next->ask.path.starts_with('/'));
    const std::string text = http_text(next->ask);
    CHECK(std::ranges::count(text, '\n') == std::ranges::count(http_text(asked), '\n'), "a header of the server's");
  }
  return 0;
}
