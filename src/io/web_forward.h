// A request that is passed on to an HTTPS server which others run, and its answer as it comes. Beside the loop's other
// work: nobody waits, however long the answer goes on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "io/reply_flow.h"
#include "io/tls.h"
#include "ports/loop.h"

namespace lockstep {

struct WebForward {
  std::string address;  // an IP address, dialled where there is no stream
  std::uint16_t port = 443;
  WebTrust trust;
  std::string method;                         // "GET"
  std::string head;                           // request line and headers, with the empty line at the end
  std::string body;                           // as long as the head says
  Duration patience = seconds(60);            // until the head of the answer
  std::shared_ptr<Stream> through = nullptr;  // to the server already
};

struct ForwardTold {
  std::function<void(ReplyHead)> head;
  std::function<void(std::string_view)> body;
  std::function<void(Result<void>)> end;  // once, last
};

// The connection is closed when this goes, and nobody is told then.
class WebForwarding {
 public:
  virtual ~WebForwarding() = default;
  virtual void pause(bool paused) = 0;
};

// Told on the loop's thread, never from inside this call.
std::shared_ptr<WebForwarding> web_forward(EventLoop& loop, WebForward ask, ForwardTold told);

}  // namespace lockstep
