// SPDY/3.1, the server's side of it: several streams over one connection, as older kubectl and port forwarding use it.
// Source: "SPDY Protocol - Draft 3.1" (dev.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1). Flow control is
// left out, as Kubernetes' own library does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::kube {

inline constexpr std::size_t kSpdyFrameMax = 1 << 20;     // bytes of one frame
inline constexpr std::size_t kSpdyHeadersMax = 64 << 10;  // of a stream's headers, unpacked
inline constexpr std::size_t kSpdyStreamsMax = 256;       // open at a time

using SpdyHeaders = std::map<std::string, std::string, std::less<>>;  // names in lower case

class SpdySession {
 public:
  struct Events {
    std::function<void(std::uint32_t stream, const SpdyHeaders& headers, bool last)> opened;
    std::function<void(std::uint32_t stream, std::string_view bytes, bool last)> data;
    std::function<void(std::uint32_t stream)> reset;
    std::function<void()> going;  // the client opens no more
  };
  // send: what goes to the client.
  SpdySession(Events events, std::function<void(std::string bytes)> send);
  ~SpdySession();
  SpdySession(const SpdySession&) = delete;
  SpdySession& operator=(const SpdySession&) = delete;

  // What the client sends, in pieces of any size. Error: it does not keep to the protocol; nothing more is read then.
  Result<void> feed(std::string_view bytes);

  void reply(std::uint32_t stream);  // it is taken
  void data(std::uint32_t stream, std::string_view bytes, bool last);
  void reset(std::uint32_t stream);

 private:
  struct Packing;  // zlib's state, one for each way
  Result<void> control(std::string_view frame);
  Result<SpdyHeaders> unpack(std::string_view block);

  Events events_;
  std::function<void(std::string)> send_;
  std::unique_ptr<Packing> packing_;
  std::string in_;
  struct Open {
    bool reads = true, writes = true;  // the client still sends there, and so do we
  };
  void close_side(std::uint32_t stream, bool Open::*side);
  std::map<std::uint32_t, Open> open_;
  std::uint32_t last_ = 0;  // the highest that the client has opened
};

// For tests: a client's frames.
std::string spdy_data_frame(std::uint32_t stream, std::string_view bytes, bool last);
const std::string& spdy_dictionary();

}  // namespace lockstep::kube
