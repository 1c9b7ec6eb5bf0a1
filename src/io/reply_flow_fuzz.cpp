// Answers of servers that others run, in pieces: nothing may crash, and no body is longer than what came.
#include "base/check.h"
#include "io/reply_flow.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace lockstep;
  if (size == 0)
    return 0;
  const std::size_t piece = 1 + data[0] % 64;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::size_t body = 0;
  ReplyFlow flow((data[0] & 0x80) == 0, [](const ReplyHead&) {}, [&](std::string_view bytes) { body += bytes.size(); });
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const auto fed = flow.feed(text.substr(at, piece));
    if (!fed.ok() || *fed)
      break;
  }
  CHECK(body <= text.size());
  (void)flow.end();
  return 0;
}
