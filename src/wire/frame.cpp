// Frames: cutting a byte stream. See the header for the layout.
#include "wire/frame.h"

#include <vector>

#include "base/check.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kKeptBytes = 64 << 10;  // of memory, once a long frame is through
constexpr std::size_t kHeadBytes = 9;         // type and stream: what the length at least counts

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

void append_big_endian(std::string& out, std::uint64_t value, unsigned bytes) {
  while (bytes-- > 0) out += static_cast<char>(value >> (8 * bytes));
}

}  // namespace

std::string encode_frame(std::uint8_t type, std::uint64_t stream, std::string_view payload) {
  CHECK(payload.size() <= kPayloadMax, "a frame longer than the peer accepts");
  std::string out;
  out.reserve(kLengthBytes + kHeadBytes + payload.size());
  append_big_endian(out, kHeadBytes + payload.size(), kLengthBytes);
  out += static_cast<char>(type);
  append_big_endian(out, stream, 8);
  out += payload;
  return out;
}

std::size_t any_frame_bound(std::uint8_t) { return kPayloadMax; }

std::size_t link_frame_bound(std::uint8_t type) {
  switch (static_cast<LinkFrame>(type)) {
    case LinkFrame::kMessage: return kPayloadMax;
    case LinkFrame::kOpenStream: return 16 << 20;  // the nodes below a hop, each with its ticket
    case LinkFrame::kApiCall:
    case LinkFrame::kApiReply:
    case LinkFrame::kStreamData: return 1 << 20;
    case LinkFrame::kStreamClose:
    case LinkFrame::kStreamWindow: return 64;
    case LinkFrame::kEnvironment: return 64 << 10;  // with the names of all that is to be forgotten
  }
  return 1 << 10;  // of a later version
}

std::size_t step_frame_bound(std::uint8_t type) {
  return type == static_cast<std::uint8_t>(IoFrame::kAttach) ? 16 << 20 : 1 << 20;
}

Result<void> FrameReader::feed(std::string_view bytes, const std::function<void(Frame)>& on_frame) {
  // Whole frames are cut straight from what arrived; only a torn one is kept.
  if (!pending_.empty()) {
    pending_ += bytes;
    bytes = pending_;
  }
  std::vector<Frame> whole;
  Result<void> result;
  while (bytes.size() >= kLengthBytes) {
    const std::uint64_t length = big_endian(bytes.substr(0, kLengthBytes));
    if (length < kHeadBytes || length > kFrameMax) {
      result = invalid(format("a frame of {} bytes is not between {} and {}", length, kHeadBytes, kFrameMax));
      bytes = {};
      break;
    }
    if (bytes.size() <= kLengthBytes)
      break;
    const auto type = static_cast<std::uint8_t>(bytes[kLengthBytes]);
    if (length - kHeadBytes > bound_(type)) {
      result =
          invalid(format("a frame of type {} has {} bytes, more than {}", type, length - kHeadBytes, bound_(type)));
      bytes = {};
      break;
    }
    if (bytes.size() < kLengthBytes + length)
      break;
    const std::string_view body = bytes.substr(kLengthBytes, length);
    whole.push_back(
        {static_cast<std::uint8_t>(body[0]), big_endian(body.substr(1, 8)), std::string(body.substr(kHeadBytes))});
    bytes.remove_prefix(kLengthBytes + length);
  }
  if (pending_.empty())
    pending_.assign(bytes);
  else
    pending_.erase(0, pending_.size() - bytes.size());
  if (pending_.empty() && pending_.capacity() > kKeptBytes)
    pending_.shrink_to_fit();
  // Called last: a callback may feed again, or drop this reader.
  for (Frame& frame : whole) on_frame(std::move(frame));
  return result;
}

}  // namespace lockstep
