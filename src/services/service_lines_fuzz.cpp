// libFuzzer entry over what the controller answers, in pieces: lines of the table, the view they make, and the text for
// the packet filter, in which nothing of what was said becomes a word of its own.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "services/line_stream.h"
#include "services/packet_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  if (size < 1)
    return 0;
  const std::size_t piece = 1 + data[0] % 64;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  ServiceView view;
  PacketRules rules({"lockstep-fuzz", "n1", "10.70.128.0/25", "10.70.0.1", 6820});
  LineStream stream(1 << 10, [&](std::string_view line) {
    CHECK(line.find('\n') == line.npos && line.size() <= 1 << 10);
    if (auto read = decode_service_line(line); read.ok())
      view.hear(std::move(*read));
  });
  while (!bytes.empty()) {
    const auto fed = stream.feed(bytes.substr(0, piece));
    if (!fed.ok() || *fed)
      break;
    bytes.remove_prefix(std::min(piece, bytes.size()));
    rules.update(view, view.take_changes());
    const std::string text = rules.since_settled();
    CHECK(text.find("flush ruleset") == text.npos && text.find("include") == text.npos);
    rules.settle();
  }
  return 0;
}
