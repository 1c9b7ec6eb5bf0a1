#include "frontends/kube/server/web_socket.h"

#include "base/text.h"
#include "frontends/kube/machinery/encodings.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kKeyEnd = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
constexpr unsigned kContinued = 0, kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10;
constexpr std::size_t kControlMax = 125;

std::uint64_t number_in(std::string_view bytes) {
  std::uint64_t out = 0;
  for (const char c : bytes) out = out << 8 | static_cast<unsigned char>(c);
  return out;
}

Error bad_frame(std::string_view why) { return invalid(format("WebSocket: {}", why)); }

unsigned code_of(WebSocketMessage::Kind kind) {
  switch (kind) {
    case WebSocketMessage::Kind::kText: return kText;
    case WebSocketMessage::Kind::kBinary: return kBinary;
    case WebSocketMessage::Kind::kClose: return kClose;
    case WebSocketMessage::Kind::kPing: return kPing;
    case WebSocketMessage::Kind::kPong: return kPong;
  }
  return kBinary;
}

}  // namespace

std::string web_socket_accept(std::string_view key, const std::function<std::string(std::string_view)>& sha1) {
  return base64_text(sha1(std::string(key) + std::string(kKeyEnd)));
}

Result<bool> WebSocketReader::read_frame(const Take& take) {
  const std::string_view in = std::string_view(in_).substr(used_);
  if (in.size() < 2)
    return false;
  const auto first = static_cast<unsigned char>(in[0]), second = static_cast<unsigned char>(in[1]);
  const bool last = (first & 0x80) != 0, masked = (second & 0x80) != 0;
  const unsigned code = first & 0x0f;
  const bool control = code >= kClose;
  if ((first & 0x70) != 0)
    return bad_frame("a frame uses an extension that was not agreed on");
  if (!masked)
    return bad_frame("a client's frame is not masked");
  std::uint64_t length = second & 0x7f;
  const std::size_t more = length == 126 ? 2 : length == 127 ? 8 : 0;
  if (in.size() < 2 + more + 4)
    return false;
  if (more > 0)
    length = number_in(in.substr(2, more));
  if (control && (length > kControlMax || !last))
    return bad_frame("a control frame is too long, or in parts");
  if (length > kWebSocketMessageMax || message_.size() + length > kWebSocketMessageMax)
    return bad_frame("a message is longer than a megabyte");
  const std::size_t head = 2 + more + 4;
  if (in.size() < head + length)
    return false;
  const std::string_view mask = in.substr(2 + more, 4);
  std::string data(in.substr(head, static_cast<std::size_t>(length)));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(data[i] ^ mask[i % 4]);
  used_ += head + static_cast<std::size_t>(length);
  using Kind = WebSocketMessage::Kind;
  if (control) {
    if (code > kPong)
      return bad_frame("a frame is of an unknown kind");
    take({code == kClose ? Kind::kClose : code == kPing ? Kind::kPing : Kind::kPong, std::move(data)});
    return true;
  }
  if (code > kBinary || (code == kContinued) != fragmented_)
    return bad_frame("a frame is of an unknown kind, or out of order");
  if (code != kContinued)
    kind_ = code == kText ? Kind::kText : Kind::kBinary;
  message_ += data;
  fragmented_ = !last;
  if (last)
    take({kind_, std::exchange(message_, {})});
  return true;
}

Result<void> WebSocketReader::feed(std::string_view bytes, const Take& take) {
  in_.append(bytes);
  for (;;) {
    const bool more = TRY(read_frame(take));
    if (!more)
      break;
  }
  in_.erase(0, std::exchange(used_, 0));
  return {};
}

std::string web_socket_frame(WebSocketMessage::Kind kind, std::string_view data) {
  std::string out;
  out += static_cast<char>(0x80 | code_of(kind));
  const auto add = [&](std::uint64_t length, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(length >> (8 * i) & 0xff);
  };
  if (data.size() < 126) {
    add(data.size(), 1);
  } else if (data.size() <= 0xffff) {
    add(126, 1);
    add(data.size(), 2);
  } else {
    add(127, 1);
    add(data.size(), 8);
  }
  return out.append(data);
}

}  // namespace lockstep::kube
