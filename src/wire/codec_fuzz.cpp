// libFuzzer entry over every decoder: the first byte chooses one, the rest is its input. What decodes must encode, and
// what was encoded must decode to the same text again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/hostlist.h"
#include "wire/api.h"
#include "wire/api_call.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/random_value.h"

namespace {

using namespace lockstep;

template <class Decode, class Encode>
void round_trip(std::string_view text, Decode decode, Encode encode) {
  const auto value = decode(text);
  if (!value.ok())
    return;
  const std::string once = encode(*value);
  const auto again = decode(once);
  CHECK(again.ok(), again.ok() ? "" : again.error().message);
  CHECK(encode(*again) == once);
}

using wire::kEncode;

constexpr unsigned kKinds = std::variant_size_v<Record>, kOthers = 25;

void run(unsigned which, std::string_view text) {
  if (which < kKinds) {
    const auto kind = static_cast<Kind>(which);
    round_trip(
        text, [kind](std::string_view t) { return decode_record(kind, t); },
        [](const Record& record) { return encode_record(record); });
    return;
  }
  switch (which - kKinds) {
    case 0:
      round_trip(
          text, [](std::string_view t) { return decode_entry(t); }, encode_entry);
      break;
    case 1: round_trip(text, decode_from_agent, kEncode); break;
    case 2: round_trip(text, decode_to_agent, kEncode); break;
    case 3: round_trip(text, decode_submit, kEncode); break;
    case 4: round_trip(text, decode_step_request, kEncode); break;
    case 5: round_trip(text, decode_update_job, kEncode); break;
    case 6: round_trip(text, decode_update_node, kEncode); break;
    case 7: round_trip(text, decode_partition, encode_partition); break;
    case 8: round_trip(text, decode_api_call, kEncode); break;
    case 9: round_trip(text, decode_api_reply, kEncode); break;
    case 10: round_trip(text, decode_cancel, kEncode); break;
    case 11: round_trip(text, decode_end, kEncode); break;
    case 12: round_trip(text, decode_token_request, kEncode); break;
    case 13: round_trip(text, decode_join_request, kEncode); break;
    case 14: round_trip(text, decode_started, kEncode); break;
    case 15: round_trip(text, decode_job_detail, kEncode); break;
    case 16: round_trip(text, decode_change, kEncode); break;
    case 17: round_trip(text, decode_job_rows, kEncode); break;
    case 18: round_trip(text, decode_plan_notes, kEncode); break;
    case 19: {
      const auto body = decode_submit_body(text);
      CHECK(!body.ok() || body->is_list || body->requests.size() == 1);
      break;
    }
    case 20: CHECK(!decode_error(text, 500).message.empty()); break;
    case 21: {
      FrameReader reader;
      std::size_t bytes = 0;
      const auto count = [&bytes](const Frame& frame) { bytes += frame.payload.size(); };
      for (std::size_t i = 0; i < text.size(); i += 7)
        if (!reader.feed(text.substr(i, 7), count).ok())
          break;
      CHECK(bytes <= text.size());
      break;
    }
    case 22: {
      const auto names = expand_hostlist(text);
      if (names.ok() && !names->empty())
        CHECK(*expand_hostlist(compress_hostlist(*names)) == *names);
      break;
    }
    case 23: {
      const auto set = IntervalSet::parse(text);
      if (set.ok())
        CHECK(*IntervalSet::parse(set->text()) == *set);
      break;
    }
    case 24: {  // sizes at and beyond every bound: read, or refused with a path
      std::uint64_t seed = 0;
      for (const char c : text.substr(0, 8)) seed = seed << 8 | static_cast<unsigned char>(c);
      Rng rng(seed);
      wire::random_beyond_bounds = true;
      const auto submit = decode_submit(encode(wire::random_value<SubmitRequest>(rng)));
      const auto hello = decode_from_agent(encode(wire::random_value<FromAgent>(rng)));
      wire::random_beyond_bounds = false;
      CHECK(submit.ok() || !submit.error().field.empty());
      CHECK(hello.ok() || !hello.error().field.empty());
      break;
    }
    default: break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0)
    run(data[0] % (kKinds + kOthers), {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
