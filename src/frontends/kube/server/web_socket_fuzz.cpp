// libFuzzer entry over the frames of a WebSocket client that come in pieces: the reader takes no more than its bound.
#include "base/check.h"
#include "frontends/kube/server/web_socket.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  kube::WebSocketReader reader;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t half = size / 2;
  for (const std::string_view piece : {all.substr(0, half), all.substr(half)})
    if (!reader
             .feed(piece,
                   [](const kube::WebSocketMessage& one) { CHECK(one.data.size() <= kube::kWebSocketMessageMax); })
             .ok())
      break;
  return 0;
}
