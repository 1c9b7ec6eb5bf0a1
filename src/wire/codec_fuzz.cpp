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
#include "wire/container_notes.h"
#include "wire/container_word.h"
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

void submit_body(std::string_view text) {
  const auto body = decode_submit_body(text);
  CHECK(!body.ok() || body->is_list || body->requests.size() == 1);
}

// Frames that come in small pieces.
void frames(std::string_view text) {
  FrameReader reader;
  std::size_t bytes = 0;
  const auto count = [&bytes](const Frame& frame) { bytes += frame.payload.size(); };
  for (std::size_t i = 0; i < text.size(); i += 7)
    if (!reader.feed(text.substr(i, 7), count).ok())
      break;
  CHECK(bytes <= text.size());
}

void hostlist(std::string_view text) {
  const auto names = expand_hostlist(text);
  if (names.ok() && !names->empty())
    CHECK(*expand_hostlist(compress_hostlist(*names)) == *names);
}

void interval_set(std::string_view text) {
  const auto set = IntervalSet::parse(text);
  if (set.ok())
    CHECK(*IntervalSet::parse(set->text()) == *set);
}

// Sizes at and beyond every bound: read, or refused with a path.
void beyond_bounds(std::string_view text) {
  std::uint64_t seed = 0;
  for (const char c : text.substr(0, 8)) seed = seed << 8 | static_cast<unsigned char>(c);
  Rng rng(seed);
  wire::random_beyond_bounds = true;
  const auto submit = decode_submit(encode(wire::random_value<SubmitRequest>(rng)));
  const auto hello = decode_from_agent(encode(wire::random_value<FromAgent>(rng)));
  wire::random_beyond_bounds = false;
  CHECK(submit.ok() || !submit.error().field.empty());
  CHECK(hello.ok() || !hello.error().field.empty());
}

using Text = std::string_view;

// By number, which inputs that were kept name: new ones go to the end.
constexpr void (*kOthers[])(Text) = {
    [](Text t) {
      round_trip(
          t, [](Text entry) { return decode_entry(entry); }, encode_entry);
    },
    [](Text t) { round_trip(t, decode_from_agent, kEncode); },
    [](Text t) { round_trip(t, decode_to_agent, kEncode); },
    [](Text t) { round_trip(t, decode_submit, kEncode); },
    [](Text t) { round_trip(t, decode_step_request, kEncode); },
    [](Text t) { round_trip(t, decode_update_job, kEncode); },
    [](Text t) { round_trip(t, decode_update_node, kEncode); },
    [](Text t) { round_trip(t, decode_partition, encode_partition); },
    [](Text t) { round_trip(t, decode_api_call, kEncode); },
    [](Text t) { round_trip(t, decode_api_reply, kEncode); },
    [](Text t) { round_trip(t, decode_cancel, kEncode); },
    [](Text t) { round_trip(t, decode_end, kEncode); },
    [](Text t) { round_trip(t, decode_token_request, kEncode); },
    [](Text t) { round_trip(t, decode_join_request, kEncode); },
    [](Text t) { round_trip(t, decode_renew_request, kEncode); },
    [](Text t) { round_trip(t, decode_started, kEncode); },
    [](Text t) { round_trip(t, decode_job_detail, kEncode); },
    [](Text t) { round_trip(t, decode_change, kEncode); },
    [](Text t) { round_trip(t, decode_job_rows, kEncode); },
    [](Text t) { round_trip(t, decode_plan_notes, kEncode); },
    submit_body,
    [](Text t) { CHECK(!decode_error(t, 500).message.empty()); },
    frames,
    hostlist,
    interval_set,
    beyond_bounds,
    [](Text t) { round_trip(t, decode_container_word, encode_container_word); },
    [](Text t) { round_trip(t, decode_container_notes, encode_container_notes); },
};

constexpr unsigned kKinds = std::variant_size_v<Record>, kAll = kKinds + unsigned{std::size(kOthers)};

void run(unsigned which, std::string_view text) {
  if (which >= kKinds) {
    kOthers[which - kKinds](text);
    return;
  }
  const auto kind = static_cast<Kind>(which);
  round_trip(
      text, [kind](std::string_view t) { return decode_record(kind, t); },
      [](const Record& record) { return encode_whole(record); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0)
    run(data[0] % kAll, {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
