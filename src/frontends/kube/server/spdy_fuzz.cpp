// libFuzzer entry over the frames of a SPDY client: whatever comes, in two pieces, is read or refused.
#include "frontends/kube/server/spdy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  kube::SpdySession* here = nullptr;
  kube::SpdySession session(
      {.opened = [&](std::uint32_t stream, const kube::SpdyHeaders&, bool) { here->reply(stream); },
       .data = [&](std::uint32_t stream, std::string_view bytes, bool last) { here->data(stream, bytes, last); },
       .reset = [](std::uint32_t) {},
       .going = [] {}},
      [](const std::string&) {});
  here = &session;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  if (session.feed(all.substr(0, size / 2)).ok())
    (void)session.feed(all.substr(size / 2));
  return 0;
}
