// libFuzzer entry over answers of servers that the API stands in front of: in two pieces they are read as in one.
#include "base/check.h"
#include "frontends/kube/server/http_reply.h"

namespace {

struct Read {
  std::string body;
  int heads = 0, ends = 0;
  bool good = false;
};

Read read(std::string_view first, std::string_view second) {
  using namespace lockstep;
  Read out;
  kube::HttpReplyReader reader({.head = [&](const kube::HttpReplyReader::Head&) { ++out.heads; },
                                .body = [&](std::string_view bytes) { out.body += bytes; },
                                .end = [&] { ++out.ends; }});
  out.good = reader.feed(first).ok() && reader.feed(second).ok() && reader.closed().ok();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const Read whole = read(all, {}), halves = read(all.substr(0, size / 2), all.substr(size / 2));
  CHECK(whole.heads <= 1 && whole.ends <= 1 && whole.ends <= whole.heads);
  if (whole.good && halves.good)
    CHECK(whole.body == halves.body);
  return 0;
}
