// WebSocket frames, the server's side of them. Source: RFC 6455.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::kube {

// Of Sec-WebSocket-Accept: base64 of the SHA-1 of the client's key and a constant. sha1: 20 bytes.
std::string web_socket_accept(std::string_view key, const std::function<std::string(std::string_view)>& sha1);

struct WebSocketMessage {
  enum class Kind : unsigned char { kText, kBinary, kClose, kPing, kPong } kind = Kind::kBinary;
  std::string data;  // kClose: the two bytes of the code and the reason, or nothing
};

inline constexpr std::size_t kWebSocketMessageMax = 1 << 20;

// Reads what a client sends, in pieces of any size.
class WebSocketReader {
 public:
  using Take = std::function<void(WebSocketMessage)>;
  // Error: the client does not keep to the protocol, or sends a message longer than the bound. Nothing more is read
  // then.
  Result<void> feed(std::string_view bytes, const Take& take);

 private:
  Result<bool> read_frame(const Take& take);  // false: there is not a whole one yet

  std::string in_;
  std::size_t used_ = 0;
  std::string message_;  // its fragments so far
  bool fragmented_ = false;
  WebSocketMessage::Kind kind_ = WebSocketMessage::Kind::kBinary;
};

// A whole message as a server sends it.
std::string web_socket_frame(WebSocketMessage::Kind kind, std::string_view data);

}  // namespace lockstep::kube
