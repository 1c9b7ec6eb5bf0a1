// ClientChannels: the numbered channels of a client that execs or attaches, whatever carries them.
//
//   0 input, 1 output, 2 errors, 3 how it ended, 4 sizes of the terminal
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontends/kube/server/spdy.h"
#include "frontends/kube/server/web_socket.h"
#include "ports/http.h"
#include "ports/loop.h"

namespace lockstep::kube {

// Of a client who sends what has to be answered, and never reads.
inline constexpr std::size_t kUnreadMost = 4 * kStreamHighWater;

class ClientChannels {
 public:
  struct Events {
    std::function<void(unsigned channel, std::string_view bytes)> data;
    std::function<void(unsigned channel)> ended;  // the client says nothing more there
    std::function<void()> ready;                  // all of its channels are there
    std::function<void()> gone;                   // the client is, or has broken the protocol; once
    std::function<void()> drained;                // what was sent has left
  };
  virtual ~ClientChannels() = default;
  // The connection has been upgraded.
  virtual void begin(std::unique_ptr<Stream> stream, Events events) = 0;
  virtual void send(unsigned channel, std::string_view bytes) = 0;
  virtual void finish() = 0;  // that was all; the connection closes behind it
  virtual std::size_t unsent() const = 0;
  virtual void pause(bool reading_paused) = 0;

  // What the upgrade answers.
  std::string protocol;        // of the Upgrade header
  bool told_in_status = true;  // how a command ended; before version 4 in words, and failures alone
  std::map<std::string, std::string> headers;
};

// WebSocket: each message begins with its channel, as a byte ("v4.channel.k8s.io", "v5.…", and where the client names
// no protocol) or as a digit in front of base64 ("base64.channel.k8s.io"). Null: the client names protocols, and none
// of `spoken`.
// greets: an empty message on channel 1 tells the client that it is connected.
enum class Greets : bool { kNot, kYes };
using Protocols = std::vector<std::string_view>;
inline const Protocols kExecProtocols = {"v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io",
                                         "v4.base64.channel.k8s.io", "base64.channel.k8s.io"};
std::unique_ptr<ClientChannels> web_socket_channels(const HttpRequest& http,
                                                    const std::function<std::string(std::string_view)>& sha1,
                                                    const Protocols& spoken = kExecProtocols,
                                                    Greets greets = Greets::kYes);
// SPDY: a stream for each channel that the client asks for.
std::unique_ptr<ClientChannels> spdy_channels(const HttpRequest& http, std::size_t streams);

// Which of the names that the client offers, separated by commas, we speak first. "": none.
std::string chosen_protocol(const std::string& offered, const Protocols& spoken);
// How a WebSocket is accepted; protocol: "" = none is named.
std::map<std::string, std::string> web_socket_answer(const HttpRequest& http,
                                                     const std::function<std::string(std::string_view)>& sha1,
                                                     const std::string& protocol);
bool asks_for(const HttpRequest& http, std::string_view upgrade);

}  // namespace lockstep::kube
