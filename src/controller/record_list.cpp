#include "controller/record_list.h"

#include "base/text.h"
#include "wire/codec.h"

namespace lockstep {

PageReply record_list(Kind kind, const Viewer& viewer, std::vector<Record> records) {
  PageReply reply{200, "application/json", format("{{\"{}s\":[", row_of(kind).word), {}};
  reply.more = [viewer, records = std::move(records), at = std::size_t{0}, first = true](std::string& body) mutable {
    constexpr std::size_t kAtOnce = 32;
    const std::size_t end = body.size() + kListPieceBytes;
    for (std::size_t n = 0; n < kAtOnce && at < records.size() && body.size() < end; ++n, ++at) {
      const auto shown = shown_to(viewer, records[at]);
      if (!shown)
        continue;
      body += first ? "" : ",";
      body += encode_record(*shown);
      first = false;
    }
    if (at < records.size())
      return true;
    body += "]}";
    return false;
  };
  return reply;
}

}  // namespace lockstep
